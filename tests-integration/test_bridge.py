"""A mission, a scheduler and workers of two clusters that meet at a bridge, as real processes.

The clusters are network namespaces, which reach nothing but the host of the bridge.
"""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from command_site import Site

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.hosts import Clusters, clusters, shared_folder, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")

GROUP = 8  # jobs of which each waits for the same sign
PORT = 4747
PATIENT = 600.0
"""Seconds for which a scheduler waits for who is away: no job of theirs begins again, also where a
busy machine lets them come back late."""

HOSTNAMES = f"""
from grain.delayed import delayed, run
from grain.resource import Node
from grain import GVAR

@delayed(nout=2) # the function has 2 return values
async def hostname(i):
    import os, socket, trio
    with open("FOLDER/begun", "a") as begun:
        print(i, socket.gethostname(), file=begun)
    while not os.path.exists("FOLDER/go" + str(i // {GROUP})):
        await trio.sleep(0.02)
    cp = await trio.run_process(['hostname'], capture_stdout=True)
    return str(GVAR.res), cp.stdout.decode()

async def main():
    summary = ""
    for i in range({3 * GROUP}):
        res, hn = (hostname @ Node(N=1,M=1))(i) # Node is Cores & Memory
        summary += f"Job {{i}} with " + res + " is executed on a machine with hostname " + hn
    print("Waiting for calculation to start ...")
    print(await summary)

run(main)
"""
"""The tutorial's program, of which each job says that it begins, and waits for its group's sign."""


WORKER = ("-m", "grain.worker")
IMPATIENT = (
    "-c",
    "import sys; from grain.worker.agent.command import main; sys.exit(main(seek=0.5))",
)
"""A worker that does not wait for half a minute before it looks for a direct way."""


class World:
    """Two clusters with a host each, and a directory that has the address of a bridge.

    Args:
        network: the clusters.
        site: the directory, as the host of the first cluster sees it.
    """

    def __init__(self, network: Clusters, site: Site) -> None:
        self.network = network
        self.here = site
        self.far = site.at(network.hosts["far"])

    @contextmanager
    def bridge(self) -> Iterator[subprocess.Popen[str]]:
        """Serve the bridge."""
        site = self.here.at(self.network.relay)
        process = subprocess.Popen(
            site.command("-m", "grain.cli", "bridge", "serve"), stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            assert "a bridge listens at" in process.stdout.readline()
            yield process
        finally:
            process.kill()
            process.communicate()

    @contextmanager
    def worker(self, site: Site, *program: str) -> Iterator[None]:
        """Start a worker of one core, by Python's options for it if it is a special one."""
        assert site.host is not None
        words = [*(program or WORKER), "--url", site.address]
        words += ["--res", '{"Cores": 1, "Memory": 1}']
        with self.log(site).open("wb") as log:
            process = subprocess.Popen(site.command(*words), env=site.environ, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()

    def log(self, site: Site) -> Path:
        """Return the file of what the worker of a host logs."""
        assert site.host is not None
        return site.folder / f"{site.host.name}.log"

    def open_gate(self, group: int) -> None:
        """Let the jobs of a group end."""
        (self.here.folder / f"go{group}").touch()

    async def until_both_wait(self, group: int) -> None:
        """Wait until each worker has begun a job of a group, which waits for its sign."""
        begun = self.here.folder / "begun"
        there: set[str] = set()
        while there != {"here", "far"}:
            await trio.sleep(0.05)
            rows = (
                [line.split() for line in begun.read_text().splitlines()] if begun.exists() else []
            )
            there = {host for number, host in rows if int(number) // GROUP == group}

    async def check_results(self, mission: subprocess.Popen[str]) -> None:
        """Await the mission's end; each job has begun once, and its result is there once."""
        out, error = await trio.to_thread.run_sync(mission.communicate)
        assert 0 == mission.returncode, error
        got = re.findall(r"Job (\d+) with .* is executed on .* hostname (\w+)", out)
        assert list(map(str, range(3 * GROUP))) == [number for number, _ in got]
        assert {"here", "far"} == {host for _, host in got}
        begun = (self.here.folder / "begun").read_text().splitlines()
        assert sorted(f"{number} {host}" for number, host in got) == sorted(begun)


@pytest.fixture
def world() -> Iterator[World]:
    """Two clusters, each with a host; the bridge is to be served yet."""
    with shared_folder() as folder, clusters(one=["here"], two=["far"]) as network:
        site = Site(folder, network.hosts["here"])
        key = folder / "bridge.key"
        words = [sys.executable, "-m", "grain.cli", "bridge", "key"]
        with key.open("wb") as file:
            subprocess.run(words, check=True, stdout=file)
        site.address = f"bridge://@{key}@{network.relay.address}:{PORT}"
        toml = folder / "grain.toml"
        toml.write_text(re.sub(r'address = ".*?"', f'address = "{site.address}"', toml.read_text()))
        (folder / "opt.py").write_text(HOSTNAMES.replace("FOLDER", str(folder)))
        yield World(network, site)


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.nightly)])
async def test_a_bridge_that_is_killed_loses_nothing(world: World, times: int) -> None:
    """Jobs end while the bridge is away; the clusters have no other way to each other."""
    with trio.fail_after(300), ExitStack() as stack:
        bridge = stack.enter_context(world.bridge())
        stack.enter_context(world.here.gnaw(PATIENT))
        world.open_gate(0)
        with world.worker(world.here), world.worker(world.far), world.here.script("opt.py") as opt:
            for group in (1, 2):
                await world.until_both_wait(group)
                if group <= times:
                    bridge.kill()
                    bridge.wait()
                world.open_gate(group)
                if group <= times:
                    bridge = stack.enter_context(world.bridge())
            await world.check_results(opt)
    assert "(relay)" in world.log(world.far).read_text()


