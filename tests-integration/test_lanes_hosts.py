"""Lanes between hosts: by TLS where a runner can connect to the mission; else by files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.hosts import Host, hosts, shared_folder, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain_testkit.programs import Process

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")

MISSION = """
import os, sys, trio
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from grain.worker import Call

ONE = Cores(1)
address, folder = sys.argv[1:]

async def mark(folder, number):
    import os
    fd = os.open(folder + "/marks", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{number}\\n".encode())
    os.close(fd)

async def held(folder):
    import os, trio
    open(folder + "/held", "w").close()
    while not os.path.exists(folder + "/go"):
        await trio.sleep(0.05)

async def call(executor, fn, *arguments):
    over, got = trio.Event(), []
    call = Call(fn, arguments, {})
    task = executor.submit_call(ONE, call, lambda ended: (got.append(ended), over.set()))
    in_lane = task in executor._session.aboard
    await over.wait()
    got[0].unwrap()
    return in_lane

async def main():
    connect = GnawConnector(address, start=False).connect
    events = []
    async with RemoteExecutor(
        address, name="m", connect=connect, on_event=events.append
    ) as executor:
        await call(executor, mark, folder, 0)
        while not os.path.exists(folder + "/look"):
            await trio.sleep(0.05)
        lanes, number = executor._lanes, 1
        while not (lanes.traffic and lanes.traffic[0].idle):
            await call(executor, mark, folder, number)
            number += 1
        print(await call(executor, held, folder), flush=True)
        for number in range(number, number + 50):
            in_lane = await call(executor, mark, folder, number)
        print(in_lane, number, flush=True)
    print([event.text for event in events if type(event).__name__ == "Remark"], flush=True)

trio.run(main)
"""

FLOODS = """
import json, sys, trio
from collections import Counter
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from grain.worker import Call

ONE, AT_ONCE = Cores(1), 2000

async def square(number):
    import socket, time

    time.sleep(0.005)
    return number * number, socket.gethostname()

async def flood(executor):
    values = {}
    for number in range(AT_ONCE):
        call = Call(square, (number,), {})
        executor.submit_call(ONE, call, values.setdefault(number, []).append)
    await executor.join()
    right, took = 0, Counter()
    for number, [ended] in values.items():
        value, host = ended.unwrap()
        right += value == number * number
        took[host] += 1
    return right, took

async def main():
    connect = GnawConnector(sys.argv[1], start=False).connect
    async with RemoteExecutor(sys.argv[1], name="m", connect=connect) as executor:
        took = Counter()
        while min(took["n1"], took["n2"]) < AT_ONCE / 5:
            right, more = await flood(executor)
            assert right == AT_ONCE, right
            took += more
    print("took", json.dumps(took), flush=True)

trio.run(main)
"""


class Site:
    """Hosts that share a folder: a mission and the scheduler on one, a worker on each other."""

    def __init__(
        self, one: Host, other: Host, folder: Path, until_the_end: ExitStack, *more: Host
    ) -> None:
        self.one = one
        self.other = other
        self.folder = folder
        self._until_the_end = until_the_end
        self._before: set[str] = set()
        self._address = f"edge://{folder}/edge"
        self._head = self.start(one, "-m", "grain.head", "--address", self._address)
        words = ("--url", self._address, "--res", '{"Cores": 2}')
        for host in (other, *more):
            self.start(host, "-m", "grain.worker", *words)

    def start(self, host: Host, *words: str) -> Process:
        names = {"HOME": str(self.folder), "XDG_STATE_HOME": f"{self.folder}/state"}
        process = subprocess.Popen(
            host.entering([sys.executable, *words], str(self.folder)),
            env={**os.environ, **names},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._until_the_end.enter_context(process)
        self._until_the_end.callback(process.kill)
        return process

    async def mission(self) -> Process:
        """Start a mission that makes calls until there is a lane.

        Return it after its first call: until then the worker may try several ways.
        """
        (self.folder / "mission.py").write_text(MISSION)
        mission = self.start(self.one, "mission.py", self._address, str(self.folder))
        while not (self.folder / "marks").exists():
            await trio.sleep(0.05)
        self._before = self.connected()
        (self.folder / "look").touch()
        return mission

    def floods(self) -> Process:
        """Start a mission that makes thousands of calls at once until both workers had many."""
        (self.folder / "floods.py").write_text(FLOODS)
        return self.start(self.one, "floods.py", self._address)

    def lanes(self) -> set[str]:
        """Return the ports by which runners are connected since."""
        return self.connected() - self._before

    def doors(self) -> list[Path]:
        """Return what missions have in the directory of the meeting."""
        return list((self.folder / "edge.d").glob("door.*"))

    async def until_held(self) -> None:
        while not (self.folder / "held").exists():
            await trio.sleep(0.05)

    def let_go(self) -> None:
        (self.folder / "go").touch()

    def connected(self, other: Host | None = None) -> set[str]:
        """Return the ports of the first host to which the second is connected, or another one."""
        address = (other or self.other).address
        words = self.one.entering(["ss", "-Htn", "state", "established"])
        rows = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return set(re.findall(rf"{self.one.address}:(\d+) +{address}:", rows))

    def marks(self) -> list[int]:
        return [int(word) for word in (self.folder / "marks").read_text().split()]


@pytest.fixture
def site() -> Iterator[Site]:
    with (
        shared_folder() as folder,
        hosts("login", "n1") as (login, node),
        ExitStack() as until_the_end,
    ):
        yield Site(login, node, folder, until_the_end)


async def said(mission: Process) -> list[str]:
    assert mission.stdout is not None
    line: str = await trio.to_thread.run_sync(mission.stdout.readline)
    return line.split()


async def test_a_runner_on_another_host_connects_by_the_network(site: Site) -> None:
    with trio.fail_after(240):
        mission = await site.mission()
        await site.until_held()
        assert site.lanes()
        site.let_go()
        assert ["True"] == await said(mission)
        in_lane, last = await said(mission)
        assert ["[]"] == await said(mission)

    assert "True" == in_lane
    assert list(range(int(last) + 1)) == site.marks()


async def test_a_mission_listens_on_the_interfaces_that_it_may_use_and_else_has_lanes_by_files(
    site: Site,
) -> None:
    site.one.interfaces = "lo"
    with trio.fail_after(240):
        mission = await site.mission()
        await site.until_held()
        listens = site.one.listens_on()
        assert site.doors()
        assert not site.lanes()
        site.let_go()
        assert ["True"] == await said(mission)
        in_lane, last = await said(mission)

    assert "127.0.0.1" in listens
    assert "True" == in_lane
    assert list(range(int(last) + 1)) == site.marks()


async def test_a_firewall_before_the_mission_lets_its_lanes_go_by_files(site: Site) -> None:
    with trio.fail_after(240):
        while not site.connected():
            await trio.sleep(0.1)
        site.one.refuse_connections(reset=True)
        mission = await site.mission()
        await site.until_held()
        assert site.doors()
        assert not site.lanes()
        site.let_go()
        assert ["True"] == await said(mission)
        in_lane, last = await said(mission)
        remarks = " ".join(await said(mission))
        await trio.to_thread.run_sync(mission.wait)

    assert [] == site.doors()
    assert 1 == remarks.count(" cannot connect to this process")
    assert "True" == in_lane
    assert list(range(int(last) + 1)) == site.marks()


async def test_a_call_whose_connection_is_cut_has_its_outcome_by_the_scheduler(site: Site) -> None:
    with trio.fail_after(300):
        mission = await site.mission()
        await site.until_held()
        [port] = site.lanes()
        site.one.nft(f"""
            table inet cut {{
              chain in {{
                type filter hook input priority 0;
                tcp dport {port} drop
              }}
              chain out {{
                type filter hook output priority 0;
                tcp sport {port} drop
              }}
            }}
        """)
        site.let_go()
        assert ["True"] == await said(mission)
        _, last = await said(mission)

    assert list(range(int(last) + 1)) == site.marks()


@pytest.mark.nightly  # a runner tries each way for seconds
async def test_a_flood_over_three_hosts_has_all_outcomes_with_a_firewall_between_two() -> None:
    """The runner beyond it cannot come to the mission, and its outcomes go by the scheduler."""
    with (
        shared_folder() as folder,
        hosts("login", "n1", "n2") as (login, node, apart),
        ExitStack() as until_the_end,
        trio.fail_after(480),
    ):
        site = Site(login, node, folder, until_the_end, apart)
        while not (site.connected(node) and site.connected(apart)):
            await trio.sleep(0.1)
        login.refuse_connections(apart.address)
        mission = site.floods()
        text, _ = await trio.to_thread.run_sync(mission.communicate)

    assert {"n1", "n2"} == json.loads(text.removeprefix("took ")).keys()
