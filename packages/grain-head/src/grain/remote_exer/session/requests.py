"""`StatedRequests`: what the tasks of a mission ask for, and how many wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from grain.edge.errors import RemoteProtocolError
from grain.head.messages import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.head.messages import Overtaken, Unschedulable
    from grain.head.scheduler.numbered import Numbered
    from grain.remote_exer.session.notices import Notices
    from grain.remote_exer.session.records import RemoteTask


class StatedRequests:
    """The requests of a mission, by number, and the tasks that wait.

    Args:
        pending: the unresolved tasks.
        notices: those of the head, which say which requests no worker can meet.

    Attributes:
        stated: the requests, each at its number.
        waiting: how many tasks of each request have no worker. Who changes `RemoteTask.worker`, or
            adds or takes a task, counts here, as a look at all tasks would cost too much.
    """

    def __init__(self, pending: Numbered[RemoteTask], notices: Notices) -> None:
        self._pending = pending
        self._notices = notices
        self.stated: list[Request] = []
        self.waiting: list[int] = []
        # One of the tasks that cannot start, of which displays show the name; 0 before the first.
        self._example = 0

    def state(self, resources: dict[str, Any], priority: int, interpreter: str) -> Request:
        """Return another request, for the head."""
        request = Request(len(self.stated), resources, priority, interpreter)
        self.stated.append(request)
        self.waiting.append(0)
        return request

    def on_overtaken(self, message: Overtaken) -> None:
        """Note how often the oldest waiting task of a request was overtaken, for the next head.

        Raises:
            RemoteProtocolError: there is no such request.
        """
        self.check(message.request)
        before = self.stated[message.request]
        self.stated[message.request] = replace(before, overtaken=message.times)

    def to_send(self) -> Iterator[Request]:
        """Yield all requests for a new connection."""
        for request, waiting in zip(self.stated, self.waiting, strict=True):
            yield request if waiting else replace(request, overtaken=0)

    def check(self, number: int) -> None:
        """Check the number of a request that the head has named.

        Raises:
            RemoteProtocolError: there is no such request.
        """
        if not 0 <= number < len(self.stated):
            raise RemoteProtocolError(f"a message on request {number}, which never was")

    def count_stuck(self) -> tuple[int, int]:
        """Return how many waiting tasks no worker here can run, and the number of one of them."""
        stuck = self._notices.stuck
        count = sum(self.waiting[request] for request in stuck)
        if not count:
            return 0, 0
        one = self._pending.get(self._example)
        if one is None or one.worker or one.asked not in stuck:
            # A look at many tasks, and not again before this one has changed.
            self._example = next(self.stuck_tasks(), 0)
        return count, self._example

    def stuck_tasks(self) -> Iterator[int]:
        """Yield the tasks that wait and that no worker here can run: a look at all tasks."""
        stuck = self._notices.stuck
        # Most often none waits, and there may be a million tasks.
        if any(self.waiting[request] for request in stuck):
            for task, record in self._pending.items():
                if record.asked in stuck and not record.worker:
                    yield task

    def unmet(self) -> dict[int, Unschedulable]:
        """Return a waiting task for each request that no worker here can meet, with the message."""
        stuck = self._notices.stuck
        left = {request for request in stuck if self.waiting[request]}
        found: dict[int, Unschedulable] = {}
        for task in self.stuck_tasks():
            asked = self._pending[task].asked
            if asked in left:
                left.discard(asked)
                found[task] = stuck[asked]
                if not left:
                    break
        return found
