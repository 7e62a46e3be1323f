"""Gangs in a hub: all leases in one decision, and none again before all are vacated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.edge.questions import OverviewAnswer, pack, unpack
from grain.eventlog.usage import MemberUsage, RunReport, encode_report
from grain.facts.rows import Worker
from grain.head.hub.answers.demand import demand
from grain.head.messages import (
    AckTasks,
    Crash,
    Crashed,
    Depart,
    Request,
    Resolved,
    Retract,
    Retracted,
    Seated,
    Started,
    Submit,
    Synced,
    WorkerFacts,
)
from grain.resource import Cores, Memory, to_data
from grain.worker.messages import (
    AckRuns,
    ArrivedCount,
    Draining,
    GangBegun,
    GangPart,
    InventoryRun,
    Lease,
    MemberOpen,
    Revoke,
    RunEnded,
    SeatOpen,
)
from grain.worker.processes.account import of_members
from grain_testkit.hub_harness import F, HubHarness, held
from grain_testkit.scheduler_harness import check_hub

if TYPE_CHECKING:
    from grain.edge.messages import Message
    from grain.resource import Resource


TWO = Cores(2)


class Gang(HubHarness):
    """A hub with three workers, and a task on all of them."""

    def __init__(self, each: Resource = TWO, memory: float | None = None) -> None:
        super().__init__()
        for name in ("a", "b", "c"):
            self.worker(name, memory=memory)
        self.mission()
        self.send("m", Request(1, to_data(3 * each)))
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
    sent = [message for message, _ in hub.mail["m"] if isinstance(message, Started | Seated)]
    assert [Started(root, (1,)), Seated(1, tuple(seats))] == sent
    known = [facts.worker for facts in hub.sent("m", WorkerFacts)]
    assert {root, *seats} == {*known}


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


def test_a_mission_that_comes_back_learns_who_holds_the_seats() -> None:
    """The gang may have begun while it was away, on the worker that it knows of a run before."""
    hub = Gang()
    root, seats = parts(hub.leases())
    hub.lose("m")
    hub.mission(connection=2, link="back")
    hub.send("back", Request(1, to_data(3 * TWO)))
    hub.send("back", Submit(1, 1, F, worker=root), Synced(), payload=b"args")

    assert [Seated(1, tuple(seats))] == hub.sent("back", Seated)
    known = [facts.worker for facts in hub.sent("back", WorkerFacts)]
    assert {root, *seats} == {*known}


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


def test_the_group_of_a_gang_learns_the_largest_peak_of_a_member() -> None:
    hub = Gang(TWO & Memory(3, group="opt"), memory=4)
    leases = hub.leases()
    root, _ = parts(leases)

    used = of_members(
        [
            MemberUsage(peak_memory=peak, measured_by="polling", programs=1)
            for peak in (0.5, 2.0, 1.0)
        ]
    )
    report = encode_report(RunReport(started=0.0, ended=10.0, usage=used))
    hub.send(root, hub.ended(leases[root], report=report), payload=b"value")

    [run] = hub.hub.scheduler.needs.groups["opt"].runs
    assert 2.0 == run.peak


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


def test_a_gang_of_which_seats_are_left_says_what_it_waits_for() -> None:
    hub = Gang()
    leases = hub.leases()
    root, (first, second) = parts(leases)
    hub.send(root, hub.ended(leases[root], "returned"))

    answer = hub.hub.answer_why("m", 1, hub.now)
    assert ("waiting", None) == (answer.state, answer.worker)
    why = f"its last run has ended, but for what {first}, {second} may still have of it"
    assert [why] == answer.reasons
    [shown] = hub.hub.snapshot(hub.now).missions
    [short] = hub.hub.overview.state(hub.now).missions
    assert (0, 1, 0, 1) == (shown.running, shown.waiting, short.running, short.left)
    assert [] == [run for name in "abc" for run in hub.hub.overview.runs(name, hub.now).runs]
    hub.send(first, hub.ended(leases[first], "cancelled"))
    [why] = hub.hub.answer_why("m", 1, hub.now).reasons
    assert f"but for what {second} may" in why


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


def test_a_gang_goes_on_whose_root_was_taken_for_lost_and_comes_back_before_its_seats_end() -> None:
    hub = Gang()
    leases = hub.leases()
    root, (seat, _) = parts(leases)
    hub.lose(root)
    hub.wait(70)
    hub.worker(root, held=(held(leases[root], gang=leases[root].gang),), link="back")
    hub.lose(seat)
    hub.wait(70)

    hub.worker(seat, held=(held(leases[seat], gang=leases[seat].gang),), link="seat back")
    assert [] == hub.sent("seat back", Revoke) == hub.sent("back", Revoke)


def test_a_seat_that_crashes_ends_the_root_and_is_blamed() -> None:
    hub = Gang()
    leases = hub.leases()
    root, (seat, other) = parts(leases)

    how = {"detail": "its runner died", "interruption": "short"}
    hub.send(seat, hub.ended(leases[seat], "crashed", **how))
    assert [Revoke(leases[root].attempt)] == hub.sent(root, Revoke)
    hub.send(root, hub.ended(leases[root], "cancelled"))
    hub.send(other, hub.ended(leases[other], "cancelled"))

    [crashed] = hub.sent("m", Crashed)
    assert (seat, "its runner died") == (crashed.crash.worker, crashed.crash.how)
    assert "short" == crashed.crash.interruption
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


def test_a_member_that_its_worker_hands_back_after_the_root_has_lost_it_is_no_crash() -> None:
    hub = Gang()
    leases = hub.leases()
    root, (seat, other) = parts(leases)
    hub.worker("d")
    hub.send(seat, Draining())

    how = f"{seat} is lost: its run has ended"
    hub.send(root, hub.ended(leases[root], "crashed", detail=how, lost=seat))
    hub.send(seat, hub.ended(leases[seat], "returned"))
    hub.send(other, hub.ended(leases[other], "cancelled"))

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

    def submit_again(self, worker: str = "", connection: int = 1) -> None:
        self.mission(connection=connection)
        self.send("m", Request(1, to_data(3 * Cores(2))))
        submit: Message = Submit(1, 1, F, worker=worker)
        self.send("m", submit, Synced(), payload=b"args")


def test_a_mission_that_comes_back_learns_of_the_gang_though_it_knows_the_worker() -> None:
    """The worker may run another gang by now, and the mission has not heard of that."""
    hub = Successor()
    for name in (hub.root, *hub.seats):
        hub.report(name)

    hub.submit_again(hub.root)

    assert [Started(hub.root, (1,))] == hub.sent("m", Started)
    assert [Seated(1, tuple(hub.seats))] == hub.sent("m", Seated)


def test_seats_of_a_mission_that_leaves_are_ended_before_their_root_is_reported() -> None:
    """Its task has another run, of which its worker has told first."""
    hub = Successor()
    hub.submit_again(hub.root)
    hub.worker("d", held=(InventoryRun("m", 1, (1, 77), {"Cores": 2}, 1.0),))
    for seat in hub.seats:
        hub.report(seat)

    hub.send("m", Depart())

    for seat in hub.seats:
        assert [Revoke(hub.begun[seat].attempt)] == hub.sent(seat, Revoke)


def test_a_seat_of_a_gang_that_never_began_is_not_awaited_when_its_mission_has_left() -> None:
    """It is reported late: the root has told before that it came to nothing."""
    hub = Successor()
    hub.report(hub.root)
    hub.submit_again(hub.root)
    hub.send(hub.root, hub.ended(hub.begun[hub.root], "returned", detail="SIGSEGV", absent=0))
    hub.send("m", Depart())

    hub.report(hub.seats[0])

    assert [Revoke(hub.begun[hub.seats[0]].attempt)] == hub.sent(hub.seats[0], Revoke)
    check_hub(hub.hub, hub.now)


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
        # Its mission learns of the seats when all are known, and not of some of them.
        assert (index == order[-1] and mission_first) == bool(hub.sent("m", Seated))
    if not mission_first:
        hub.submit_again(hub.root)
        assert [Seated(1, tuple(hub.seats))] == hub.sent("m", Seated)

    hub.wait(70)
    assert all(not hub.sent(name, Lease) and not hub.sent(name, Revoke) for name in "abc")
    [shown] = hub.hub.overview.state(hub.now).missions
    assert (1, 1) == (shown.running, shown.left)
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


def test_a_seat_of_a_task_that_was_retracted_before_leaves_nothing_when_its_root_is_here() -> None:
    hub = Successor()
    hub.submit_again(hub.root)
    hub.send("m", Retract((1,)))
    hub.report(hub.root)
    assert [Revoke(hub.begun[hub.root].attempt)] == hub.sent(hub.root, Revoke)
    hub.lose("m")

    hub.report(hub.seats[0])

    assert {} == hub.hub.registry.missions["m"].tasks


@pytest.mark.parametrize("alternative", [3 * Cores(2), Cores(2)], ids=["gang", "single"])
def test_a_successor_waits_for_a_seat_that_is_reported_after_the_task_has_started_again(
    alternative: Resource,
) -> None:
    hub = Successor()
    late = hub.seats[0]
    hub.mission()
    hub.send("m", Request(1, to_data(alternative)))
    submit: Message = Submit(1, 1, F, worker=hub.root)
    hub.send("m", submit, Synced(), payload=b"args")
    root = hub.begun[hub.root]
    hub.worker(hub.root, held=(held(root, gang=root.gang, ended=True),))
    hub.send(hub.root, hub.ended(root, "returned"))
    hub.wait(70)
    names = ["d", "e", hub.root]
    for name in ("d", "e"):
        hub.worker(name)
    begun = {name: some[0] for name in names if (some := hub.sent(name, Lease))}
    assert len(begun) == (1 if alternative == Cores(2) else 3)

    hub.report(late)
    assert [Revoke(hub.begun[late].attempt)] == hub.sent(late, Revoke)
    for name, lease in begun.items():
        hub.send(name, hub.ended(lease, "returned"))
    again = [hub.sent(name, Lease) for name in (*names, late)]
    assert [[]] * 4 == again

    hub.send(late, hub.ended(hub.begun[late], "cancelled"))
    assert len(begun) == sum(len(hub.sent(name, Lease)) for name in (*names, late))


@pytest.mark.parametrize("how", ["returned", "crashed"])
@pytest.mark.parametrize("mission_first", [True, False])
def test_a_successor_starts_a_gang_again_when_its_seats_were_reported_or_have_had_the_time(
    how: str, mission_first: bool
) -> None:
    hub = Successor()
    root = hub.begun[hub.root]
    if mission_first:
        hub.submit_again(hub.root)
    hub.worker(hub.root, held=(held(root, gang=root.gang, ended=True),))
    hub.send(hub.root, hub.ended(root, how, detail="it died" if how == "crashed" else ""))
    if not mission_first:
        hub.submit_again(hub.root)
    others = ("d", "e", "f")
    for name in others:
        hub.worker(name)
    assert [[]] * 3 == [hub.sent(name, Lease) for name in others]
    assert hub.hub.why("m", 1, 0.0).reasons[0].startswith("it ran on several workers")

    hub.report(hub.seats[0])
    assert [Revoke(hub.begun[hub.seats[0]].attempt)] == hub.sent(hub.seats[0], Revoke)
    hub.send(hub.seats[0], hub.ended(hub.begun[hub.seats[0]], "cancelled"))
    assert [[]] * 3 == [hub.sent(name, Lease) for name in others]
    hub.report(hub.seats[1])
    hub.send(hub.seats[1], hub.ended(hub.begun[hub.seats[1]], "cancelled"))

    begun = [name for name in (*others, *"abc") if hub.sent(name, Lease)]
    assert 3 == len(begun)
    assert "" not in [started.worker for started in hub.sent("m", Started)[-1:]]


def test_a_run_that_is_reported_meanwhile_is_taken_for_that_of_the_task() -> None:
    hub = Successor()
    root = hub.begun[hub.root]
    hub.submit_again(hub.root)
    hub.worker(hub.root, held=(held(root, gang=root.gang, ended=True),))
    hub.send(hub.root, hub.ended(root, "returned"))
    run = InventoryRun("m", 1, (1, 77), {"Cores": 2}, 1.0)
    hub.worker("d", held=(run,))
    assert "d" == hub.sent("m", Started)[-1].worker

    hub.send("d", RunEnded("m", 1, (1, 77), "returned"))

    assert "" == hub.sent("m", Started)[-1].worker
    assert "waiting" == hub.hub.why("m", 1, 0.0).state


def test_seats_that_no_worker_reports_hold_up_a_task_no_longer_than_the_grace_period() -> None:
    hub = Successor()
    root = hub.begun[hub.root]
    hub.submit_again(hub.root)
    hub.worker(hub.root, held=(held(root, gang=root.gang, ended=True),))
    hub.send(hub.root, hub.ended(root, "returned"))
    for name in ("d", "e"):
        hub.worker(name)
    assert [] == hub.sent("d", Lease)

    hub.wait(70)
    [again] = hub.sent("d", Lease)
    begun = {"d": again, **{name: hub.sent(name, Lease)[0] for name in ("e", hub.root)}}
    for name, lease in begun.items():
        hub.send(name, hub.ended(lease, "returned"))

    assert [1, 1, 1] == [len(hub.sent(name, Lease)) for name in begun]


def test_a_task_whose_mission_was_paused_meanwhile_waits_for_unseen_seats_all_the_same() -> None:
    hub = Successor()
    hub.hub.outcomes.max_unconfirmed = 0
    hub.submit_again(hub.root)
    root = hub.begun[hub.root]
    hub.worker(hub.root, held=(held(root, gang=root.gang, ended=True),))
    for name in ("d", "e"):
        hub.worker(name)
    hub.submit("m", 2)
    [(name, lease)] = [
        (one, some[0]) for one in ("d", "e", hub.root) if (some := hub.sent(one, Lease))
    ]
    hub.send(name, hub.ended(lease), payload=b"value")
    assert hub.hub.registry.missions["m"].paused

    hub.send(hub.root, hub.ended(root, "returned"))
    hub.send("m", AckTasks((2,)))
    assert not hub.hub.registry.missions["m"].paused
    assert [[]] * 3 == [hub.sent(one, Lease) for one in ("d", "e", hub.root)]
    hub.wait(70)

    assert [1] * 3 == [len(hub.sent(one, Lease)) for one in ("d", "e", hub.root)]


def test_a_root_whose_end_comes_after_that_of_the_named_worker_has_its_seats_waited_for() -> None:
    hub = Successor()
    root = hub.begun[hub.root]
    hub.submit_again("x")
    hub.worker(hub.root, held=(held(root, gang=root.gang, ended=True),))
    hub.worker("x")
    assert "waiting" == hub.hub.why("m", 1, hub.now).state

    hub.send(hub.root, hub.ended(root, "returned"))
    hub.worker("d")
    assert [[]] * 3 == [hub.sent(name, Lease) for name in (hub.root, "d", "x")]
    hub.wait(70)

    assert [1] * 3 == [len(hub.sent(name, Lease)) for name in (hub.root, "d", "x")]


class TwoGangs(Successor):
    """A head that has begun a gang of the task again when its predecessor's are reported.

    The newer gang is on d, e and f, the older one on a, b and c.
    """

    def __init__(self) -> None:
        super().__init__()
        self.submit_again()
        for name in "def":
            self.worker(name)
        self.newer = {name: self.sent(name, Lease)[0] for name in "def"}
        self.newer_root, self.newer_seats = parts(self.newer)
        for name in (self.root, *self.seats):
            self.report(name)
        for name, lease in self.newer.items():
            assert [Revoke(lease.attempt)] == self.sent(name, Revoke)

    def vacate(self, name: str) -> None:
        """Report that nothing is left of a member of the newer gang."""
        self.send(name, self.ended(self.newer[name], "cancelled"))

    def end_older(self, status: str = "returned") -> None:
        """Report that nothing is left of any member of the older gang."""
        for name in (self.root, *self.seats):
            how = status if name == self.root else "cancelled"
            self.send(name, self.ended(self.begun[name], how))

    def started(self) -> list[str]:
        """Return the workers that have got a lease since the last look."""
        return [name for name in "abcdef" if self.sent(name, Lease)]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("seconds", [0, 70])
def test_a_task_waits_for_a_newer_gang_that_was_revoked_for_an_older_one(
    order: tuple[int, ...], before: int, seconds: float
) -> None:
    """So many members of the newer gang are vacated before the older one comes to nothing."""
    hub = TwoGangs()
    members = [[hub.newer_root, *hub.newer_seats][index] for index in order]
    for name in members[:before]:
        hub.vacate(name)

    hub.wait(seconds)
    hub.end_older()
    for name in members[before:]:
        assert [] == hub.started()
        hub.vacate(name)

    assert 3 == len(hub.started())


@pytest.mark.parametrize("named", ["", "x"])
def test_a_task_that_is_submitted_again_waits_for_the_gangs_that_it_had(named: str) -> None:
    hub = TwoGangs()
    hub.lose("m")
    hub.end_older()
    assert {} == hub.hub.registry.missions["m"].tasks

    hub.submit_again(named, connection=2)
    hub.wait(70)
    for name in (hub.newer_root, *hub.newer_seats):
        assert [] == hub.started()
        hub.vacate(name)

    assert 3 == len(hub.started())


def test_the_value_of_a_gang_that_was_revoked_resolves_the_task_that_waits_for_its_end() -> None:
    hub = TwoGangs()
    hub.end_older()

    hub.send(hub.newer_root, hub.ended(hub.newer[hub.newer_root]), payload=b"value")
    for name in hub.newer_seats:
        hub.vacate(name)

    assert 1 == len(hub.sent("m", Resolved))
    assert [] == hub.started()


def test_a_task_that_is_retracted_while_it_waits_for_a_gang_is_reported_when_that_has_ended() -> (
    None
):
    hub = TwoGangs()
    hub.end_older()
    hub.send("m", Retract((1,)))
    for name in (hub.newer_root, *hub.newer_seats):
        assert [] == hub.sent("m", Retracted)
        hub.vacate(name)

    assert [Retracted(1)] == hub.sent("m", Retracted)
    assert [] == hub.started()


@pytest.mark.parametrize("how", ["value", "returned", "retracted"])
def test_a_task_of_a_lasting_mission_waits_for_its_other_gang_that_goes_on(how: str) -> None:
    hub = HubHarness(epoch=2)
    mission = hub.mission("lasting-queue-1", link="m")
    hub.send(mission, Request(1, to_data(3 * Cores(2))))
    hub.send(mission, Submit(1, 1, F), Synced(), payload=b"args")
    for name in "def":
        hub.worker(name)
    newer = {name: hub.sent(name, Lease)[0] for name in "def"}
    older = [
        InventoryRun("lasting-queue-1", 1, (1, k), {"Cores": 2}, 1.0, gang=GangPart((1, 0), k, 3))
        for k in range(3)
    ]
    for name, run in zip("abc", older, strict=True):
        hub.worker(name, held=(run,))
    root, seats = parts(newer)
    assert [[]] * 3 == [hub.sent(name, Revoke) for name in "def"]

    for name, run in zip("abc", older, strict=True):
        hub.send(name, RunEnded(run.mission, 1, run.attempt, "returned"))
    assert [[]] * 6 == [hub.sent(name, Lease) for name in "abcdef"]
    if how == "retracted":
        hub.send(mission, Retract((1,)))
    hub.send(root, hub.ended(newer[root], "cancelled" if how == "retracted" else how), payload=b"")
    assert [[]] * 6 == [hub.sent(name, Lease) for name in "abcdef"]
    for seat in seats:
        assert hub.sent(seat, Revoke)
        hub.send(seat, hub.ended(newer[seat], "cancelled"))

    ended = (len(hub.sent("m", Resolved)), len(hub.sent("m", Retracted)))
    started = sum(len(hub.sent(name, Lease)) for name in "abcdef")
    assert {"value": (1, 0, 0), "returned": (0, 0, 3), "retracted": (0, 1, 0)}[how] == (
        *ended,
        started,
    )


def test_a_task_waits_for_seats_that_were_reported_before_another_run_of_it() -> None:
    hub = Successor()
    hub.submit_again(hub.root)
    for seat in hub.seats:
        hub.report(seat)
    hub.worker("d", held=(InventoryRun("m", 1, (1, 77), {"Cores": 2}, 1.0),))
    for name in "ef":
        hub.worker(name)

    hub.send("d", RunEnded("m", 1, (1, 77), "returned"))
    hub.wait(70)
    for seat in hub.seats:
        assert [[]] * 3 == [hub.sent(name, Lease) for name in "def"]
        hub.send(seat, hub.ended(hub.begun[seat], "cancelled"))

    assert 3 == sum(len(hub.sent(name, Lease)) for name in "abcdef")


def test_a_task_waits_for_seats_whose_root_has_ended_and_was_lost_before_it_could_tell_how() -> (
    None
):
    hub = Successor()
    hub.submit_again(hub.root)
    for seat in hub.seats:
        hub.report(seat)
    root = hub.begun[hub.root]
    hub.worker(hub.root, held=(held(root, gang=root.gang, ended=True),))
    hub.worker("d")
    hub.lose(hub.root)
    hub.wait(70)
    for seat in hub.seats:
        assert [] == hub.sent("d", Lease)
        hub.send(seat, hub.ended(hub.begun[seat], "cancelled"))

    assert 3 == sum(len(hub.sent(name, Lease)) for name in "abcd")


def named_elsewhere(*, mission_first: bool) -> Successor:
    """Return a head with a gang whose root has ended, and whose mission names a worker x."""
    hub = Successor()
    root = hub.begun[hub.root]
    if mission_first:
        hub.submit_again("x")
    hub.worker(hub.root, held=(held(root, gang=root.gang, ended=True),))
    hub.send(hub.root, hub.ended(root, "returned"))
    if not mission_first:
        hub.submit_again("x")
    return hub


@pytest.mark.parametrize("mission_first", [True, False])
def test_a_task_whose_seats_are_vacated_still_awaits_the_worker_that_its_mission_names(
    mission_first: bool,
) -> None:
    hub = named_elsewhere(mission_first=mission_first)
    for seat in hub.seats:
        hub.report(seat)
        hub.send(seat, hub.ended(hub.begun[seat], "cancelled"))
    assert [[]] * 3 == [hub.sent(name, Lease) for name in "abc"]
    assert "x" == hub.sent("m", Started)[-1].worker

    hub.worker("x")

    assert 3 == sum(len(hub.sent(name, Lease)) for name in "abcx")


@pytest.mark.parametrize("mission_first", [True, False])
def test_a_task_waits_for_unseen_seats_of_its_gang_also_if_its_mission_names_a_worker(
    mission_first: bool,
) -> None:
    hub = named_elsewhere(mission_first=mission_first)
    for name in ("d", "e", "x"):
        hub.worker(name)
    assert [[]] * 3 == [hub.sent(name, Lease) for name in ("d", "e", "x")]

    hub.wait(70)

    assert 3 == sum(len(hub.sent(name, Lease)) for name in (hub.root, "d", "e", "x"))


# ---- gangs that crash


CRASHES = tuple(Crash((9, number), "w", "SIGSEGV", 0.0) for number in range(2))


class Suspects(HubHarness):
    """A hub with workers of three cores, each with a run of one core, and a mission.

    Its requests: 0 is for one core, 1 for two cores on three workers at once, 2 on two.
    """

    def __init__(self, workers: int = 4) -> None:
        super().__init__()
        self.names = [f"w{number}" for number in range(1, workers + 1)]
        for name in self.names:
            self.worker(name, 3)
        self.mission()
        self.send("m", Request(1, to_data(3 * Cores(2))), Request(2, to_data(2 * Cores(2))))
        self.send("m", *[Submit(1 + k, 0, F) for k in range(3 * workers)], payload=b"args")
        self.running = {name: self.sent(name, Lease) for name in self.names}
        for name in self.names:
            self.end(name, 2)
        self.sent("m", Resolved)

    def end(self, name: str, count: int = 1) -> None:
        """Let runs that keep a worker from being empty end."""
        for _ in range(count):
            self.send(name, self.ended(self.running[name].pop()), payload=b"")

    def suspect(self, task: int, request: int = 1) -> None:
        self.send("m", Submit(task, request, F, crashes=CRASHES), payload=b"args")

    def emptied(self) -> dict[int, list[str]]:
        """Return the workers that are reserved for each suspect that waits."""
        waiting = self.hub.quarantine.waiting.items()
        return {
            task.number: sorted(worker.name for worker in one.workers) if one else []
            for task, one in waiting
        }

    def begun(self) -> dict[str, list[Lease]]:
        """Return the new leases by worker, where there are any."""
        found = {name: self.sent(name, Lease) for name in self.names}
        return {name: leases for name, leases in found.items() if leases}

    def finish(self, leases: dict[str, list[Lease]]) -> None:
        """End a gang: the root has its outcome, then the seats are vacated."""
        parts = [(name, lease) for name, some in leases.items() for lease in some]
        parts.sort(key=lambda part: part[1].gang.index if part[1].gang else 0)
        for name, lease in parts:
            self.send(name, self.ended(lease), payload=b"")


def test_a_gang_that_has_crashed_twice_runs_alone_on_as_many_emptied_workers() -> None:
    hub = Suspects()
    hub.send("m", Submit(101, 1, F), payload=b"args")
    for crash in range(2):
        leases = {name: some[0] for name, some in hub.begun().items()}
        root, seats = parts(leases)
        assert not any(lease.alone for lease in leases.values())
        hub.send(root, hub.ended(leases[root], "crashed", detail=f"crash {crash}"))
        for seat in seats:
            hub.send(seat, hub.ended(leases[seat], "cancelled"))
    assert {} == hub.begun()
    [members] = hub.emptied().values()
    assert 3 == len(members)

    hub.submit("m", 102, 103)  # on the worker that is left
    assert [{*hub.names} - {*members}] == [{*hub.begun()}]
    hub.end(members[0])
    hub.end(members[1])
    assert {} == hub.begun()
    hub.end(members[2])

    alone = hub.begun()
    assert members == sorted(alone)
    assert all(lease.alone and lease.gang is not None for [lease] in alone.values())
    assert all({"Cores"} == lease.res.keys() for [lease] in alone.values())
    hub.submit("m", 104)
    assert {} == {name: some for name, some in hub.begun().items() if name in members}

    hub.finish(alone)
    hub.submit("m", 105, 106, 107, 108, 109, 110, 111, 112, 113)
    assert {*members} <= {*hub.begun()}


def test_two_suspect_gangs_are_emptied_for_one_after_the_other() -> None:
    """Neither holds workers that the other waits for."""
    hub = Suspects()
    hub.suspect(101)
    hub.suspect(102)
    assert [3, 0] == [len(names) for names in hub.emptied().values()]

    for name in hub.emptied()[101]:
        hub.end(name)
    first = hub.begun()
    assert {101} == {lease.task for [lease] in first.values()}
    assert {102: []} == hub.emptied()
    hub.finish(first)

    [second] = hub.emptied().values()
    for name in second:
        hub.end(name, len(hub.running[name]))
    assert {102} == {lease.task for [lease] in hub.begun().values()}


def test_of_a_suspect_gang_that_is_cancelled_all_workers_take_tasks_again() -> None:
    hub = Suspects(3)
    hub.suspect(101)
    hub.end("w1")
    hub.submit("m", 102)
    assert {} == hub.begun()

    hub.send("m", Retract((101,)))

    assert [102] == [lease.task for some in hub.begun().values() for lease in some]
    assert not any(worker.reserved for worker in hub.hub.registry.workers.values())


def test_a_worker_that_leaves_is_replaced_among_those_emptied_for_a_gang_or_all_are_free() -> None:
    hub = Suspects(4)
    hub.suspect(101)
    gone = hub.emptied()[101][0]
    hub.send(gone, Draining())
    assert {101: sorted({*hub.names} - {gone})} == hub.emptied()

    other = hub.emptied()[101][0]
    hub.send(other, Draining())

    assert {101: []} == hub.emptied()
    assert not any(worker.reserved for worker in hub.hub.registry.workers.values())


def test_no_younger_suspect_gets_a_worker_before_a_gang_that_waits_for_others() -> None:
    hub = Suspects(8)  # two workers may be reserved at a time
    hub.suspect(101, request=0)
    hub.suspect(102)
    hub.suspect(103, request=0)
    assert [1, 0, 0] == [len(names) for names in hub.emptied().values()]

    hub.end(hub.emptied()[101][0])
    assert [101] == [lease.task for some in hub.begun().values() for lease in some]
    hub.dispatch()

    assert [3, 0] == [len(names) for names in hub.emptied().values()]


def test_a_gang_claims_the_workers_on_which_suspects_run() -> None:
    """Others would always run on one of them."""
    hub = Suspects(3)
    hub.suspect(101, request=0)
    hub.end(hub.emptied()[101][0])
    [[first]] = hub.begun().values()
    where = next(w.name for w in hub.hub.registry.workers.values() if first.attempt in w.leases)
    hub.suspect(102)
    hub.suspect(103, request=0)
    assert {102: [], 103: []} == hub.emptied()

    hub.send(where, hub.ended(first), payload=b"")

    assert {102: hub.names, 103: []} == hub.emptied()


def test_the_workers_that_are_emptied_for_a_gang_are_of_one_cluster() -> None:
    hub = Suspects(2)
    hub.names += ["w3", "w4"]
    for name in ("w3", "w4"):
        hub.worker(name, 3, cluster="other")
    hub.end("w2")

    hub.suspect(101, request=2)

    assert {"w3", "w4"} == hub.begun().keys()


def test_a_suspect_takes_the_alternative_for_which_workers_are_emptied_first() -> None:
    hub = Suspects(2)
    hub.send("m", Request(3, to_data(3 * Cores(2) | 2 * Cores(3) | Cores(1))))
    hub.end("w1")
    hub.suspect(101, request=3)

    [(name, [lease])] = hub.begun().items()
    assert ("w1", {"Cores": 1}) == (name, lease.res)
    [started] = [one for one in hub.sent("m", Started) if one.tasks == (101,)]
    assert 2 == started.alternative


def test_a_successor_has_all_members_of_a_gang_that_runs_alone_to_itself() -> None:
    before = Suspects(3)
    before.suspect(101)
    for name in before.names:
        before.end(name)
    alone = before.begun()
    after = HubHarness(epoch=2)
    for name, [lease] in alone.items():
        after.worker(name, 3, (held(lease, gang=lease.gang, alone=True),))
    after.mission()
    after.submit("m", 102)

    assert [] == [lease for name in alone for lease in after.sent(name, Lease)]


@pytest.mark.parametrize(("seat_reports", "named"), [(False, True), (True, True), (True, False)])
def test_a_crash_is_blamed_once_and_on_the_member_that_the_root_has_lost(
    seat_reports: bool, named: bool
) -> None:
    hub = Gang()
    leases = hub.leases()
    root, (seat, other) = parts(leases)
    if seat_reports:
        hub.send(seat, hub.ended(leases[seat], "crashed", detail="its runner died"))
    how = f"{seat} is lost: its run has ended"
    hub.send(root, hub.ended(leases[root], "crashed", detail=how, lost=seat if named else ""))
    for name in {seat, other} - ({seat} if seat_reports else set()):
        hub.send(name, hub.ended(leases[name], "cancelled"))

    [crashed] = hub.sent("m", Crashed)
    expected = "its runner died" if seat_reports else how
    assert (seat, expected) == (crashed.crash.worker, crashed.crash.how)
    assert leases[root].attempt == crashed.crash.attempt


def test_a_mission_learns_that_the_run_of_its_gang_is_over_while_seats_are_left() -> None:
    """On its next connection as well: nothing runs where the task waits."""
    hub = Gang()
    leases = hub.leases()
    root, (seat, _) = parts(leases)
    [runs] = hub.sent("m", Started)
    hub.send(root, hub.ended(leases[root], "crashed", detail="a member is lost", lost=seat))

    [waits] = hub.sent("m", Started)
    assert (False, True) == (runs.over, waits.over)
    hub.lose("m")
    hub.mission(link="m2", connection=2)
    hub.send("m2", Request(1, to_data(3 * Cores(2))))
    hub.send("m2", Submit(1, 1, F, runs.worker), Synced(), payload=b"args")
    assert [waits] == hub.sent("m2", Started)


def test_a_gang_whose_fifth_crash_a_successor_counts_before_its_mission_comes_fails() -> None:
    """As soon as nothing of it is left, and without another run."""
    hub = Successor()
    root = hub.begun[hub.root]
    hub.worker(hub.root, held=(held(root, gang=root.gang, ended=True),))
    hub.send(hub.root, hub.ended(root, "crashed", detail="SIGSEGV"))
    for seat in hub.seats:
        hub.report(seat)
    hub.mission()
    hub.send("m", Request(1, to_data(3 * Cores(2))))
    crashes = tuple(Crash((1, 100 + n), "a", "SIGSEGV", 0.0) for n in range(4))
    hub.send("m", Submit(1, 1, F, hub.root, crashes), Synced(), payload=b"args")
    assert [] == hub.sent("m", Resolved)

    for seat in hub.seats:
        hub.send(seat, hub.ended(hub.begun[seat], "cancelled"))

    (resolved,) = hub.sent("m", Resolved)
    assert ("crashed", 5) == (resolved.ending, len(resolved.crashes))
    assert all(not hub.sent(name, Lease) for name in "abc")


def test_a_gang_that_runs_is_one_task_with_all_of_its_workers() -> None:
    hub = Gang()
    root, seats = parts(hub.leases())

    assert {"a", "b", "c"} == {facts.name for facts in hub.sent("m", WorkerFacts)}
    assert (1, 0) == (hub.hub.counts().running, hub.hub.counts().waiting)
    overview = hub.hub.overview.state(hub.now)
    assert (1, [root]) == (overview.tasks.running, [w.name for w in rows(overview) if w.runs])
    on_root, also = hub.hub.why("m", 1, hub.now).reasons
    assert on_root.startswith(f"on {root} with")
    assert f"it also has {', '.join(seats)}" == also


def test_the_demand_counts_gangs_and_says_how_many_members_they_have() -> None:
    hub = Gang()
    hub.send("m", Submit(2, 1, F), Synced(), payload=b"args")

    [found] = demand(hub.hub.registry, hub.hub.waiting, hub.now).classes

    assert (3, 1, 1, {"Cores": 2}) == (found.members, found.waiting, found.running, found.request)


def rows(overview: OverviewAnswer) -> list[Worker]:
    return unpack(pack(overview), OverviewAnswer).workers


class Pair(HubHarness):
    """A hub with four workers or fewer, and a task on two of them."""

    def __init__(self, workers: str = "abcd") -> None:
        super().__init__()
        for name in workers:
            self.worker(name)
        self.mission()
        self.send("m", Request(1, to_data(2 * Cores(2))))
        self.send("m", Submit(1, 1, F), Synced(), payload=b"args")

    def leases(self) -> tuple[tuple[str, Lease], tuple[str, Lease]]:
        """Return the new leases, that of the root first, each with its worker."""
        found = [(name, lease) for name in "abcd" for lease in self.sent(name, Lease)]
        root, seat = sorted(found, key=lambda one: one[1].gang.index if one[1].gang else 0)
        return root, seat

    def fail(self, *, by_seat: bool = False) -> set[str]:
        """Have a gang not begin, and its workers say so; return them."""
        (root, first), (seat, second) = self.leases()
        if by_seat:
            self.send(seat, self.ended(second, "returned", detail="silence", absent=0))
            self.send(root, self.ended(first, "cancelled"))
        else:
            self.send(root, self.ended(first, "returned", detail="silence", absent=1))
            self.send(seat, self.ended(second, "cancelled"))
        return {root, seat}


@pytest.mark.parametrize("by_seat", [False, True])
def test_a_gang_that_did_not_begin_starts_on_another_pair_and_its_mission_hears_of_it(
    by_seat: bool,
) -> None:
    hub = Pair()
    workers = hub.fail(by_seat=by_seat)

    [crashed] = hub.sent("m", Crashed)
    crash = crashed.crash
    assert not crash.blamed
    for name in workers:
        assert f"{name} on host host" in crash.how
    (again, _), (other, _) = hub.leases()
    assert {again, other}.isdisjoint(workers)
    assert any(crash.how in reason for reason in hub.hub.answer_why("m", 1, hub.now).reasons)


def test_a_task_waits_for_nothing_of_a_gang_that_did_not_begin() -> None:
    """A process that blocks may hold its seat for hours, or be the root."""
    hub = Pair()
    (root, first), (seat, second) = hub.leases()
    hub.send(root, hub.ended(first, "returned", detail="it was not ready", absent=1))
    assert [Revoke(second.attempt)] == hub.sent(seat, Revoke)
    assert [] == hub.sent(root, Revoke)  # it has said that it has ended

    (other, third), (silent, fourth) = hub.leases()
    hub.send(silent, hub.ended(fourth, "returned", detail="it has not connected", absent=0))
    assert [Revoke(third.attempt)] == hub.sent(other, Revoke)

    assert [seat, other] == [one.crash.absent for one in hub.sent("m", Crashed)]
    (new_root, _), (new_seat, _) = hub.leases()
    assert {root, silent} == {new_root, new_seat}
    hub.send(other, hub.ended(third, "returned", detail="it was not ready", absent=1))
    hub.send(seat, hub.ended(second, "cancelled"))
    assert [] == hub.sent("m", Crashed)


def test_a_retracted_task_waits_for_nothing_of_a_gang_that_did_not_begin_as_is_told_later() -> None:
    """The root was revoked as it said so, and its worker has to say it again."""
    hub = Pair()
    (root, first), (seat, _) = hub.leases()
    hub.send("m", Retract((1,)))
    hub.send(root, hub.ended(first, "cancelled", absent=0))
    assert [] == hub.sent("m", Retracted)

    hub.lose(root)
    hub.worker(root, held=(held(first, gang=first.gang, ended=True),), link="back")
    hub.send("back", hub.ended(first, "cancelled", absent=0))

    assert [Retracted(1)] == hub.sent("m", Retracted)
    assert 1 == len(hub.sent(seat, Revoke))


def test_a_task_fails_when_members_of_five_of_its_gangs_did_not_join() -> None:
    hub = Pair("ab")
    for times in range(5):
        hub.fail()
        hub.wait(10 * 2**times)

    [resolved] = hub.sent("m", Resolved)
    assert "crashed" == resolved.ending
    assert 5 == len(resolved.crashes)
    assert all(crash.absent for crash in resolved.crashes)


def unbegun(hub: Pair, *, by_seat: bool = False) -> set[str]:
    """Have a member die before the function began; return the workers."""
    (root, first), (seat, second) = hub.leases()
    if by_seat:
        hub.send(seat, hub.ended(second, "crashed", detail="its runner died"))
        assert [Revoke(first.attempt)] == hub.sent(root, Revoke)
        hub.send(root, hub.ended(first, "cancelled", absent=0))
    else:
        hub.send(root, hub.ended(first, "returned", detail="its runner died", absent=0))
        assert [Revoke(second.attempt)] == hub.sent(seat, Revoke)
        hub.send(seat, hub.ended(second, "cancelled"))
    return {root, seat}


@pytest.mark.parametrize("by_seat", [False, True])
def test_a_gang_whose_member_dies_before_it_begins_has_not_crashed(by_seat: bool) -> None:
    hub = Pair()
    workers = unbegun(hub, by_seat=by_seat)

    [crashed] = hub.sent("m", Crashed)
    crash = crashed.crash
    assert not crash.blamed
    assert crash.absent in workers
    died = f"{crash.absent} on host host died before all members had joined: its runner died"
    assert died == crash.how
    assert not hub.hub.scheduler.apart.known
    hub.leases()  # it begins again


@pytest.mark.parametrize("by_seat", [False, True])
def test_a_task_fails_when_five_of_its_gangs_have_died_before_they_began(by_seat: bool) -> None:
    hub = Pair("ab")
    for _ in range(5):
        unbegun(hub, by_seat=by_seat)

    [resolved] = hub.sent("m", Resolved)
    assert ("crashed", 5) == (resolved.ending, len(resolved.crashes))


@pytest.mark.parametrize("begun", [False, True])
def test_a_lost_root_has_crashed_if_its_function_is_known_to_have_begun(begun: bool) -> None:
    hub = Pair()
    (root, first), (seat, second) = hub.leases()
    hub.send(root, ArrivedCount(1))
    if begun:
        hub.send(root, GangBegun(first.attempt))
    hub.lose(root)
    hub.wait(70)
    hub.send(seat, hub.ended(second, "cancelled"))

    assert begun == bool(hub.sent("m", Crashed))
    hub.leases()  # it begins again


@pytest.mark.parametrize("what", ["drains", "is away", "was revoked"])
def test_a_member_that_does_not_join_for_another_reason_is_not_held_against_it(what: str) -> None:
    hub = Pair()
    (root, first), (seat, _) = hub.leases()
    if what == "drains":
        hub.send(seat, Draining())
    elif what == "is away":
        hub.lose(seat)
    else:
        hub.send("m", Retract((1,)))

    hub.send(root, hub.ended(first, "returned", detail="silence", absent=1))

    assert [] == hub.sent("m", Crashed)
    assert [] == hub.hub.scheduler.apart.reasons(hub.now)


def test_a_gang_that_has_a_value_clears_its_workers() -> None:
    hub = Pair()
    workers = hub.fail()
    assert hub.hub.scheduler.apart.known
    (root, first), (seat, second) = hub.leases()
    hub.send(root, hub.ended(first), payload=b"value")
    assert hub.hub.scheduler.apart.known
    hub.send(seat, hub.ended(second, "value"))
    for name in {"a", "b", "c", "d"} - workers:
        hub.lose(name)
    hub.wait(70)

    hub.send("m", Submit(2, 1, F), payload=b"args")
    (root, first), _ = hub.leases()
    hub.send(root, hub.ended(first), payload=b"value")

    assert not hub.hub.scheduler.apart.known


@pytest.mark.parametrize("mission_first", [True, False])
@pytest.mark.parametrize("root_reports", [True, False])
def test_a_new_head_does_not_wait_for_a_gang_that_did_not_begin(
    root_reports: bool, mission_first: bool
) -> None:
    hub = Pair()
    (_, first), (seat, second) = hub.leases()
    hub.send(seat, hub.ended(second, "returned", detail="it has not connected", absent=0))
    [crashed] = hub.sent("m", Crashed)
    lease = first if root_reports else second
    after = HubHarness(epoch=2)

    def report() -> None:
        after.worker("old", held=(held(lease, gang=lease.gang),))

    if not mission_first:
        report()
    after.mission()
    after.send("m", Request(1, to_data(2 * Cores(2))))
    after.send("m", Submit(1, 1, F, crashes=(crashed.crash,)), Synced(), payload=b"args")
    if mission_first:
        report()
    for name in "xy":
        after.worker(name)

    assert 1 == len(after.sent("x", Lease))
    after.wait(100)
    assert Revoke(lease.attempt) in after.sent("old", Revoke)


def test_a_gang_that_is_to_run_by_itself_gets_workers_that_may_be_together() -> None:
    hub = HubHarness()
    for name in "abc":
        hub.worker(name)
    hub.mission(cores=2)
    hub.submit("m", 1, 2, 3)
    crashes = tuple(Crash((9, number), "w", "it died", 0.0) for number in range(2))
    hub.send("m", Request(1, to_data(2 * Cores(2))))
    hub.send("m", Submit(4, 1, F, crashes=crashes), Synced(), payload=b"args")

    def emptied() -> list[int]:
        [one] = hub.hub.quarantine.waiting.values()
        assert one is not None
        return [worker.number for worker in one.workers]

    one, other = emptied()

    hub.hub.scheduler.on_apart(one, other, "", hub.now)
    hub.dispatch()

    assert {one, other} != {*emptied()}
