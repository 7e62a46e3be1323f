"""Gangs in a hub: all leases in one decision, and none again before all are vacated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.head.messages import (
    AckTasks,
    Crashed,
    Request,
    Resolved,
    Retract,
    Retracted,
    Started,
    Submit,
    Synced,
)
from grain.resource import Cores, to_data
from grain.worker.messages import (
    AckRuns,
    Draining,
    InventoryRun,
    Lease,
    MemberOpen,
    Revoke,
    SeatOpen,
)
from grain_testkit.hub_harness import F, HubHarness, held

if TYPE_CHECKING:
    from grain.edge.messages import Message


class Gang(HubHarness):
    """A hub with three workers, and a task on all of them."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("a", "b", "c"):
            self.worker(name)
        self.mission()
        self.send("m", Request(1, to_data(3 * Cores(2))))
        self.send("m", Submit(1, 1, F), Synced(), payload=b"args")

    def leases(self) -> dict[str, Lease]:
        """Return the new leases, by worker; there is one on each or none."""
        found = {name: self.sent(name, Lease) for name in ("a", "b", "c")}
        assert {len(leases) for leases in found.values()} in ({0}, {1})
        return {name: leases[0] for name, leases in found.items() if leases}


def parts(leases: dict[str, Lease]) -> tuple[str, list[str]]:
    """Return the workers of the root, and of the seats in order."""
    by_index = {}
    for name, lease in leases.items():
        assert lease.gang is not None
        by_index[lease.gang.index] = name
    return by_index[0], [by_index[index] for index in range(1, len(by_index))]


def test_all_members_get_their_leases_at_once_and_only_the_root_the_call() -> None:
    hub = Gang()
    mail = {name: [pair for pair in hub.mail[name] if isinstance(pair[0], Lease)] for name in "abc"}
    leases = hub.leases()

    root, seats = parts(leases)
    assert leases[root].gang is not None
    assert all(
        leases[name].gang == type(leases[name].gang)(leases[root].attempt, index, 3)  # type: ignore[misc]
        for index, name in enumerate([root, *seats])
    )
    assert (F, b"args") == (leases[root].function, mail[root][0][1])
    assert all((b"", None) == (leases[s].function, mail[s][0][1]) for s in seats)
    assert [(1,)] == [started.tasks for started in hub.sent("m", Started)]


def test_the_invitation_of_a_seat_goes_to_the_root_and_again_when_its_worker_comes_back() -> None:
    hub = Gang()
    leases = hub.leases()
    root, (seat, _) = parts(leases)

    hub.send(seat, SeatOpen(leases[seat].attempt, b"invitation"))

    expected = MemberOpen(leases[root].attempt, 1, seat, "host", leases[seat].res, b"invitation")
    assert [expected] == hub.sent(root, MemberOpen)
    hub.lose(root)
    hub.worker(root, held=(held(leases[root], gang=leases[root].gang),), link="again")
    assert [expected] == hub.sent("again", MemberOpen)


def test_the_outcome_of_the_root_resolves_the_task_and_ends_the_seats() -> None:
    hub = Gang()
    leases = hub.leases()
    root, seats = parts(leases)

    hub.send(root, hub.ended(leases[root]), payload=b"value")

    assert ["value"] == [resolved.ending for resolved in hub.sent("m", Resolved)]
    for seat in seats:
        assert [Revoke(leases[seat].attempt)] == hub.sent(seat, Revoke)
        hub.send(seat, hub.ended(leases[seat], "cancelled"))
        assert [AckRuns((leases[seat].attempt,))] == hub.sent(seat, AckRuns)
    hub.send("m", AckTasks((1,)))
    assert 0 == hub.hub.scheduler.running


@pytest.mark.parametrize("how", ["crashed", "returned", "cancelled"])
def test_a_gang_starts_again_only_when_all_seats_are_vacated(how: str) -> None:
    hub = Gang()
    leases = hub.leases()
    root, (first, second) = parts(leases)

    hub.send(root, hub.ended(leases[root], how, detail="it died" if how == "crashed" else ""))
    assert {} == hub.leases()
    hub.send(first, hub.ended(leases[first], "cancelled"))
    assert {} == hub.leases()
    hub.send(second, hub.ended(leases[second], "value"))

    again = hub.leases()
    assert {"a", "b", "c"} == again.keys()
    assert (how == "crashed") == bool(hub.sent("m", Crashed))


def test_a_lost_root_worker_ends_the_seats_before_the_task_starts_again() -> None:
    hub = Gang()
    leases = hub.leases()
    root, seats = parts(leases)
    hub.lose(root)
    hub.wait(70)

    assert all([Revoke(leases[seat].attempt)] == hub.sent(seat, Revoke) for seat in seats)
    hub.worker("d")
    assert [] == hub.sent("d", Lease)
    for seat in seats:
        hub.send(seat, hub.ended(leases[seat], "cancelled"))
    assert 1 == len(hub.sent("d", Lease))


def test_a_seat_whose_worker_is_lost_here_does_not_end_the_root() -> None:
    hub = Gang()
    leases = hub.leases()
    root, (seat, _) = parts(leases)
    hub.lose(seat)
    hub.wait(70)
    assert [] == hub.sent(root, Revoke)

    hub.worker(seat, held=(held(leases[seat], gang=leases[seat].gang),), link="back")
    assert [] == hub.sent("back", Revoke)

    hub.send(root, hub.ended(leases[root]), payload=b"value")
    assert [Revoke(leases[seat].attempt)] == hub.sent("back", Revoke)


