"""A program on each member of a gang, without MPI; the hosts are network namespaces."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from gang_hosts import MPICH, OPENMPI, Members, RunningGang, gang_of, on_hosts, running_on

from grain_testkit.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain_testkit.kept import Kept


pytestmark = on_hosts


@pytest.fixture(scope="module")
def running_gangs() -> Iterator[Kept[RunningGang]]:
    with closing(running_on("a1", "a2", "a3")) as kept:
        yield kept


@pytest.fixture
def running(running_gangs: Kept[RunningGang]) -> Members:
    """A gang for tests in which only calls fail."""
    return running_gangs.get()


@pytest.fixture
def pair() -> Iterator[Members]:
    with gang_of("a1", "a2") as members:
        yield members


ON_EACH = "echo {number} {host} $OMP_NUM_THREADS $TOLD $(taskset -cp $$ | sed 's/.*: //')"


def test_a_program_on_each_member_has_its_number_its_cpus_and_the_address_of_the_root(
    running: Members,
) -> None:
    running.start("sh", "-c", ON_EACH, launcher="members")

    printed = running.ended().splitlines()

    assert [
        "a1 10.99.0.1: 0 10.99.0.1 1 by the call 0",
        "a2 10.99.0.2: 1 10.99.0.1 1 by the call 1",
        "a3 10.99.0.3: 2 10.99.0.1 1 by the call 0",
    ] == printed
    running.nothing_is_left()


def test_each_member_may_write_a_file_of_its_own(running: Members) -> None:
    running.start("sh", "-c", "hostname; echo >&2 {number}", launcher="members", output="out")

    printed = running.ended()

    assert [f"a{number} 10.99.0.{number}: " for number in (1, 2, 3)] == printed.splitlines()
    written = [(running.folder / f"out.{number}").read_text() for number in range(3)]
    assert ["a1\n0\n", "a2\n1\n", "a3\n2\n"] == written


USED = """
import sys

from grain import GVAR
from grain.delayed import delayed
from grain.worker.external import mpi_prefix, run_external, run_on_members

@delayed
async def by_members(*_):
    fill = "kept = b'x' * (10**8 * {})"
    done = await run_on_members(lambda number: [sys.executable, "-c", fill.format(number)])
    return usage_of(done=[one.peak_memory for one in done])

@delayed
async def by_mpirun(flavour, launcher):
    words = [*mpi_prefix(flavour, launcher=launcher), "true"]
    done = await run_external(words, threads=1)
    return usage_of(done=[one.peak_memory for one in done.usage.members])

def usage_of(done):
    usage = GVAR.usage
    each = [one.peak_memory for one in usage.members]
    assert each == done, (each, done)
    assert all(one.programs and one.cpu for one in usage.members), usage
    assert round(usage.cpu, 6) == round(sum(one.cpu for one in usage.members), 6), usage
    assert not usage.outputs, usage
    assert usage.peak_memory == max(each), usage
    return [int(10 * peak) for peak in each]
"""


def test_each_member_has_what_its_own_programs_have_used(pair: Members) -> None:
    (pair.folder / "used.py").write_text(USED)
    pair.start("used.py", "by_members", launcher="function")

    assert "[0, 1]\n" == pair.ended()


@pytest.mark.parametrize("launcher", [OPENMPI, MPICH], ids=["openmpi", "mpich"])
def test_each_member_has_what_its_ranks_have_used(pair: Members, launcher: str) -> None:
    if launcher.endswith(":"):
        pytest.skip("it is not installed")
    (pair.folder / "used.py").write_text(USED)
    pair.start("used.py", "by_mpirun", *launcher.split(":"), launcher="function")

    assert "[0, 0]\n" == pair.ended()


FILLS = """
import os, sys, time
kept = b"x" * (300_000_000 if os.uname().nodename == "a2" else 1)
time.sleep(600)  # 777
"""


@pytest.mark.parametrize(
    ("launcher", "by"),
    [("members", {}), (OPENMPI, {"GANG_ENFORCE": "yes"})],
    ids=["members, learned", "openmpi, by the call"],
)
def test_a_member_that_has_more_memory_than_its_task_may_have_ends_the_call_and_says_so(
    pair: Members, launcher: str, by: dict[str, str]
) -> None:
    if launcher.endswith(":"):
        pytest.skip("it is not installed")
    pair.start(sys.executable, "-c", FILLS, launcher=launcher, GANG_MEMORY="0.1", **by)

    printed = pair.ended()

    assert printed.startswith("ExternalMemoryError: "), printed
    assert "GB of 0.1 and was ended" in printed
    assert "on member 1, host a2" in printed
    pair.nothing_is_left()


def test_the_first_program_that_fails_ends_all_others_and_is_named(running: Members) -> None:
    fails = "test {number} = 1 || exec sleep 777; echo out of luck; exit 3"
    running.start("sh", "-c", fails, launcher="members")

    printed = running.ended()

    assert printed.startswith("ExternalError: sh -c "), printed
    assert "exit code 3\n  on member 1, host a2\n" in printed
    assert "out of luck" in printed
    running.nothing_is_left()


def test_a_program_that_is_not_on_a_member_ends_all_others_and_is_named(running: Members) -> None:
    running.start("env", "-C", "/tmp/grain-{number}", "sleep", "777", launcher="members")

    printed = running.ended()

    assert "cannot change directory" in printed
    assert "on member " in printed
    running.nothing_is_left()


@pytest.mark.parametrize("killed", ["gang.member", "gang.root", "gang_program"])
def test_a_killed_process_leaves_nothing_of_the_programs_on_members(
    pair: Members, killed: str
) -> None:
    pair.start("sleep", "777", launcher="members")
    pair.wait_for(pair.run_everywhere)

    pair.kill(0 if killed != "gang.member" else 1, killed)

    if killed != "gang_program":
        assert "is lost" in pair.ended()
    pair.nothing_is_left()


def test_programs_on_members_end_at_the_time_limit_of_their_call(running: Members) -> None:
    running.start("sh", "-c", "echo slow; sleep 777", launcher="members", limit="1")

    printed = running.ended()

    assert "ended after its time limit of 1 s\n  on member " in printed
    assert "slow" in printed
    running.nothing_is_left()
