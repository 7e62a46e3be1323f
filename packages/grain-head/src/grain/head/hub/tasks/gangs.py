"""The gangs of a hub: tasks on several workers at once. Plain state, no I/O, no clock.

A gang has a lease on each member: that of the root, which runs the task, and those of the seats,
which hold allocations and start programs for the root (`grain.worker.gang`).

1.  All leases are sent in one decision of the scheduler. Each holds what it has until its own run
    has ended, as any lease does.
2.  The end of the root's run, however it comes, and its revocation revoke the seats; most have
    ended by themselves.
3.  A task whose gang came to nothing waits again only when all seats are vacated, or their workers
    lost: what still runs there may write to the same files. Until then the task counts as running
    on the worker of a seat: a lease of that worker *stands in* for the root's.
4.  A seat that ends by itself while the root runs, and not because the root has ended, has failed:
    the root's run is revoked. If it crashed, that is a crash of the task, unless the function had
    not begun, as the worker of the root says: then it is a gang that did not begin. So is one whose
    root dies by then. If only its worker is lost, it counts as nothing.
5.  A seat whose worker is lost for this head may still be there for the root. The root knows: if it
    has lost the seat, too, its run ends.
6.  Another head learns of seats and roots from their workers, in any order. A task of which only
    seats are reported waits for these; they are revoked when no root has come in the grace period,
    or has reported its end. A task whose root has ended waits until all seats were reported, or the
    grace period is over.
7.  A gang of which a member has not joined in time has not begun, and never will: its task waits
    for nothing of it, as a process that blocks may hold its seat for hours. The two workers are
    kept apart (`grain.head.scheduler.apart`), and after some gangs that did not begin the task
    fails, whatever the reasons.
8.  A task may have several gangs: seats of an earlier one are reported while it has another run, or
    its own is revoked for an older run. When the task waits again, it waits for all of them first,
    roots included, one after the other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from grain.head.hub.state import ITS_MISSION, ITS_SEATS, GangRecord, LeaseRecord
from grain.head.messages import Started
from grain.head.scheduler.outlived import never_began
from grain.worker.messages import GangBegun, MemberOpen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grain.head.hub.registry import Registry
    from grain.head.hub.reports import MissionReports
    from grain.head.hub.state import TaskRecord
    from grain.head.hub.tasks.outcomes import Outcomes
    from grain.head.hub.tasks.waiting import Waiting
    from grain.worker.messages import Attempt, GangNews, GangPart, RunEnded


class Gangs:
    """The gangs of all missions, by the runs of their roots."""

    def __init__(
        self, registry: Registry, waiting: Waiting, outcomes: Outcomes, reports: MissionReports
    ) -> None:
        self._outgoing = registry.outgoing
        self._scheduler = registry.scheduler
        self._waiting = waiting
        self._outcomes = outcomes
        self._reports = reports
        self._gangs: dict[Attempt, GangRecord] = {}
        # While workers may yet report seats, the gangs whose roots have ended, by root.
        self._ended: dict[Attempt, GangRecord] = {}
        # The gangs, of both kinds, for which a task has to wait. Their key is the mission and the
        # task's number: the record of a task changes when its mission submits it again.
        self._by_task: dict[tuple[str, int], dict[Attempt, GangRecord]] = {}
        # False until all workers have had the time to report to this head.
        self._all_reported = False

    def of(self, part: GangPart, mission: str, number: int) -> GangRecord:
        """Return the gang of a part that was reported or is new.

        Args:
            mission: the id of its task's mission.
            number: that of its task.
        """
        gang = self._gangs.get(part.root)
        if gang is None:
            gang = self._ended.get(part.root) or GangRecord(part.root, part.size, (mission, number))
            self._gangs[part.root] = gang
            self._by_task.setdefault(gang.key, {})[part.root] = gang
        return gang

    def all(self) -> Iterable[GangRecord]:
        """Return all gangs of which something runs."""
        return self._gangs.values()

    @property
    def seats(self) -> int:
        """The number of seats: runs that are part of a task, and not a task by themselves."""
        return sum(len(gang.seats) for gang in self._gangs.values())

    @property
    def hold_some(self) -> bool:
        """True if tasks may have to wait for earlier gangs."""
        return bool(self._by_task)

    def is_stand_in(self, lease: LeaseRecord) -> bool:
        """Return True if a lease stands in for that of a root, until nothing of the gang runs."""
        gang = self._gangs.get(lease.attempt)
        return gang is not None and gang.stand_in is lease

    # ---- seats that await the root

    def on_news(self, lease: LeaseRecord, gang: GangRecord, news: GangNews) -> None:
        """Pass on the invitation of a seat to its root; or note that the gang has begun."""
        if isinstance(news, GangBegun):
            gang.begun = True
        elif lease.member:
            lease.invitation = news.invitation
            self._introduce(lease)

    def on_root_here(self, gang: GangRecord) -> None:
        """Pass on to a root whose worker has registered what it may have missed."""
        for seat in gang.seats.values():
            if seat.invitation:
                self._introduce(seat)

    def _introduce(self, seat: LeaseRecord) -> None:
        gang = seat.gang
        if gang is not None and gang.lease is not None:
            worker = seat.worker
            self._outgoing.post(
                gang.lease.worker.link,
                MemberOpen(
                    gang.root,
                    seat.member,
                    worker.unique_name,
                    worker.host,
                    seat.resources,
                    seat.invitation,
                ),
            )

    # ---- members that do not join

    def on_absent(self, reporter: LeaseRecord, index: int, why: str, now: float) -> None:
        """Give up a gang of which a member has not joined, as another one reports.

        If that is leaving, was revoked or is away, it is nothing that lies between the two.

        Args:
            reporter: the lease of the root, or that of a seat to which no root has come.
            index: of the member that has not joined.
        """
        gang = reporter.gang
        if gang is None or gang.absent:
            return
        root = gang.lease if reporter.member else reporter
        absent = gang.seats.get(index) if index else root
        if root is None or absent is None:
            return
        task = root.task
        if not root.current and gang.origin is not None:
            # The worker reports the end of the root again. The lease of this report may lack the
            # task, as a user has cancelled it. The task still waits for the seats: since the first
            # report, which came after the root was revoked.
            task = gang.origin.task
        ends = (root, reporter if absent is root else absent)
        if any(one.revoked or one.worker.draining or not one.worker.serving for one in ends):
            return
        gang.absent = True
        workers = [one.worker for one in (absent, reporter)]
        member, other = (f"{one.unique_name} on host {one.host}" for one in workers)
        if absent is reporter:
            how = _never_began(member, why)
        else:
            how = f"{member} did not join {other}: {why}"
            self._scheduler.on_apart(workers[0].number, workers[1].number, how, now)
        if task is not None and (root.current or self._awaits(gang, task)):
            self._outcomes.run_again(root, task, how, now, absent=workers[0].unique_name)
            self.hold_back(task)
        for lease in (root, *gang.seats.values()):
            if lease is not reporter and not lease.revoked:
                self._outgoing.revoke(lease)

    def on_value(self, gang: GangRecord) -> None:
        """Record that a gang has begun, as its task has ended with a value."""
        if gang.lease is not None:
            self._scheduler.on_together([one.worker.number for one in gang.members])

    # ---- the ends of runs

    def on_root_ended(
        self,
        lease: LeaseRecord,
        again: Callable[[float], object] | None,
        now: float,
        *,
        crashed: bool,
        unbegun: bool = False,
    ) -> None:
        """Revoke the seats of a gang whose root has ended.

        Args:
            again: lets the task wait again; None if it does not.
            crashed: True if the root's run has crashed.
            unbegun: True if its worker says that the function had not begun.
        """
        gang = lease.gang
        assert gang is not None
        gang.lease, gang.ended = None, True
        task = lease.task
        if not self._all_reported:
            self._ended[gang.root] = gang
        if task is None or not (lease.current or self._awaits(gang, task)):
            if again is not None:
                again(now)  # to count a crash; its task waits for something else
            if task is not None:
                self.hold_back(task)
        elif again is not None:
            if gang.crash is not None:
                # Where the root has crashed, too, it is one crash: that of the root's run, by which
                # another head would count it.
                seat, ended = gang.crash
                how, why = ended.detail, ended.interruption
                lease.lost, absent = seat.worker.name, ""
                if unbegun:
                    absent = seat.worker.unique_name
                    how = _never_began(f"{absent} on host {seat.worker.host}", how)
                origin = lease if crashed or absent else seat
                again = partial(
                    self._outcomes.run_again, origin, task, how, absent=absent, interruption=why
                )
            gang.origin, gang.again = lease, again
        # Else the task waits for the end of this gang as of an earlier one, and the worker of the
        # root is lost: what lets the task wait again stays.
        for seat in gang.seats.values():
            if not seat.revoked:
                self._outgoing.revoke(seat)
        self._settle(gang, now)

    def on_seat_ended(self, lease: LeaseRecord, ended: RunEnded | None, now: float) -> None:
        """Record that nothing is left of a seat, or that its worker is lost.

        Args:
            ended: how it has ended; None for a worker that is lost.
        """
        gang = lease.gang
        assert gang is not None
        if ended is not None and ended.absent >= 0:
            self.on_absent(lease, ended.absent, ended.detail, now)
        gang.seats.pop(lease.member, None)
        root = gang.lease
        if ended is not None and ended.status != "value" and root is not None and not lease.revoked:
            if ended.status == "crashed":
                gang.crash = (lease, ended)
            if not root.revoked:
                self._outgoing.revoke(root)
        origin = gang.origin
        if (
            ended is not None
            and ended.status == "returned"
            and gang.crash is None
            and gang.again is not None
            and origin is not None
            and origin.task is not None
            and origin.lost == lease.worker.name
        ):
            # The root has told of it before: it is not a crash that this worker ends.
            gang.again = partial(self._outcomes.run_again, origin, origin.task, None)
        self._settle(gang, now)

    def end(self, mission: str) -> None:
        """Revoke what is left of the gangs of a mission that has ended.

        The run of each task was revoked with its task, and so were the seats of that run. But the
        task may have had an older gang, whose seats await a root that no worker has reported yet.
        """
        for (of, _), gangs in self._by_task.items():
            if of == mission:
                for lease in [lease for gang in gangs.values() for lease in gang.members]:
                    if not lease.revoked:
                        self._outgoing.revoke(lease)

    def _settle(self, gang: GangRecord, now: float) -> None:
        """Let the task wait again, and forget the gang, when nothing is left of it."""
        if gang.lease is not None:
            return
        if gang.seats:
            self._stand_in(gang)
            return
        self._gangs.pop(gang.root, None)
        if gang.root not in self._ended or not gang.unseen:
            self._forget(gang)
        origin, again = gang.origin, gang.again
        if again is not None and origin is not None and self._awaits(gang, origin.task):
            assert origin.task is not None
            origin.task.lease = origin
            again(now)
            self.hold_back(origin.task)

    def _forget(self, gang: GangRecord) -> None:
        """Have no task wait for a gang any more."""
        others = self._by_task.get(gang.key, {})
        others.pop(gang.root, None)
        if not others:
            self._by_task.pop(gang.key, None)

    def _awaits(self, gang: GangRecord, task: TaskRecord | None) -> bool:
        """Return True if a task still waits for the end of a gang."""
        lease = None if task is None else task.lease
        return lease is not None and (lease is gang.origin or lease is gang.stand_in)

    def hold_back(self, task: TaskRecord) -> None:
        """Let a task that waits again start only when nothing of an earlier gang is left.

        No effect for a task that does not wait.
        """
        unseen = False
        for gang in self._by_task.get((task.mission.id, task.number), {}).values():
            self._hold(gang, task)
            unseen = unseen or (gang.ended and gang.unseen > 0 and not gang.absent)
        if unseen:
            self._waiting.await_seats(task)

    def _hold(self, gang: GangRecord, task: TaskRecord) -> None:
        """Let a task that waits start only when all members of an earlier gang are vacated."""
        if gang.absent or never_began(task.crashes, gang.root):
            return
        here = task.mission.tasks.get(task.number) is task
        members = gang.members
        if not here or task.lease is not None or task.ending is not None or not members:
            return
        if task.awaits not in ("", ITS_MISSION, ITS_SEATS):
            self._waiting.on_named(task, task.awaits)
        self._waiting.withdraw(task)
        gang.origin = task.lease = LeaseRecord(gang.root, task, members[0].worker, None)
        gang.again = partial(self._outcomes.run_again, gang.origin, task, None)
        self._stand_in(gang)

    def _stand_in(self, gang: GangRecord) -> None:
        """Have the task that waits for the end of a gang count as running on one of its workers."""
        task = None if gang.origin is None else gang.origin.task
        if gang.again is None or task is None or not self._awaits(gang, task):
            return
        workers = {member.worker.id: member.worker for member in gang.members}
        before = gang.stand_in
        if before is not None and task.lease is before and before.worker.id in workers:
            return
        worker = next(iter(workers.values()))
        task.lease = gang.stand_in = LeaseRecord(gang.root, task, worker, None)
        gang.stand_in.gang = gang  # so that what revokes it revokes the seats
        if task.claimed:
            self._reports.on_run(task.mission, worker)
            self._outgoing.post(task.mission.link, Started(worker.id, (task.number,), over=True))

    # ---- another head

    def on_root_reported(self, lease: LeaseRecord, gang: GangRecord, *, ended: bool) -> None:
        """Handle the run of a root that its worker reports."""
        lease.gang = gang
        if not ended:
            # Its worker may have been taken for lost meanwhile: then the gang goes on all the same.
            gang.lease, gang.ended = lease, False
            self._ended.pop(gang.root, None)
            self.on_root_here(gang)

    def on_seat_reported(self, lease: LeaseRecord, gang: GangRecord) -> None:
        """Handle a seat that its worker reports; its task waits for it if no root is here."""
        lease.gang = gang
        gang.seats[lease.member] = lease
        gang.seen.add(lease.member)
        if gang.lease is None and lease.task is not None:
            self._hold(gang, lease.task)
        if gang.lease is not None:
            self._reports.on_gang(gang.lease)
        elif self._all_reported or gang.ended:
            self._outgoing.revoke(lease)

    def on_worker_over(self, worker: str, now: float) -> None:
        """Let tasks start that awaited the report of a worker, or wait for earlier gangs."""
        for task in self._waiting.on_worker_over(worker, now):
            self.hold_back(task)

    def await_no_reports(self, now: float) -> None:
        """Await no more reports of workers: they had the time.

        Seats of which no root was reported are revoked.
        """
        if not self._all_reported:
            self._all_reported = True
            self._await_no_roots()
        for task in self._waiting.await_no_reports(now):
            self.hold_back(task)

    def _await_no_roots(self) -> None:
        for gang in self._ended.values():
            if gang.root not in self._gangs:
                self._forget(gang)
        self._ended.clear()
        for gang in self._gangs.values():
            if gang.lease is None:
                for seat in gang.seats.values():
                    if not seat.revoked:
                        self._outgoing.revoke(seat)


def _never_began(member: str, why: str) -> str:
    """Return why a gang came to nothing of which a member has died first."""
    return f"{member} died before all members had joined: {why}"