def test_a_seat_that_crashes_ends_the_root_and_is_blamed() -> None:
    hub = Gang()
    leases = hub.leases()
    root, (seat, other) = parts(leases)

    hub.send(seat, hub.ended(leases[seat], "crashed", detail="its runner died"))
    assert [Revoke(leases[root].attempt)] == hub.sent(root, Revoke)
    hub.send(root, hub.ended(leases[root], "cancelled"))
    hub.send(other, hub.ended(leases[other], "cancelled"))

    [crashed] = hub.sent("m", Crashed)
    assert (seat, "its runner died") == (crashed.crash.worker, crashed.crash.how)
    assert 3 == len(hub.leases())


def test_a_seat_that_its_worker_hands_back_is_no_crash() -> None:
    hub = Gang()
    leases = hub.leases()
    root, (seat, other) = parts(leases)
    hub.worker("d")
    hub.send(seat, Draining())

    hub.send(seat, hub.ended(leases[seat], "returned"))
    hub.send(root, hub.ended(leases[root], "cancelled"))
    hub.send(other, hub.ended(leases[other], "value"))

    assert [] == hub.sent("m", Crashed)
    assert 1 == len(hub.sent("d", Lease))


def test_a_retracted_gang_is_reported_when_nothing_of_it_is_left() -> None:
    hub = Gang()
    leases = hub.leases()
    root, seats = parts(leases)

    hub.send("m", Retract((1,)))
    hub.send(root, hub.ended(leases[root], "cancelled"))
    assert [] == hub.sent("m", Retracted)
    for seat in seats:
        assert hub.sent(seat, Revoke)
        hub.send(seat, hub.ended(leases[seat], "cancelled"))

    assert 1 == len(hub.sent("m", Retracted))


def test_the_seats_of_a_mission_that_leaves_are_ended_with_its_root() -> None:
    hub = Gang()
    leases = hub.leases()
    root, seats = parts(leases)
    hub.lose("m")
    hub.wait(70)

    assert [Revoke(leases[root].attempt)] == hub.sent(root, Revoke)
    hub.send(root, hub.ended(leases[root], "cancelled"))
    for seat in seats:
        assert [Revoke(leases[seat].attempt)] == hub.sent(seat, Revoke)
        hub.send(seat, hub.ended(leases[seat], "cancelled"))
    assert 0 == hub.hub.scheduler.running


class Successor(HubHarness):
    """Another head, to which workers report what its predecessor began."""

    def __init__(self) -> None:
        self.before = Gang()
        self.begun = self.before.leases()
        self.root, self.seats = parts(self.begun)
        super().__init__(epoch=2)

    def report(self, name: str) -> None:
        lease = self.begun[name]
        self.worker(name, held=(self.inventory(lease),))

    def inventory(self, lease: Lease) -> InventoryRun:
        return held(lease, gang=lease.gang)

    def submit_again(self, worker: str = "") -> None:
        self.mission()
        self.send("m", Request(1, to_data(3 * Cores(2))))
        submit: Message = Submit(1, 1, F, worker=worker)
        self.send("m", submit, Synced(), payload=b"args")


@pytest.mark.parametrize("mission_first", [True, False])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_a_successor_adopts_a_gang_in_whatever_order_its_members_come(
    order: tuple[int, ...], mission_first: bool
) -> None:
    hub = Successor()
    if mission_first:
        hub.submit_again(hub.root)
    for index in order:
        hub.report([hub.root, *hub.seats][index])
    if not mission_first:
        hub.submit_again(hub.root)

    hub.wait(70)
    assert all(not hub.sent(name, Lease) and not hub.sent(name, Revoke) for name in "abc")
    hub.send(hub.root, hub.ended(hub.begun[hub.root]), payload=b"value")
    assert 1 == len(hub.sent("m", Resolved))
    assert all(hub.sent(seat, Revoke) for seat in hub.seats)


@pytest.mark.parametrize("mission_first", [True, False])
def test_a_successor_starts_nothing_while_seats_of_a_lost_root_are_not_vacated(
    mission_first: bool,
) -> None:
    hub = Successor()
    if mission_first:
        hub.submit_again(hub.root)
    for seat in hub.seats:
        hub.report(seat)
    if not mission_first:
        hub.submit_again(hub.root)
    hub.worker("d", cores=2)
    hub.wait(70)
    assert [] == hub.sent("d", Lease)

    for seat in hub.seats:
        assert [Revoke(hub.begun[seat].attempt)] == hub.sent(seat, Revoke)
        hub.send(seat, hub.ended(hub.begun[seat], "cancelled"))

    assert 1 == len(hub.sent("d", Lease))


def test_a_seat_that_comes_late_to_a_successor_is_ended_if_no_root_has_come() -> None:
    hub = Successor()
    hub.wait(70)

    hub.report(hub.seats[0])

    assert [Revoke(hub.begun[hub.seats[0]].attempt)] == hub.sent(hub.seats[0], Revoke)
