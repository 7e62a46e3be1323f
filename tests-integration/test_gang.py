"""One run on several hosts: programs on all members, by MPI launchers and without, and all faults.

The hosts are network namespaces, so they have no names for each other, and no ssh.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.hosts import Host, hosts, why_not

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")

PROGRAM = str(Path(__file__).with_name("gang_program.py"))
SILENCE = 3.0
"""Seconds after which a member is lost in these tests."""

PATIENCE = 60.0
"""Seconds for what must happen at all."""

OPENMPI = f"openmpi:{which('mpirun.openmpi') or ''}"
MPICH = f"mpich:{which('mpiexec.mpich') or ''}"
LAUNCHERS = [
    pytest.param(
        launcher,
        marks=pytest.mark.skipif(launcher.endswith(":"), reason="it is not installed"),
        id=launcher.partition(":")[0],
    )
    for launcher in (OPENMPI, MPICH)
]
# Both launchers find out about few faults by themselves, and Grain about all: one shows it.
FAULTS = [
    LAUNCHERS[0],
    pytest.param(
        *LAUNCHERS[1].values, marks=[*LAUNCHERS[1].marks, pytest.mark.nightly], id="mpich"
    ),
]


class Members:
    """The members of a gang on three hosts.

    Args:
        hosts: the first one is the root's.
        folder: which they share.
    """

    def __init__(self, hosts: list[Host], folder: Path) -> None:
        self.hosts = hosts
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *words: str, launcher: str = "", limit: str = "") -> None:
        """Start all members; the root runs a program."""
        places = [self.folder / f"seat{index}" for index in range(1, len(self.hosts))]
        joined = ",".join(map(str, places))
        commands = [["root", joined, *words], *(["seat", str(place)] for place in places)]
        for index, (host, command) in enumerate(zip(self.hosts, commands, strict=True)):
            environment = {
                **os.environ,
                "GANG_CPUS": json.dumps([index % 2]),
                "GANG_SILENCE": str(SILENCE),
                "GANG_LAUNCHER": launcher,
                "GANG_LIMIT": limit,
            }
            self.processes.append(
                subprocess.Popen(
                    host.entering([sys.executable, PROGRAM, *command], str(self.folder)),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )

    def ended(self, index: int = 0) -> str:
        """Wait for the end of a member, and return what it printed."""
        return self.processes[index].communicate(timeout=PATIENCE)[0]

    def pids(self, index: int, name: str = "") -> list[int]:
        """Return the processes on a host that have a word on their command line."""
        found = []
        for pid in self.hosts[index].processes():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
            except OSError:
                continue
            # A cat keeps the host alive.
            if state != "Z" and words[0] != b"cat" and any(name.encode() in word for word in words):
                found.append(pid)
        return found

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill(self, index: int, name: str) -> None:
        """Kill the processes on a host that have a word on their command line."""
        for pid in self.pids(index, name):
            os.kill(pid, signal.SIGKILL)

    def run_everywhere(self) -> bool:
        """Return True if all ranks run."""
        return all(self.pids(index, "777") for index in range(len(self.hosts)))

    def nothing_is_left(self, *indices: int) -> None:
        """Wait until no process is left on hosts; on all by default."""
        for index in indices or range(len(self.hosts)):
            self.wait_for(lambda index=index: not self.pids(index))  # type: ignore[misc]


@pytest.fixture
def members() -> Iterator[Members]:
    with (
        hosts("a1", "a2", "a3") as made,
        # Not below pytest's own, which has a mode that hosts cannot share.
        tempfile.TemporaryDirectory() as folder,
    ):
        shared = Path("/var/tmp") / Path(folder).name
        shared.mkdir()
        members = Members(made, shared)
        try:
            yield members
        finally:
            for process in members.processes:
                process.kill()
                process.communicate()
            for file in shared.iterdir():
                file.unlink()
            shared.rmdir()


HELLO = "echo rank $(hostname) $(taskset -cp $$ | sed 's/.*: //')"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_run_on_all_members_and_each_has_its_own_cpus(
    members: Members, launcher: str
) -> None:
    members.start("sh", "-c", HELLO, launcher=launcher)

    printed = members.ended()

    ranks = sorted(line for line in printed.splitlines() if line.startswith("rank"))
    assert ["rank a1 0", "rank a2 1", "rank a3 0"] == ranks, printed
    members.nothing_is_left()


@pytest.mark.parametrize("launcher", FAULTS)
def test_nothing_is_left_anywhere_when_a_call_reaches_its_time_limit(
    members: Members, launcher: str
) -> None:
    members.start("sleep", "777", launcher=launcher, limit="3")

    assert members.ended() == "ExternalTimeoutError\n"
    members.nothing_is_left()


@pytest.mark.parametrize("launcher", FAULTS)
def test_a_killed_launcher_leaves_nothing(members: Members, launcher: str) -> None:
    members.start("sleep", "777", launcher=launcher)
    members.wait_for(members.run_everywhere)

    members.kill(0, launcher.partition(":")[2])

    assert members.ended().startswith("-9")
    members.nothing_is_left()


@pytest.mark.parametrize("launcher", FAULTS)
@pytest.mark.parametrize("killed", ["gang.member", "keep a supervisor"])
def test_a_killed_process_of_a_seat_ends_the_run(
    members: Members, launcher: str, killed: str
) -> None:
    members.start("sleep", "777", launcher=launcher)
    members.wait_for(members.run_everywhere)

    if killed == "gang.member":
        members.kill(1, killed)
    else:
        members.processes[1].kill()

    assert "MemberLost('seat1 is lost" in members.ended()
    members.nothing_is_left()


@pytest.mark.parametrize("launcher", FAULTS)
@pytest.mark.parametrize("cut", [0, 1])
def test_a_member_that_is_cut_off_ends_the_run_and_everything_on_it(
    members: Members, launcher: str, cut: int
) -> None:
    members.start("sleep", "777", launcher=launcher)
    members.wait_for(members.run_everywhere)

    members.hosts[cut].cut()

    assert "is lost: the peer has been silent" in members.ended()
    members.nothing_is_left()


@pytest.mark.parametrize("launcher", FAULTS)
def test_a_frozen_member_ends_the_run_and_its_own_programs_when_it_thaws(
    members: Members, launcher: str
) -> None:
    members.start("sleep", "777", launcher=launcher)
    members.wait_for(members.run_everywhere)

    members.hosts[1].freeze()

    assert "seat1 is lost" in members.ended()
    members.nothing_is_left(0, 2)
    assert members.pids(1, "777")
    members.hosts[1].thaw()
    members.nothing_is_left(1)


@pytest.mark.parametrize("launcher", FAULTS)
def test_a_killed_tasklet_of_the_root_leaves_nothing(members: Members, launcher: str) -> None:
    members.start("sleep", "777", launcher=launcher)
    members.wait_for(members.run_everywhere)

    members.kill(0, "gang_program")

    members.nothing_is_left()
    assert members.ended(1) == "''\n"


@pytest.mark.parametrize("launcher", FAULTS)
def test_a_rank_that_crashes_ends_all_others(members: Members, launcher: str) -> None:
    crash = "test $(hostname) != a2 || kill -SEGV $$; exec sleep 777"
    members.start("sh", "-c", crash, launcher=launcher)

    assert not members.ended().startswith("0")
    members.nothing_is_left()


def test_a_seat_that_never_answers_is_named(members: Members) -> None:
    members.hosts[1].refuse_connections(reset=True)
    members.start("true")

    assert "seat1 has not joined: the other host cannot be reached" in members.ended()
    members.nothing_is_left()
