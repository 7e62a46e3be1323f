"""A program on each member of a gang, without MPI; the hosts are network namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from gang_hosts import Members, gang_of, on_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = on_hosts


@pytest.fixture
def members() -> Iterator[Members]:
    with gang_of("a1", "a2", "a3") as members:
        yield members


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
