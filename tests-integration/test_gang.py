"""One run on several hosts: programs on all members by MPI launchers, and all faults.

The hosts are network namespaces, so they have no names for each other, and no ssh.
"""

from __future__ import annotations

import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from gang_hosts import MPICH, OPENMPI, SOON, Members, RunningGang, gang_of, on_hosts, running_on

from grain_testkit.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain_testkit.kept import Kept


pytestmark = on_hosts

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

SAY = 'echo rank $(hostname) $(taskset -cp $$ | sed "s/.*: //") $OMP_NUM_THREADS'
HELLO = "echo rank $(hostname) $(taskset -cp $$ | sed 's/.*: //')"


@pytest.fixture(scope="module")
def running_gangs() -> Iterator[Kept[RunningGang]]:
    with closing(running_on("a1", "a2", "a3")) as kept:
        yield kept


@pytest.fixture
def running(running_gangs: Kept[RunningGang]) -> Members:
    """A gang for tests in which only calls fail."""
    return running_gangs.get()


@pytest.fixture
def members() -> Iterator[Members]:
    with gang_of("a1", "a2", "a3") as members:
        yield members


@pytest.fixture
def pair() -> Iterator[Members]:
    """Two members: for what the first one does with each other one, and those by themselves."""
    with gang_of("a1", "a2") as members:
        yield members


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_run_on_all_members_and_each_has_its_own_cpus(
    running: Members, launcher: str
) -> None:
    running.start("sh", "-c", HELLO, launcher=launcher)

    printed = running.ended()

    ranks = sorted(line for line in printed.splitlines() if line.startswith("rank"))
    assert ["rank a1 0", "rank a2 1", "rank a3 0"] == ranks, printed
    running.nothing_is_left()


BATCH_JOB = "export SLURM_JOBID=7 SLURM_JOB_ID=7 SLURM_NODELIST=n1 SLURM_TASKS_PER_NODE=1;"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launcher_without_options_starts_ranks_on_all_members(
    running: Members, launcher: str
) -> None:
    running.start("sh", "-c", f"{BATCH_JOB} {launcher.partition(':')[2]} sh -c '{SAY}'")

    printed = running.ended()

    ranks = sorted(line for line in printed.splitlines() if line.startswith("rank"))
    assert ["rank a1 0 1", "rank a2 1 1", "rank a3 0 1"] == ranks, printed
    running.nothing_is_left()


def test_programs_on_members_have_streams_and_statuses_of_their_own(running: Members) -> None:
    script = """
$GRAIN_RSH m1 'hostname; seq 300000 | tail -1; echo err >&2; exit 3' 2>/dev/null
echo status $?
$GRAIN_RSH m2 'echo out; echo err >&2' >/dev/null
$GRAIN_RSH m1 seq 300000 | (sleep 1; tail -1)
$GRAIN_RSH m0 'kill -9 $$'; echo status $?
$GRAIN_RSH --program m1 no-such-program 2>/dev/null; echo status $?
$GRAIN_RSH m3 true; echo status $?
A=$(printf %0100000d 0); export A B=$A C=$A; $GRAIN_RSH m2 'echo ${#C}'
"""
    running.start("sh", "-c", script)

    assert [
        "0", "a2", "300000", "status 3", "err", "300000", "status 137", "status 127",
        "grain-rsh: there is no member m3: they are m0, m1 and so on", "status 255", "100000",
    ] == running.ended().split("\n")[:11]  # fmt: skip
    running.nothing_is_left()


def test_a_program_on_a_member_waits_for_the_reader_of_its_output(running: Members) -> None:
    # More than all pipes on the way have room for; the reader waits for a file.
    script = """
$GRAIN_RSH m1 'yes | head -c 20000000; touch 777-written' | (until [ -e go ]; do sleep 0.1; done
test -e 777-written || echo waits; wc -c)
"""
    running.start("sh", "-c", script)
    running.wait_for(lambda: bool(running.pids(1, "20000000")))
    (running.folder / "go").touch()

    assert ["0", "waits", "20000000"] == running.ended().split()


@pytest.mark.parametrize("launcher", FAULTS)
def test_nothing_is_left_anywhere_when_a_call_reaches_its_time_limit(
    running: Members, launcher: str
) -> None:
    running.start("sleep", "777", launcher=launcher, limit="3")

    assert running.ended().startswith("ExternalTimeoutError")
    running.nothing_is_left()


@pytest.mark.parametrize("launcher", [*LAUNCHERS[:1], "members"])
def test_nothing_is_left_anywhere_when_the_run_is_cancelled(pair: Members, launcher: str) -> None:
    pair.start("sleep", "777", launcher=launcher, GANG_SPAN="3")

    pair.ended()
    pair.nothing_is_left()


@pytest.mark.parametrize("launcher", FAULTS)
def test_a_killed_launcher_leaves_nothing(pair: Members, launcher: str) -> None:
    pair.start("sleep", "777", launcher=launcher)
    pair.wait_for(pair.run_everywhere)

    pair.kill(0, launcher.partition(":")[2])

    assert pair.ended().startswith("-9")
    pair.nothing_is_left()


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

    ended = members.ended()
    assert "MemberLost('seat1 is lost" in ended
    assert "seat1" == ended.split()[-1]
    members.nothing_is_left()


@pytest.mark.parametrize("launcher", FAULTS)
@pytest.mark.parametrize("cut", [0, 1])
def test_a_member_that_is_cut_off_ends_the_run_and_everything_on_it(
    pair: Members, launcher: str, cut: int
) -> None:
    pair.start("sleep", "777", launcher=launcher, GANG_SILENCE=SOON)
    pair.wait_for(pair.run_everywhere)

    pair.hosts[cut].cut()

    assert "is lost: the peer has been silent" in pair.ended()
    pair.nothing_is_left()


