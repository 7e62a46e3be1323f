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

    def start(self, *words: str, launcher: str = "", limit: str = "", **variables: str) -> None:
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
                **variables,
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

    assert members.ended().startswith("ExternalTimeoutError")
    members.nothing_is_left()


@pytest.mark.parametrize("launcher", [*LAUNCHERS[:1], "members"])
def test_nothing_is_left_anywhere_when_the_run_is_cancelled(
    members: Members, launcher: str
) -> None:
    members.start("sleep", "777", launcher=launcher, GANG_SPAN="3")

    members.ended()
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


# ---- without MPI: a program on each member


ON_EACH = "echo {number} {host} $OMP_NUM_THREADS $TOLD $(taskset -cp $$ | sed 's/.*: //')"


def test_a_program_on_each_member_has_its_number_its_cpus_and_the_address_of_the_root(
    members: Members,
) -> None:
    members.start("sh", "-c", ON_EACH, launcher="members")

    printed = members.ended().splitlines()

    assert [
        "a1 10.99.0.1: 0 10.99.0.1 1 by the call 0",
        "a2 10.99.0.2: 1 10.99.0.1 1 by the call 1",
        "a3 10.99.0.3: 2 10.99.0.1 1 by the call 0",
    ] == printed
    members.nothing_is_left()


def test_each_member_may_write_a_file_of_its_own(members: Members) -> None:
    members.start("sh", "-c", "hostname; echo >&2 {number}", launcher="members", GANG_OUTPUT="out")

    printed = members.ended()

    assert [f"a{number} 10.99.0.{number}: " for number in (1, 2, 3)] == printed.splitlines()
    written = [(members.folder / f"out.{number}").read_text() for number in range(3)]
    assert ["a1\n0\n", "a2\n1\n", "a3\n2\n"] == written


def test_the_first_program_that_fails_ends_all_others_and_is_named(members: Members) -> None:
    fails = "test {number} = 1 || exec sleep 777; echo out of luck; exit 3"
    members.start("sh", "-c", fails, launcher="members")

    printed = members.ended()

    assert printed.startswith("ExternalError: sh -c "), printed
    assert "exit code 3\n  on member 1, host a2\n" in printed
    assert "out of luck" in printed
    members.nothing_is_left()


def test_a_program_that_is_not_on_a_member_ends_all_others_and_is_named(members: Members) -> None:
    members.start("env", "-C", "/tmp/grain-{number}", "sleep", "777", launcher="members")

    printed = members.ended()

    assert "cannot change directory" in printed
    assert "on member " in printed
    members.nothing_is_left()


@pytest.mark.parametrize("killed", ["gang.member", "gang.root", "gang_program"])
def test_a_killed_process_leaves_nothing_of_the_programs_on_members(
    members: Members, killed: str
) -> None:
    members.start("sleep", "777", launcher="members")
    members.wait_for(members.run_everywhere)

    members.kill(0 if killed != "gang.member" else 1, killed)

    if killed != "gang_program":
        assert "is lost" in members.ended()
    members.nothing_is_left()


def test_programs_on_members_end_at_the_time_limit_of_their_call(members: Members) -> None:
    members.start("sh", "-c", "echo slow; sleep 777", launcher="members", limit="1")

    printed = members.ended()

    assert "ended after its time limit of 1 s\n  on member " in printed
    assert "slow" in printed
    members.nothing_is_left()


# ---- a member that lacks the MPI library


def test_a_member_without_the_launchers_daemon_is_named_at_once(members: Members) -> None:
    """Some launchers wait for ever for a daemon that does not begin."""
    launcher = members.folder / "mpirun"
    launcher.write_text('#!/bin/sh\n$OMPI_MCA_plm_rsh_agent m1 " orted-5" -mca a b\nsleep 777\n')
    launcher.chmod(0o755)
    members.start("true", launcher=f"openmpi:{launcher}")

    printed = members.ended()

    assert printed.startswith("ExternalStartError: ")
    assert "member 1 (host a2) cannot take part: /bin/sh: 1: orted-5: not found" in printed
    members.nothing_is_left()