@pytest.mark.parametrize("seconds", [2, pytest.param(20, marks=pytest.mark.nightly)])
async def test_a_cut_costs_nothing_but_time(world: World, seconds: int) -> None:
    """The bridge vanishes for both clusters, without a word; jobs end meanwhile.

    The longer cut is as long as the silence after which the bridge counts as lost.
    """
    with trio.fail_after(300), world.bridge(), world.here.gnaw(PATIENT):
        world.open_gate(0)
        with world.worker(world.here), world.worker(world.far), world.here.script("opt.py") as opt:
            await world.until_both_wait(1)
            world.network.relay.cut()
            world.open_gate(1)
            await trio.sleep(seconds)
            world.network.relay.mend()
            await world.until_both_wait(2)
            world.open_gate(2)
            await world.check_results(opt)


async def test_a_network_that_loses_packets_loses_no_results(world: World) -> None:
    """One of a hundred, everywhere and in both directions."""
    for host in (world.network.relay, *world.network.hosts.values()):
        host.lose(1)
    with trio.fail_after(300), world.bridge(), world.here.gnaw(PATIENT):
        world.open_gate(0)
        world.open_gate(2)
        with world.worker(world.here), world.worker(world.far), world.here.script("opt.py") as opt:
            await world.until_both_wait(1)
            world.open_gate(1)
            await world.check_results(opt)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(IMPATIENT, id="after half a second"),
        pytest.param(WORKER, id="after half a minute", marks=pytest.mark.nightly),
    ],
)
async def test_what_the_bridge_carries_goes_over_to_a_direct_way_that_opens(
    world: World, program: tuple[str, str]
) -> None:
    """It is looked for; jobs that run meanwhile go on, and run once."""
    with (
        trio.fail_after(300),
        world.bridge() as bridge,
        world.here.gnaw(PATIENT),
        world.worker(world.here),
        world.worker(world.far, *program),
        world.here.script("opt.py") as opt,
    ):
        await world.until_both_wait(0)
        assert "(relay)" in world.log(world.far).read_text()
        world.network.open_way("one", "two")
        while "(reverse)" not in world.log(world.far).read_text():
            await trio.sleep(0.1)
        bridge.kill()
        bridge.wait()
        for group in range(3):
            world.open_gate(group)
            await world.until_both_wait(min(group + 1, 2))
        await world.check_results(opt)


@pytest.mark.parametrize("way", [("two", "one", "tcp"), ("one", "two", "reverse")])
async def test_the_bridge_carries_only_what_finds_no_direct_way(
    world: World, way: tuple[str, str, str]
) -> None:
    """One cluster may connect to the other one, whichever it is: the bridge may leave for good."""
    source, target, transport = way
    world.network.open_way(source, target)
    with trio.fail_after(300), world.bridge() as bridge, world.here.gnaw(PATIENT):
        world.open_gate(0)
        far = world.worker(world.far, *IMPATIENT)
        with world.worker(world.here), far, world.here.script("opt.py") as opt:
            await world.until_both_wait(1)
            # On a busy machine the relay may be faster at first.
            while f"({transport})" not in world.log(world.far).read_text():
                await trio.sleep(0.05)
            bridge.kill()
            bridge.wait()
            world.open_gate(1)
            await world.until_both_wait(2)
            world.open_gate(2)
            await world.check_results(opt)