@pytest.mark.parametrize("launcher", FAULTS)
def test_a_frozen_member_ends_the_run_and_its_own_programs_when_it_thaws(
    pair: Members, launcher: str
) -> None:
    pair.start("sleep", "777", launcher=launcher, GANG_SILENCE=SOON)
    pair.wait_for(pair.run_everywhere)

    pair.hosts[1].freeze()

    assert "seat1 is lost" in pair.ended()
    pair.nothing_is_left(0)
    assert pair.pids(1, "777")
    pair.hosts[1].thaw()
    pair.nothing_is_left(1)


@pytest.mark.parametrize("launcher", FAULTS)
def test_a_killed_tasklet_of_the_root_leaves_nothing(pair: Members, launcher: str) -> None:
    pair.start("sleep", "777", launcher=launcher)
    pair.wait_for(pair.run_everywhere)

    pair.kill(0, "gang_program")

    pair.nothing_is_left()
    assert pair.ended(1) == "''\n"


@pytest.mark.parametrize("launcher", FAULTS)
def test_a_rank_that_crashes_ends_all_others(members: Members, launcher: str) -> None:
    crash = "test $(hostname) != a2 || kill -SEGV $$; exec sleep 777"
    members.start("sh", "-c", crash, launcher=launcher)

    assert not members.ended().startswith("0")
    members.nothing_is_left()


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("launcher", [*FAULTS, "members"])
def test_ranks_that_a_batch_system_ends_with_their_member_are_not_the_runs_failure(
    pair: Members, launcher: str, ends: bool
) -> None:
    if ends:
        (pair.folder / "seat1.ends").touch()
    pair.start("sleep", "777", launcher=launcher)
    pair.wait_for(pair.run_everywhere)

    pair.kill(1, "777", signal.SIGTERM)

    ended = pair.ended()
    assert ("seat1 is lost: its worker is being ended" in ended) == ends, ended
    pair.nothing_is_left()


DAEMONS = {"openmpi": "orted", "mpich": "hydra_pmi_proxy"}


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(("place", "killed"), [(1, "daemon"), (0, "gang/rsh.py")])
def test_a_killed_daemon_of_the_launcher_ends_the_call(
    members: Members, launcher: str, place: int, killed: str
) -> None:
    members.start("sleep", "777", launcher=launcher)
    members.wait_for(members.run_everywhere)

    members.kill(place, DAEMONS[launcher.partition(":")[0]] if killed == "daemon" else killed)

    assert not members.ended().startswith("0")
    members.nothing_is_left()


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launcher_that_is_told_to_end_leaves_nothing(members: Members, launcher: str) -> None:
    members.start("sleep", "777", launcher=launcher)
    members.wait_for(members.run_everywhere)

    members.kill(0, launcher.partition(":")[2], signal.SIGTERM)

    members.ended()  # MPICH's then succeeds
    members.nothing_is_left()


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_member_without_power_ends_the_run(members: Members, launcher: str) -> None:
    members.start("sleep", "777", launcher=launcher, GANG_SILENCE=SOON)
    members.wait_for(members.run_everywhere)

    members.hosts[1].cut()
    members.hosts[1].close()

    assert "seat1 is lost" in members.ended()
    members.nothing_is_left(0, 2)


def test_a_seat_that_never_answers_is_named(pair: Members) -> None:
    pair.hosts[1].refuse_connections(reset=True)
    pair.start("true", GANG_SILENCE=SOON)

    assert "seat1 has not joined: the other host cannot be reached" in pair.ended()
    pair.nothing_is_left()


def test_a_member_without_the_launchers_daemon_is_named_at_once(running: Members) -> None:
    """Some launchers wait for ever for a daemon that does not begin."""
    launcher = running.folder / "mpirun"
    launcher.write_text('#!/bin/sh\n$OMPI_MCA_plm_rsh_agent m1 " orted-5" -mca a b\nsleep 777\n')
    launcher.chmod(0o755)
    running.start("true", launcher=f"openmpi:{launcher}")

    printed = running.ended()

    assert printed.startswith("ExternalStartError: ")
    assert "member 1 (host a2) cannot take part: /bin/sh: 1: orted-5: not found" in printed
    running.nothing_is_left()


HIDE = """
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay overlay -o lowerdir=/usr/bin,upperdir=/mnt/upper,workdir=/mnt/work /usr/bin
rm /usr/bin/"""


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_member_without_the_mpi_library_is_named_at_once(members: Members, launcher: str) -> None:
    daemon = DAEMONS[launcher.partition(":")[0]]
    hide = members.hosts[1].start(["sh", "-e", "-c", HIDE + daemon])
    hide.communicate()
    if hide.returncode:
        pytest.skip("no file can be hidden here")
    members.start("sleep", "777", launcher=launcher)

    printed = members.ended()

    assert printed.startswith("ExternalStartError: ")
    assert f"member 1 (host a2) cannot take part: /bin/sh: 1: /usr/bin/{daemon}: not f" in printed
    members.nothing_is_left()


@pytest.mark.parametrize("launcher", FAULTS)
def test_a_program_that_is_not_on_the_members_is_named(running: Members, launcher: str) -> None:
    running.start("no-such-program", launcher=launcher)

    printed = running.ended()

    assert not printed.startswith("0")
    assert "no-such-program: No such file or directory, on host a" in printed
    running.nothing_is_left()
