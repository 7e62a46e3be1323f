"""Tasks sent ahead: brief ones wait on a worker, in line behind a run of their own queue. No I/O.

A worker whose run has ended waits for the head's next word. That takes a round trip, which for a
run of less than some milliseconds is the larger part. So brief tasks are sent before there is room:
each takes the place of a run, with all that it holds, once that has ended.

1.  A task is only sent behind a run of its own queue: it asks for the same, at the same priority,
    and belongs to the same mission. So it needs no look at what is free.
2.  Only while no other queue has waiting tasks: nobody is overtaken. Those that come later wait for
    what was sent ahead, which is `AHEAD` seconds as runs lately took.
3.  Only what cannot start at once, and never more than one part of what waits for each run of the
    queue: so the last tasks are not in line on one worker while others have room.
4.  Nothing is sent ahead with a time limit, or to run alone.
5.  What waits on a worker is not begun: it cannot have crashed anything. The worker gives it back
    if it has to wait for long (`grain.worker.runner.chains`).
6.  A worker that reports tells of its lines, too, so another head can adopt them. It adds nothing.

The resources stay with the run in front: its ticket is handed down the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.head.hub.runs import Runs
from grain.head.hub.state import Entry, LeaseRecord, Line
from grain.resource import to_data

if TYPE_CHECKING:
    from grain.head.hub.state import Outbox, Staffer
    from grain.head.scheduler.scheduler import Scheduler
    from grain.head.scheduler.state import Start, TaskQueue
    from grain.worker.messages import HeldRun

AHEAD = 0.02
"""Seconds of work that are sent ahead for each run. Much longer than the round trip that they are
to hide; short for whoever has to wait for them."""

_MOST = 64  # tasks in a line
# In all lines together. No head decides more than 50,000 tasks a second, so that is `AHEAD` of any
# work that is really brief. If it turns out not to be, all of it comes back at once.
_MOST_IN_ALL = 1024
_LONG = 1.0  # seconds; that a run took longer tells nothing more


class Ahead(Runs):
    """The books of what waits on workers.

    Args:
        ahead: seconds of work that are sent ahead for each run.
    """

    def __init__(
        self,
        epoch: int,
        scheduler: Scheduler,
        outbox: Outbox,
        wall: float,
        ahead: float = AHEAD,
    ) -> None:
        super().__init__(epoch, scheduler, outbox, wall)
        self._ahead = ahead
        # Runs that have come to the front of a place since the last decision.
        self._fronts: list[LeaseRecord] = []
        # Of the runs that have ended since: what they took, in seconds.
        self._took: dict[TaskQueue, list[float]] = {}
        # How many tasks wait on workers.
        self.in_line = 0

    def start(self, start: Start, now: float) -> tuple[Entry, LeaseRecord]:
        """The scheduler has decided that a task starts."""
        entry, lease = super().start(start, now)
        self._fronts.append(lease)
        return entry, lease

    def send_ahead(self) -> list[tuple[Entry, LeaseRecord]]:
        """Send what is brief behind the runs that have begun; after all that can start has."""
        fronts, self._fronts = self._fronts, []
        self._estimate()
        queue = self.scheduler.sole_queue()
        if queue is None or queue.wtime is not None:
            return []
        depth = _MOST if _MOST * queue.span <= self._ahead else int(self._ahead / queue.span)
        sent: list[tuple[Entry, LeaseRecord]] = []
        for front in fronts:
            if front.ticket is None or not self._takes_more(front.worker):
                continue
            if self.scheduler.tasks[front.ticket].queue is not queue:
                continue
            line = front.line
            most = min(depth, queue.waiting // queue.running)
            room = most if line is None else most - len(line.waiting)
            room = min(room, _MOST_IN_ALL - self.in_line)
            if room <= 0:
                continue
            if line is None:
                held = to_data(self.scheduler.tasks[front.ticket].held)
                line = front.line = Line(front, front.attempt[1], held)
            elif not line.number:
                continue
            for ticket in self.scheduler.on_taken(queue, room):
                entry = self.tickets.pop(ticket)
                assert isinstance(entry, Entry)
                entry.ticket = None
                lease = self._record(entry, front.worker, None)
                lease.line = line
                line.waiting.append(lease)
                self.shares.started(entry.age, queue.priority)
                self._send_lease(lease, entry, line.resources, line=line.number)
                self.in_line += 1
                sent.append((entry, lease))
        return sent

    def adopt_behind(self, lease: LeaseRecord, held: HeldRun) -> bool:
        """Whether a run that a worker reports waits there for the end of another one."""
        worker = lease.worker
        key = (held.attempt[0], held.chain or held.attempt[1])
        front = worker.fronts.setdefault(key, lease)
        if front is lease:
            return False
        if front.line is None:
            front.line = Line(front, 0, held.res)
        lease.line = front.line
        lease.line.waiting.append(lease)
        self.in_line += 1
        return True

    def _takes_more(self, worker: Staffer) -> bool:
        return worker.serving and not (
            worker.draining or worker.reserved or worker.retired is not None
        )

    def free(self, lease: LeaseRecord, now: float, *, measured: bool = False) -> None:
        """What a run held is free, or the next one's in its line."""
        line, lease.line = lease.line, None
        if lease.ticket is None:
            if line is not None:
                line.waiting.remove(lease)
                self.in_line -= 1
                self._is_long(line.front)
            return
        task = self.scheduler.tasks[lease.ticket]
        self._measure(task.queue, now - lease.began if measured else _LONG)
        if line is None or not line.waiting:
            super().free(lease, now, measured=measured)
            return
        heir = line.front = line.waiting.popleft()
        self.in_line -= 1
        heir.ticket, lease.ticket = lease.ticket, None
        heir.began = task.started = now
        heir.index = 0  # begun, as the worker needs no other word
        assert heir.ticket is not None
        self.tickets[heir.ticket] = heir
        self._fronts.append(heir)

    def _measure(self, queue: TaskQueue, took: float) -> None:
        """A run has ended; of one that came to grief it is not known what its like will do."""
        if took >= _LONG:
            queue.span = _LONG
            self._took.pop(queue, None)
            return
        known = self._took.get(queue)
        if known is None:
            self._took[queue] = [took]
        else:
            known.append(took)

    def _estimate(self) -> None:
        """How long runs take: a mean in which the last eight or so count.

        Ends of a line that are told together are seen as one long run and others that took no time:
        only their mean says something.
        """
        for queue, took in self._took.items():
            weight = 1 - (7 / 8) ** len(took)
            queue.span += (sum(took) / len(took) - queue.span) * weight
        self._took.clear()

    def _is_long(self, front: LeaseRecord) -> None:
        """Something was given back, or taken back: it is to be seen anew that runs are brief."""
        if front.ticket is not None:
            self.scheduler.tasks[front.ticket].queue.span = _LONG
