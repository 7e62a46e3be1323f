"""A mission that is started on one login host and looked after from another; they share a home."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from command_site import Site

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.hosts import Host, hosts, shared_folder, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")

COUNT = 40  # tasks
ENERGIES = '''
import sys
from grain.delayed import delayed, run
from grain.resource import Cores
from grain.worker.external import run_external

@delayed(cache_hfn="args")
async def energy(i):
    script = """
        cd FOLDER
        until test $0 -lt HALF || test -e go; do sleep 0.05; done
        echo $0 >>energies
    """
    await run_external(["sh", "-c", script, str(i)])
    return i

async def main():
    for one in [(energy @ Cores(1))(i) for i in range(int(sys.argv[1]))]:
        print("energy", await one, flush=True)

run(main)
'''
"""A mission of so many tasks; after half of them, the others wait for a sign."""


class Login:
    """A terminal on a host, as ssh gives one: a session with a shell, which ends with it.

    Args:
        site: where it is.
    """

    def __init__(self, site: Site) -> None:
        assert site.host is not None
        self._terminal, theirs = os.openpty()
        words = ["setsid", "--ctty", "--wait", "bash", "--norc", "-i"]
        self._shell = subprocess.Popen(
            site.host.entering(words, str(site.folder)),
            env={**site.environ, "PS1": "$ "},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)

    async def type(self, line: str, answer: str) -> str:
        """Type a line, and wait for an answer; return it."""
        os.write(self._terminal, f"{line}\n".encode())
        shown = ""
        while not re.search(answer, shown):
            await trio.lowlevel.wait_readable(self._terminal)
            shown += os.read(self._terminal, 4096).decode(errors="replace").replace("\r", "")
        return shown

    async def close(self) -> None:
        """Close the window: the terminal goes, and all processes of the session get SIGHUP."""
        os.close(self._terminal)
        await trio.to_thread.run_sync(self._shell.wait)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A home directory that all hosts see."""
    with shared_folder() as folder:
        yield folder


@pytest.fixture
def logins(folder: Path) -> Iterator[tuple[Site, Site, Site]]:
    """Two login hosts, and a node."""
    with hosts("login1", "login2", "n1") as machines:
        site = Site(folder)
        site.environ["HOME"] = str(folder)
        (folder / "opt.py").write_text(
            ENERGIES.replace("FOLDER", str(folder)).replace("HALF", str(COUNT // 2))
        )
        (folder / "energies").touch()
        one, two, node = (site.at(host) for host in machines)
        yield one, two, node


async def listed(site: Site) -> dict[str, dict[str, Any]]:
    """Return what `grain missions` lists, by label."""
    done = await site.grain("missions", "--json")
    assert 0 == done.returncode, done.stderr
    return {one["label"]: one for one in json.loads(done.stdout)}


async def kill(host: Host | None, *pids: int) -> None:
    """Send SIGKILL to processes of a host."""
    assert host is not None
    words = host.entering(["kill", "-KILL", *map(str, pids)])
    await trio.to_thread.run_sync(lambda: subprocess.run(words, check=True))


async def until_energies(folder: Path, count: int) -> None:
    """Wait until so many tasks have ended."""
    energies = folder / "energies"
    while len(energies.read_text().split()) < count:
        await trio.sleep(0.05)


def attached(site: Site, name: str) -> Any:
    """Follow a mission."""
    return site.script("-m", "grain.cli", "attach", "-n", "100000", name)


async def test_a_mission_outlives_its_login_and_is_resumed_on_another_host(
    logins: tuple[Site, Site, Site], folder: Path
) -> None:
    """Its terminal is closed, it is followed from the other host, killed, and resumed there."""
    one, two, node = logins
    with trio.fail_after(300), one.gnaw(), node.worker("w", Cores=2):
        login = Login(one)
        grain = f"{sys.executable} -m grain.cli"
        shown = await login.type(f"{grain} run -d --name night opt.py {COUNT}", "night/?@1/output")
        assert "night runs on, also when you log out" in shown
        await login.close()

        await until_energies(folder, COUNT // 2)
        first = (await listed(two))["night@1"]
        assert ("running", "login1") == (first["state"], first["host"])
        again = await two.grain("resume", "night")
        assert "night@1 runs on login1: there is nothing to resume" in again.stderr
        with attached(two, "night") as follower:
            assert follower.stdout is not None
            # Its results are in the cache before it has them.
            last = f"energy {COUNT // 2 - 1}\n"
            while await trio.to_thread.run_sync(follower.stdout.readline) != last:
                pass
            await kill(one.host, first["pid"])
            _, error = await trio.to_thread.run_sync(follower.communicate)
            assert (137, "night@1 was killed by SIGKILL\n") == (follower.returncode, error)

        resumed = await two.grain("resume", "night")
        assert 0 == resumed.returncode, resumed.stderr
        second = (await listed(one))["night@2"]
        assert ("running", "login2") == (second["state"], second["host"])
        (folder / "go").touch()
        followed = await one.grain("attach", "-n", "100000", "night")

    assert 0 == followed.returncode, followed.stderr
    energies = re.findall(r"^energy (\d+)$", followed.stdout, re.MULTILINE)
    assert list(map(str, range(COUNT))) == energies
    written = (folder / "energies").read_text().split()
    assert set(energies) == set(written)
    assert len(written) <= COUNT + 4  # those under way or in a lane as it was killed


async def test_a_mission_is_cancelled_from_another_host(
    logins: tuple[Site, Site, Site], folder: Path
) -> None:
    """Through the scheduler; its programs on the node end, too."""
    one, two, node = logins
    with trio.fail_after(300), one.gnaw(grace=3600), node.worker("w", Cores=2):
        assert 0 == (await one.grain("run", "-d", "opt.py", str(COUNT))).returncode
        await until_energies(folder, 2)
        done = await two.grain("cancel", "-y", "opt")
        assert "mission opt is told to end" in done.stdout, done.stderr
        while (await listed(two))["opt@1"]["state"] != "interrupted":
            await trio.sleep(0.1)


async def test_another_host_says_where_a_mission_is(
    logins: tuple[Site, Site, Site], folder: Path
) -> None:
    """It knows of an unwritten end only by the missing signs of life."""
    one, two, _ = logins
    with trio.fail_after(300):
        assert 0 == (await one.grain("run", "-d", "--name", "rest", "sleep", "1000")).returncode

        done = await two.grain("cancel", "-y", "--patience", "1", "rest")
        assert (1, "Error: " in done.stderr) == (done.returncode, True)
        assert (
            "rest@1 runs on login1, and no scheduler reaches it from here; log in there and "
            "repeat: grain cancel rest@1"
        ) in " ".join(done.stderr.split())
        done = await two.grain("run", "--name", "rest", "true")
        assert "a mission rest is there already: rest@1 runs on login1" in done.stderr

        start = folder / "state/grain/started/rest@1"
        process = json.loads((start / "process.json").read_text())
        await kill(one.host, process["keeper"], process["pid"])
        while (await listed(one))["rest@1"]["state"] != "killed":
            await trio.sleep(0.05)
        assert "running" == (await listed(two))["rest@1"]["state"]
        done = await two.grain("resume", "rest")
        assert "rest@1 runs on login1" in done.stderr
        os.utime(start / "alive", (0, 0))
        assert "killed" == (await listed(two))["rest@1"]["state"]
        done = await two.grain("resume", "rest")
        assert "If it still runs there, its tasks would run twice" in " ".join(done.stderr.split())
        assert 0 == (await two.grain("resume", "--lost", "rest")).returncode
        assert "login2" == (await listed(one))["rest@2"]["host"]
