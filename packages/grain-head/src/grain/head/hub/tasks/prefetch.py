"""Prefetch: brief tasks wait on a worker, in a chain behind a run of their own queue. No I/O.

A worker whose run has ended waits for the head's next lease. That takes a round trip, which for a
run of less than some milliseconds is the larger part. So brief tasks are sent before there is room:
each takes the place of its predecessor, with all that it holds, once that has ended.

1.  A task is only sent behind a run of its own queue: it asks for the same, at the same priority,
    and belongs to the same mission. So it needs no look at what is free.
    Where tasks have alternatives, none is sent ahead: the next one may take another.
2.  Only while no other queue has waiting tasks: no task is overtaken. Later tasks wait for what was
    sent ahead, which is `PREFETCH_SECONDS` seconds of work as runs lately took. The worker measures
    that: the head sees also how long messages and processes wait on a busy machine, where tasks
    sent ahead spare most of it. But where the head sees more than `SLOWED` times as much, a part
    of that counts, too: the worker does not measure how long it takes to move large payloads. So
    later tasks wait for no more than `SLOWED` times `PREFETCH_SECONDS` as the head sees it.
3.  Only what cannot start at once, and never more than one part of what waits for each run of the
    queue: so the last tasks do not wait on one worker while others have room.
4.  Nothing is sent ahead with a time limit, for a run that has the worker to itself, or where tasks
    use resources of the whole cluster.
5.  What waits on a worker is not begun: it cannot have crashed anything. The worker returns it
    if it has to wait for long (`grain.worker.runner.chains`).
6.  A worker that reports also reports its chains, so another head can adopt them. It adds nothing.

Only the head of a chain holds resources: when it ends, its successor takes over its scheduler id.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from grain.head.hub.state import Chain
from grain.head.scheduler.state import DURATIONS
from grain.resource import to_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.head.hub.state import LeaseRecord, WorkerRecord
    from grain.head.scheduler.scheduler import Scheduler
    from grain.head.scheduler.state import TaskQueue
    from grain.worker.messages import InventoryRun

PREFETCH_SECONDS = 0.02
"""Seconds of work that are sent ahead for each run: much longer than the round trip that they hide,
and a short wait for tasks of others."""

SLOWED = 10.0
"""The factor by which a run may seem to take longer than its worker measured, and still counts by
what that measured."""

_MOST = 64  # tasks in a chain
# In all chains together, and for each run of the queue if that is more. No head decides more than
# 50,000 tasks a second, so the former is `PREFETCH_SECONDS` of any work that is really brief. The
# latter is for heads of thousands of runs: a successor costs them half of what a start does. If the
# work is not brief, all of it comes back at once.
_MOST_IN_ALL, _MOST_FOR_EACH = 1024, 4
_LONG = 1.0  # seconds; how much longer a run took makes no difference


class Prefetch:
    """The chains of tasks that wait on workers: how long they may be, and which run succeeds which.

    It decides; `grain.head.hub.tasks.runs.Runs` makes the leases and sends them.

    Args:
        prefetch_seconds: seconds of work that are sent ahead for each run.

    Attributes:
        in_chains: how many tasks wait on workers.
    """

    def __init__(self, scheduler: Scheduler, prefetch_seconds: float = PREFETCH_SECONDS) -> None:
        self._scheduler = scheduler
        self._prefetch_seconds = prefetch_seconds
        # Runs that began, or came to the head of their chain, since the last decision: only behind
        # these there can be room that was not there before.
        self._heads: list[LeaseRecord] = []
        # The seconds that each run took which has ended since, and those of its work, by queue.
        self._durations: dict[TaskQueue, list[tuple[float, float]]] = {}
        self.in_chains = 0

    # ---- making chains longer

    def on_started(self, lease: LeaseRecord) -> None:
        """Consider successors for a run that holds resources, at the next `growth`."""
        self._heads.append(lease)

    def growth(self, *, lanes_wait: bool = False) -> Iterator[tuple[Chain, TaskQueue, int]]:
        """Yield chains that are to be longer, each with the queue to take from and how many tasks.

        To be called after everything that can start has started. The caller takes the tasks from
        the queue and appends them before it asks for the next chain, as each has a share of what
        waits then.

        Args:
            lanes_wait: True if lanes do: no task goes before these, and a lane into no chain.
        """
        heads, self._heads = self._heads, []
        self._update_spans()
        queue = self._scheduler.sole_queue()
        if lanes_wait or queue is None or queue.only is None or queue.only.wtime is not None:
            return
        if queue.shared or queue.learns or queue.barred is not None:
            return
        depth = (
            _MOST
            if _MOST * queue.span <= self._prefetch_seconds
            else int(self._prefetch_seconds / queue.span)
        )
        for head in heads:
            if head.scheduler_id is None or not _takes_more(head.worker):
                continue
            if self._scheduler.tasks[head.scheduler_id].queue is not queue:
                continue
            chain = head.chain
            # Rule 3. The head runs and is of this queue, so `running` is not 0.
            most = min(depth, queue.waiting // queue.running)
            room = most if chain is None else most - len(chain.waiting)
            if 2 * room < most:
                continue  # a lease for each end would wake agent and runner as often
            in_all = max(_MOST_IN_ALL, _MOST_FOR_EACH * queue.running)
            room = min(room, in_all - self.in_chains)
            if room <= 0:
                continue
            if chain is None:
                held = to_data(self._scheduler.tasks[head.scheduler_id].held)
                chain = head.chain = Chain(head, head.attempt[1], held)
            elif not chain.number:
                continue  # another head's: no lease of this one could name it
            yield chain, queue, room

    def append(self, lease: LeaseRecord, chain: Chain) -> None:
        """Put a run at the end of a chain."""
        lease.chain = chain
        chain.waiting.append(lease)
        self.in_chains += 1

    def adopt(self, lease: LeaseRecord, held: InventoryRun) -> bool:
        """Put a run that its worker reports into its chain there.

        Returns:
            True if it waits there; False if it is under way, and holds resources.
        """
        worker = lease.worker
        key = (held.attempt[0], held.chain or held.attempt[1])
        # A worker reports the runs of a chain in their order: the first of them is under way.
        head = worker.chain_heads.setdefault(key, lease)
        if head is lease:
            return False
        if head.chain is None:
            head.chain = Chain(head, 0, held.res)
        self.append(lease, head.chain)
        return True

    def dismiss(self, lease: LeaseRecord) -> None:
        """Let a run that was adopted as under way, and cannot be there, begin no chain."""
        heads = lease.worker.chain_heads
        for key in [key for key, head in heads.items() if head is lease]:
            del heads[key]

    # ---- the end of a run

    def leave(
        self, lease: LeaseRecord, now: float, *, measured: bool, work: float | None = None
    ) -> LeaseRecord | None:
        """Take a run that has ended out of its chain, and note how long it took.

        Args:
            lease: the run, which still has its scheduler id if it was under way.
            measured: whether it ended by itself, so that others will take about as long.
            work: the seconds that it took by the word of its worker; None if that did not say.

        Returns:
            Its successor, which is now the head of the chain and takes over what it held.
        """
        chain, lease.chain = lease.chain, None
        if lease.scheduler_id is None:
            if chain is not None:  # it waited, and was given back or taken back
                chain.waiting.remove(lease)
                self.in_chains -= 1
                # Most often its worker gave it back, as its predecessor takes long (rule 5).
                self._distrust(chain.head)
            return None
        queue = self._scheduler.tasks[lease.scheduler_id].queue
        if lease.lane:
            return None  # it took as long as its mission had calls for it
        if measured:
            took = now - lease.began
            self._measure(queue, took, work)
            if queue.durations is None:
                queue.durations = deque(maxlen=DURATIONS)
            queue.durations.append(took)
        else:
            self._measure(queue, _LONG)
        if chain is None or not chain.waiting:
            return None
        successor = chain.head = chain.waiting.popleft()
        self.in_chains -= 1
        self._heads.append(successor)
        return successor

    # ---- how long runs take

    def _measure(self, queue: TaskQueue, took: float, work: float | None = None) -> None:
        """Note what a run took; a run that was stopped or died counts as long.

        From such a run nothing follows for others: they have to prove again that they are brief.
        """
        if took >= _LONG:
            queue.span = _LONG
            self._durations.pop(queue, None)
            return
        duration = took, took if work is None else work
        durations = self._durations.get(queue)
        if durations is None:
            self._durations[queue] = [duration]
        else:
            durations.append(duration)

    def _update_spans(self) -> None:
        """Update the mean run time of each queue (exponential, weight 1/8 per run), by rule 2.

        Ends of a chain that are reported together are seen as one long run and others that took no
        time: so only their mean counts, with the weight of all of them.
        """
        for queue, durations in self._durations.items():
            took, work = map(sum, zip(*durations, strict=True))
            seconds = max(work, took / SLOWED) / len(durations)
            queue.span += (seconds - queue.span) * (1 - (7 / 8) ** len(durations))
        self._durations.clear()

    def _distrust(self, head: LeaseRecord) -> None:
        """Take the runs of a queue for long until they prove to be brief again."""
        if head.scheduler_id is not None:
            self._scheduler.tasks[head.scheduler_id].queue.span = _LONG


def _takes_more(worker: WorkerRecord) -> bool:
    # The scheduler starts nothing on a worker that is reserved or told to drain. But a chain grows
    # behind a run that is there already: the worker would not become empty.
    return worker.takes_runs and not (worker.reserved or worker.told_to_drain is not None)
