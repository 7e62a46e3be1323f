"""The answer to why a task does not run, read off the scheduler's state at the question."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from grain.head.scheduler.cluster import unowned
from grain.head.scheduler.places import WHOLE
from grain.head.scheduler.state import TaskQueue
from grain.resource import ZERO, learned
from grain.resource.figures import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grain.head.scheduler.scheduler import Scheduler
    from grain.head.scheduler.state import (
        Alternative,
        Reservation,
        Task,
        WorkerAccount,
    )
    from grain.resource import Resource

# So many tasks are looked at one by one; a longer queue gets a bound.
_COUNTED = 10_000

_NAMED = 3  # workers with the same reason


class Explanation(msgspec.Struct, frozen=True):
    """The state of a task and the reasons for it.

    Attributes:
        state: ``"running"``, ``"waiting"`` or ``"unknown"`` (ended, or never submitted).
        reasons: sentences; for a waiting task, first the reasons that hold wherever it will run,
            then a sentence for each worker, or for all that have the same reason.
    """

    task: int
    state: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return "\n  ".join([f"task {self.task} is {self.state}", *self.reasons])


def explain(scheduler: Scheduler, task: int, now: float) -> Explanation:
    """Explain why a task runs or waits; it costs a look at every worker, and decides nothing."""
    asked = scheduler.tasks.get(task)
    if asked is None:
        return Explanation(task, "unknown", ("it has ended, or was never submitted",))
    if asked.worker is not None:
        by = scheduler.taken.get(task)
        chosen = "" if by is None else f"by its alternative {by.request.ask()}, "
        held = scheduler.held_by(asked)
        since = f"on {asked.worker.name} with {held!r}, {chosen}for {now - asked.started:.0f} s"
        reasons = [since]
        had = asked.queue.alternatives[0] if by is None else by
        memory = learned(asked.held)
        if had.learned is not None and memory is not None:
            reasons.append(scheduler.needs.explain_given(had.stated, memory))
        reasons += disagreements(scheduler, asked.queue)
        return Explanation(task, "running", tuple(reasons))
    queue = asked.queue
    reasons = [f"it asks for {queue.request.ask()}"]
    reasons += [scheduler.needs.explain(one.stated) for one in queue.alternatives if one.learned]
    reasons += disagreements(scheduler, queue)
    if queue.interpreter:
        reasons.append(
            f"it needs {queue.interpreter}, as its function or an argument travels by value"
        )
    if queue.open != queue.bits & ~queue.closed:
        reasons.append(_awaits_first(asked, now))
    reasons += closed_texts(scheduler, queue, now)
    if queue.seen:
        reasons.append(f"it has outlived a worker, and waits for one with {queue.least:.0f} s left")
    if queue.urgent is not None and scheduler.first_of(queue) is not scheduler.tasks[task]:
        reasons.append(_more_urgent(scheduler.tasks[task]))
    elif queue.urgent is None and queue.rank is not None and queue.rank[1] != asked.age:
        reasons.append(_before(asked))
    else:
        reasons += _standing(scheduler, queue, now)
    reasons += _members(scheduler, queue, now)
    if queue.gangs:
        reasons += scheduler.apart.reasons(now)
    if not scheduler.workers:
        reasons.append("no worker is here")
    alike: dict[str, list[str]] = {}
    for worker in scheduler.workers.values():
        alike.setdefault(_why_not(queue, worker, now), []).append(worker.name)
    reasons += [f"{named(workers)}: {why}" for why, workers in alike.items()]
    return Explanation(task, "waiting", tuple(reasons))


def disagreements(scheduler: Scheduler, queue: TaskQueue) -> list[str]:
    """Return a sentence for each group of a request whose tasks have different maxima."""
    groups = {one.learned.group for one in queue.alternatives if one.learned}
    return [text for group in sorted(groups) if (text := scheduler.needs.disagreement(group))]


def closed_texts(scheduler: Scheduler, queue: TaskQueue, now: float) -> list[str]:
    """Return a sentence for each alternative that waits for resources of the whole cluster."""
    cluster = scheduler.cluster
    sentences = []
    for one in queue.alternatives:
        if one.bit & queue.closed:
            never = cluster.why_never(one)
            sentences.append(
                f"it waits for {cluster.why_closed(one, now)}"
                if never is None
                else f"never, {never}"
            )
    return sentences


def _members(scheduler: Scheduler, queue: TaskQueue, now: float) -> list[str]:
    """Return a sentence for each gang that a task may start as, with what it lacks."""
    sentences = []
    for one in queue.alternatives:
        if one.count > 1:
            able: list[WorkerAccount] = []
            for worker in scheduler.workers.values():
                worker.give_back()
                free = worker.supply.free
                if (
                    not worker.draining
                    and one.fits(worker.shape.interpreter, free)
                    and worker.has_time(one, now)
                    and worker.lets(one)
                ):
                    able.append(worker)
            most = _together(one, able)
            every = scheduler.workers.values()
            here = _together(one, (w for w in every if w.supply.total.request(one.space)))
            could = f"only {here}" if here else "none"
            where = "one group" if one.same == "group" else "one job"
            where += f", on {' and '.join(one.hosts)}" if one.hosts else ""
            sentences.append(
                f"it needs room on {one.count} workers of {where} at once, and {most} "
                f"{'has' if most == 1 else 'have'} it now"
                + (f"; it waits for more workers, as {could} could" if here < one.count else "")
            )
    return sentences


def _enough_serve(scheduler: Scheduler, queue: TaskQueue, now: float) -> bool:
    """Return True if enough workers take tasks, and could serve the gang of a queue when empty."""
    for one in queue.alternatives:
        serving = (
            worker
            for worker in scheduler.workers.values()
            if not worker.draining and one.bit & worker.shape.mask and worker.has_time(one, now)
        )
        if _together(one, serving) >= one.count:
            return True
    return False


def _together(by: Alternative, workers: Iterable[WorkerAccount]) -> int:
    """Return how many of some workers may be in one gang."""
    alike: dict[str, list[WorkerAccount]] = {}
    for worker in workers:
        alike.setdefault(worker.in_common(by.same), []).append(worker)
    return max((sum(1 for _ in by.together(some, _itself)) for some in alike.values()), default=0)


def _itself(worker: WorkerAccount) -> WorkerAccount:
    return worker


def _awaits_first(task: Task, now: float) -> str:
    """Return the sentence on the wait of a task for its first alternative."""
    queue = task.queue
    first = queue.alternatives[0].request.ask()
    left = queue.prefer if task.started == math.inf else task.started + queue.prefer - now
    return f"it waits only for {first}, for another {max(math.ceil(left), 0)} s; then any will do"


def named(workers: list[str]) -> str:
    """Return the names of workers, of many the first ones and their number.

    >>> named(["a", "b"]), named(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    more = len(workers) - _NAMED
    return ", ".join(workers[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _before(task: Task) -> str:
    """Return a sentence with the number of older tasks in the queue of a waiting one."""
    queue = task.queue
    # The place, by bisection, counts cancelled tasks, too; only a short way is gone task by task.
    place = bisect_left(queue.tasks, task.age, key=lambda other: other.age)
    if not queue.cancelled:
        older = place
    elif place <= _COUNTED:
        older = sum(not other.cancelled for other in islice(queue.tasks, place))
    else:
        return f"up to {place} older tasks that ask for the same go first"
    few = "1 older task that asks for the same goes first"
    many = f"{older} older tasks that ask for the same go first"
    return few if older == 1 else many


def _more_urgent(task: Task) -> str:
    """Return a sentence with the number of tasks that are more urgent than a waiting one."""
    first = sum(
        (-other.urgency, other.id) < (-task.urgency, task.id) and not other.cancelled
        for other in islice(task.queue.tasks, _COUNTED)
    )
    if first == 1:
        return "1 task that asks for the same, and is more urgent or older, goes first"
    return f"{first} tasks that ask for the same, and are more urgent or older, go first"


def _standing(scheduler: Scheduler, queue: TaskQueue, now: float) -> list[str]:
    """Return the reasons that hold for the queue's oldest task wherever it will run."""
    if queue.reservations:
        return [reserved_text(queue.reservations[0], now)]
    count, limit = len(queue.overtakers), scheduler.due_after(queue)
    several = queue.only is not None and queue.only.count > 1
    if count == limit:
        if not several:
            then = "the next worker on which it fits is reserved for it, once no other task has it"
        elif _enough_serve(scheduler, queue, now):
            then = "it gets workers as soon as tasks before it leave them"
        else:
            then = "no worker is reserved for it, as too few could serve it now"
        return [f"younger tasks overtook it {count} times or more: {then}"]
    if count:
        so_far = "once" if count == 1 else f"{count} times"
        then = f"after {limit} times {'workers are' if several else 'a worker is'} reserved for it"
        return [f"younger tasks used what it could not, {so_far}; {then}"]
    return []


def reserved_text(reservation: Reservation, now: float) -> str:
    """Return the sentence on the worker that is reserved for a task, or the workers for a gang."""
    workers = [one.worker.name for one in reservation.party]
    several = len(workers) > 1
    if reservation.lacking:
        return (
            f"{len(workers)} of the {reservation.by.count} workers that it needs "
            f"{'are' if several else 'is'} reserved for it, {named(workers)}; it gets the others "
            "when tasks before it leave them"
        )
    after = reservation.start - now
    when = "once all of them are free enough" if several else "once it is free enough"
    if 1 <= after < math.inf:
        when = f"within {math.ceil(after)} s"
    return f"{named(workers)} {'are' if several else 'is'} reserved for it, and " + (
        f"take it {when}" if several else f"takes it {when}"
    )


def full_text(queue: TaskQueue, serving: int, looked_at: Iterable[WorkerAccount]) -> str:
    """Return the sentence on workers without room for the tasks of a queue.

    Args:
        serving: how many workers take tasks.
        looked_at: some of them, which show what is used up.
    """
    missing = [kinds for worker in looked_at if (kinds := _missing(queue, worker))]
    asked = dict.fromkeys(kind for one in queue.opened() for kind in one.space.parts())
    of_all = [kind for kind in asked if all(kind in kinds for kinds in missing)]
    of_some = [kind for kind in asked if any(kind in kinds for kinds in missing)]
    both = " & " if queue.only is not None else " or "
    what = both.join(of_all) or " or ".join(of_some)
    # What matters comes first: `grain top` has no room for the end.
    free = f"{what} free" if what else "room for it"
    if queue.only is not None and queue.only.count > 1:
        where = f"{queue.only.count} of the {counted(serving, 'worker')} at once"
    else:
        where = "the only worker" if serving == 1 else f"any of the {serving} workers"
    return f"not enough {free} on {where}"


def too_few_text(queue: TaskQueue, scheduler: Scheduler) -> str:
    """Return the clause on workers that are too few for the gang of a queue; "" if they are not.

    All workers here count, of whatever groups.
    """
    able = [(one.count, scheduler.workers_for(one)) for one in queue.alternatives]
    if any(here >= count for count, here in able):
        return ""
    count, here = max(able, key=lambda one: one[1])
    return f"{count} workers are needed at once, and {here} here would do"


def _missing(queue: TaskQueue, worker: WorkerAccount) -> set[str]:
    """Return the kinds that a worker has enough of for a queue, but not enough free."""
    worker.give_back()
    free = worker.supply.free.parts()
    return {
        kind
        for one in queue.opened()
        if worker.supply.total.request(one.space)
        for kind, part in one.space.parts().items()
        if not free.get(kind, ZERO).request(part)
    }


def _why_not(queue: TaskQueue, worker: WorkerAccount, now: float) -> str:
    """Return the reason why a queue's oldest task does not run on a worker."""
    if not queue.runs_on(worker.shape.interpreter):
        return f"never, {queue.why_not_on(worker.shape.interpreter)}"
    if queue.only is not None:
        return _why_not_by(queue.only, worker, now)
    return "; ".join(
        f"for {one.request.ask()} {_why_not_by(one, worker, now)}" for one in queue.alternatives
    )


def _why_barred(queue: TaskQueue, worker: WorkerAccount) -> str:
    """Return why the tasks of a queue do not start on what is free of a worker."""
    gpus = [place.gpu for place in queue.avoid if place.worker == worker.id]
    if gpus:
        where = "there" if WHOLE in gpus else f"on GPU {', '.join(map(str, gpus))}"
        return f"not now: it has failed {where}, and goes elsewhere first"
    return "not now: a part or all of it is set aside, as tasks fail there that succeed elsewhere"


def _why_not_by(one: Alternative, worker: WorkerAccount, now: float) -> str:
    """Return the reason why the oldest task of a queue does not run by an alternative."""
    left = worker.end - now
    if not worker.supply.total.request(one.space):
        return f"never, {worker.supply.why_never(one.space)}"
    if left <= 0:
        return "never, its time is over"
    if left < one.need:
        return f"never, {left:.0f} s are left and it needs {one.need:.0f} s"
    if worker.draining:
        return _why_draining(worker)
    worker.give_back()
    if not worker.lets(one):
        return _why_barred(one.queue, worker)
    if not worker.supply.free.request(one.space):
        return f"not now, free is {worker.supply.free!r} of {worker.supply.total!r}"
    reservation = worker.reservation
    if reservation is not None and reservation.queue is not one.queue:
        return f"it is reserved for a task that asks for {reservation.queue.request.ask()}"
    if one.count > 1:
        return "it has room for a member"
    if one.bit & one.queue.closed:
        return "it has room"
    if not one.bit & one.queue.open:
        return "not yet, as it waits for the first alternative"
    return "it has room; an older task goes first"


def why_never(
    scheduler: Scheduler, request: Resource, now: float, interpreter: str = ""
) -> str | None:
    """Say why no worker that is here could ever run such a task; None if one could.

    For a gang, why there are not enough workers.
    """
    probe = _probe(scheduler, request, interpreter)
    never = never_in_cluster(scheduler, probe)
    if never is not None:
        return never
    several = probe.only is None
    reasons = []
    able: dict[int, list[WorkerAccount]] = {}
    for worker in scheduler.workers.values():
        if not probe.runs_on(worker.shape.interpreter):
            reasons.append(f"{worker.name}: {probe.why_not_on(worker.shape.interpreter)}")
            continue
        clauses = [_why_never(scheduler, one, worker, now) for one in probe.alternatives]
        why = [
            f"for {one.request.ask()} {clause}" if several else clause
            for one, clause in zip(probe.alternatives, clauses, strict=True)
            if clause is not None
        ]
        if len(why) < len(clauses):
            if not worker.draining:
                ways = zip(probe.alternatives, clauses, strict=True)
                for one in (one for one, no in ways if no is None):
                    if one.count == 1:
                        return None
                    able.setdefault(one.index, []).append(worker)
                continue
            why = [_why_draining(worker)]
        reasons.append(f"{worker.name}: {', and '.join(why)}")
    if any(
        _together(probe.alternatives[k], some) >= probe.alternatives[k].count
        for k, some in able.items()
    ):
        return None
    lacking = unowned(
        request, scheduler.cluster, (w.supply.total for w in scheduler.workers.values())
    )
    if lacking and not probe.only:
        lacking = []  # another alternative may do without
    return "; ".join([*_too_few(probe, able), *lacking, *reasons]) or "no worker is here"


def never_in_cluster(scheduler: Scheduler, queue: TaskQueue) -> str | None:
    """Say why the whole cluster will never have enough for a task; None if it may."""
    never = [scheduler.cluster.why_never(one) for one in queue.alternatives]
    if not all(never):
        return None
    return ", and ".join(dict.fromkeys(why for why in never if why is not None))


def _probe(scheduler: Scheduler, request: Resource, interpreter: str = "") -> TaskQueue:
    """Return a queue that is only asked what fits where."""
    bits = [0] * len(request.alternatives())
    kinds = scheduler.cluster.kinds
    return TaskQueue(request, bits, scheduler.run_times, scheduler.needs, kinds, interpreter)


def _why_never(
    scheduler: Scheduler, one: Alternative, worker: WorkerAccount, now: float
) -> str | None:
    """Return why a worker can never run a task by an alternative; None if it could."""
    why = scheduler.cluster.why_never(one)
    if why is not None:
        return why
    left = worker.end - now
    if not worker.supply.total.request(one.space):
        return worker.supply.why_never(one.space)
    if left < 0:
        return "its time is over"
    if not worker.has_time(one, now):
        return f"{left:.0f} s are left, {one.need:.0f} s needed"
    return None


def needs_larger(scheduler: Scheduler, request: Resource) -> bool:
    """Return True if workers are here, and each has too little in all for a request."""
    spaces = [one.space for one in _probe(scheduler, request).alternatives]
    totals = [worker.supply.total for worker in scheduler.workers.values()]
    return bool(totals) and not any(total.request(space) for total in totals for space in spaces)


def _too_few(queue: TaskQueue, able: Mapping[int, list[WorkerAccount]]) -> list[str]:
    """Return a clause for each gang of a queue for which some workers could be members."""
    clauses = []
    for one in queue.alternatives:
        most = _together(one, able.get(one.index, ()))
        if most:
            of_one = "" if one.same == "group" else " of one job"
            clauses.append(
                f"{one.request.ask()} needs {one.count} workers{of_one} at once, and only {most} "
                f"that {'is' if most == 1 else 'are'} here would do"
            )
    return clauses


def _why_draining(worker: WorkerAccount) -> str:
    why = f" ({worker.why_draining})" if worker.why_draining else ""
    return f"it takes no more tasks{why}"
