"""Which steps of a job run beside each other, and on what, as a real Slurm 22.05 had them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grain.worker.steps.shares import (
    MemberRoom,
    MemberShare,
    StepImpossible,
    StepShares,
    StepWish,
    of_process,
    places,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

NODE = MemberRoom((0, 1, 2, 3))
GPU_NODE = MemberRoom((0, 1, 2, 3), ("0", "1"))
EXACT: dict[str, Any] = {"whole": False}


def at_once(shares: StepShares, wish: StepWish, count: int = 4) -> int:
    for _ in range(count):
        shares.ask(wish)
    return len(shares.begin())


@pytest.mark.parametrize(
    ("wish", "of_job", "of_job_with_memory", "of_job_with_gpus"),
    [
        # As measured: at once of four, in a job of 4 CPUs; with --mem=100; with 2 GPUs, --mem=100.
        ({}, 1, 1, 1),
        (EXACT, 4, 1, 1),
        ({**EXACT, "memory": 10.0}, 4, 4, 1),
        ({**EXACT, "memory": 0.0}, 4, 4, 1),
        ({**EXACT, "memory": 60.0}, 4, 1, 1),
        ({**EXACT, "memory_per_cpu": 10.0}, 4, 4, 1),
        ({"memory": 10.0}, 1, 1, 1),
        ({"overlap": True}, 4, 4, 4),
        ({**EXACT, "memory": 10.0, "tasks": 2}, 2, 2, 1),
        ({**EXACT, "memory": 10.0, "each": 2}, 2, 2, 1),
        ({**EXACT, "memory": 10.0, "gpus": 0}, 4, 4, 4),
        ({**EXACT, "memory": 10.0, "gpus": 1}, None, None, 2),
        ({**EXACT, "memory": 10.0, "gpus_per_task": 1}, None, None, 2),
    ],
)
def test_steps_run_beside_each_other_as_far_as_their_job_has_room(
    wish: dict[str, Any], of_job: int | None, of_job_with_memory: int, of_job_with_gpus: int
) -> None:
    wanted = StepWish(**{"tasks": 1, "nodes": 1, **wish})
    expected = (of_job, of_job_with_memory, of_job_with_gpus)
    rooms = (
        NODE,
        MemberRoom(NODE.cpus, (), 100.0),
        MemberRoom(NODE.cpus, GPU_NODE.gpus, 100.0),
    )
    for count, room in zip(expected, rooms, strict=True):
        if count is not None:
            assert count == at_once(StepShares([room]), wanted)


def test_a_step_without_memory_of_its_own_holds_what_its_job_says_for_a_cpu() -> None:
    room = MemberRoom(NODE.cpus, (), 40.0)
    wish = StepWish(1, 1, whole=False)
    assert 4 == at_once(StepShares([room], memory_per_cpu=10.0), wish)
    assert 4 == at_once(StepShares([room], default_memory=False), wish)
    assert 2 == at_once(StepShares([room], memory_per_cpu=20.0), wish)


def test_what_ends_gives_back_and_the_next_ones_begin_in_order() -> None:
    shares = StepShares([NODE])
    first, large, small, other = (
        shares.ask(StepWish(tasks, 1, whole=False)) for tasks in (3, 2, 1, 1)
    )
    # The large one has no room yet, and lets smaller ones pass.
    assert {first: (0, 1, 2), small: (3,)} == {
        ticket: found[0].cpus for ticket, found in shares.begin()
    }
    shares.end(small)
    assert [(other, (3,))] == [(ticket, found[0].cpus) for ticket, found in shares.begin()]
    shares.end(first)
    assert [(large, (0, 1))] == [(ticket, found[0].cpus) for ticket, found in shares.begin()]
    assert [] == shares.begin()


class Counting(StepShares):
    """Shares that count how often they look for room."""

    looks = 0

    def _find(self, *what: Any) -> tuple[MemberShare, ...] | None:
        self.looks += 1
        return super()._find(*what)


def test_thousands_of_steps_that_wait_for_the_same_cost_one_look_at_each_end() -> None:
    shares = Counting([NODE])
    count = 10_000
    tickets = [shares.ask(StepWish(1 + number % 2, 1, whole=False)) for number in range(count)]
    shares.looks = 0
    running = [ticket for ticket, _ in shares.begin()]
    assert tickets[:3] == running  # of one CPU, of two, and of one
    begun = list(running)
    while running:
        shares.end(running.pop(0))
        more = [ticket for ticket, _ in shares.begin()]
        running += more
        begun += more
    assert tickets == sorted(begun)
    assert shares.looks <= 4 * count


def test_a_step_that_takes_whole_nodes_waits_for_all_of_their_cpus() -> None:
    shares = StepShares([NODE])
    exact = shares.ask(StepWish(1, 1, whole=False))
    whole = shares.ask(StepWish(1, 1))
    assert [exact] == [ticket for ticket, _ in shares.begin()]
    shares.end(exact)
    assert [(whole, NODE.cpus)] == [(ticket, found[0].cpus) for ticket, found in shares.begin()]


def test_a_step_that_gives_up_no_longer_waits() -> None:
    shares = StepShares([NODE])
    one, two = (shares.ask(StepWish(1, 1)) for _ in "12")
    assert [one] == [ticket for ticket, _ in shares.begin()]
    shares.end(two)
    shares.end(one)
    assert [] == shares.begin()


def test_steps_that_overlap_hold_nothing_and_crowd_nowhere() -> None:
    shares = StepShares([NODE])
    held = shares.ask(StepWish(1, 1, whole=False))
    shares.begin()
    for _ in range(3):
        shares.ask(StepWish(1, 1, whole=False, overlap=True))
    assert [(1,), (2,), (3,)] == [found[0].cpus for _, found in shares.begin()]
    exclusive = shares.ask(StepWish(3, 1, whole=False))
    assert [exclusive] == [ticket for ticket, _ in shares.begin()]
    assert held != exclusive


@pytest.mark.parametrize(
    ("wish", "members"),
    [
        # One on each in turn, as far as there is room.
        ({"tasks": 4, "nodes": 2, "members": (0, 1)}, [(0, 2), (1, 2)]),
        ({"tasks": 5, "nodes": 2, "members": (0, 2)}, [(0, 4), (2, 1)]),
        ({"tasks": 2, "nodes": 1, "members": (0, 1, 2)}, [(0, 2)]),
        ({"tasks": 1, "nodes": 1, "members": (1,)}, [(1, 1)]),
        ({"tasks": 4, "nodes": 1, "members": (2, 1)}, [(1, 4)]),
        ({"tasks": 2, "nodes": 2, "members": (0, 1), "most": 1}, [(0, 1), (1, 1)]),
        ({"tasks": 12, "nodes": 2, "members": (0, 1), "overcommit": True}, [(0, 6), (1, 6)]),
    ],
)
def test_processes_are_spread_over_members(
    wish: dict[str, Any], members: list[tuple[int, int]]
) -> None:
    shares = StepShares([NODE, NODE, MemberRoom((7,))])
    shares.ask(StepWish(**wish))
    [(_, found)] = shares.begin()
    assert members == [(share.member, share.tasks) for share in found]


def test_a_step_takes_another_member_where_the_first_one_has_no_room() -> None:
    shares = StepShares([NODE, NODE])
    for _ in range(3):
        shares.ask(StepWish(1, 1, members=(0, 1)))
    assert [0, 1] == [found[0].member for _, found in shares.begin()]


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"tasks": 5}, "More processors requested than permitted"),
        ({"each": 5}, "More processors requested than permitted"),
        ({"nodes": 2, "tasks": 2}, "Only allocated 1 nodes asked for 2"),
        ({"memory": 101.0}, "Memory required by task is not available"),
        ({"gpus": 3}, "Invalid generic resource (gres) specification"),
        ({"gpus_per_task": 3}, "Invalid generic resource (gres) specification"),
        ({"tasks": 2, "most": 1}, "Requested node configuration is not available"),
    ],
)
def test_a_step_that_never_fits_is_refused_in_the_words_of_slurm(
    wish: dict[str, Any], why: str
) -> None:
    shares = StepShares([MemberRoom(NODE.cpus, ("0", "1"), 100.0)])
    shares.ask(StepWish(1, 1))
    shares.begin()
    with pytest.raises(StepImpossible) as impossible:
        shares.ask(StepWish(**{"tasks": 1, "nodes": 1, **wish}))
    assert why == str(impossible.value)


def test_each_process_has_its_own_cpus_and_devices() -> None:
    shares = StepShares([GPU_NODE])
    wish = StepWish(2, 1, each=2, whole=False, gpus_per_task=1)
    shares.ask(wish)
    [(_, (share,))] = shares.begin()
    assert [((0, 1), ("0",)), ((2, 3), ("1",))] == [of_process(share, at, wish) for at in (0, 1)]
    # Two processes on four CPUs that are all theirs: neither is bound to less.
    both = StepWish(2, 1)
    assert (0, 1, 2, 3) == of_process(MemberShare(0, 2, (0, 1, 2, 3)), 1, both)[0]


@pytest.mark.parametrize(
    ("plane", "expected"),
    [
        (0, [(0, 0), (0, 1), (0, 2), (1, 0)]),
        (1, [(0, 0), (1, 0), (0, 1), (0, 2)]),
        (2, [(0, 0), (0, 1), (1, 0), (0, 2)]),
    ],
)
def test_numbers_of_processes_go_by_members_or_around(
    plane: int, expected: Sequence[tuple[int, int]]
) -> None:
    shares = [MemberShare(0, 3, (0, 1, 2)), MemberShare(1, 1, (0,))]
    assert expected == places(shares, plane)
