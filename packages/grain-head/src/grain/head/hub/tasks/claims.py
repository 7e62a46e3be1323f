"""`Claims`: what waits for the room that lanes hold, in the order of service. Pure.

Thousands of queues may wait, and lanes are recalled at each decision. So queues are looked at only
as far as the lanes need: most often the first one that a lane's worker serves decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.head.scheduler.state import TaskQueue


class QueueClaim:
    """A queue, and how many of its tasks have no lane yet that ends for them."""

    __slots__ = ("count", "queue")

    def __init__(self, queue: TaskQueue) -> None:
        self.queue = queue
        self.count = queue.waiting if queue.serving_shapes else 0


class Claims:
    """The claims of one decision.

    Args:
        order: as `Scheduler.in_order_of_service`, which does not change meanwhile.
    """

    def __init__(self, order: Iterable[tuple[int, int, TaskQueue]]) -> None:
        self._rest = iter(order)
        self._seen: list[QueueClaim] = []
        # By the mask of a shape of workers: so many of the first claims are nothing to its lanes.
        self._passed: dict[int, int] = {}

    def of(self, mask: int) -> Iterator[QueueClaim]:
        """Yield the claims that workers of a shape could serve, the first in order first."""
        at = self._passed.get(mask, 0)
        while True:
            if at == len(self._seen):
                entry = next(self._rest, None)
                if entry is None:
                    return
                self._seen.append(QueueClaim(entry[2]))
            claim = self._seen[at]
            if claim.count > 0 and claim.queue.open & mask:
                yield claim
            # A count only falls, so what is nothing to one lane of the shape is so to all others.
            # But what a lane has passed over as it is its own queue may concern the next lane.
            if at == self._passed.get(mask, 0) and (
                claim.count <= 0 or not claim.queue.open & mask
            ):
                self._passed[mask] = at + 1
            at += 1
