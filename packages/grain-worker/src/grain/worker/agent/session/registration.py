"""`WorkerRegistration`: a worker as its heads know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from grain.resource import WTime, to_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.resource import Resource
    from grain.worker.messages import RegisterWorker


class WorkerRegistration:
    """The registration of a worker, which each connection repeats.

    Args:
        message: what does not change of it.
        total: its resources; time left counts from now.
    """

    def __init__(self, message: RegisterWorker, total: Resource, now: float) -> None:
        self.message = message
        self.total = total
        self._started = now
        self._connections = 0

    def rename(self, id: str) -> None:  # noqa: A002 - its name
        """Take another id from the next connection on."""
        self.message = msgspec.structs.replace(self.message, worker=id)

    def next(self, now: float, functions: Sequence[bytes], *, draining: bool) -> RegisterWorker:
        """Return the message that begins another connection."""
        self._connections += 1
        return msgspec.structs.replace(
            self.message,
            total=self._total_now(now),
            functions=tuple(functions),
            draining=draining,
            connection=self._connections,
        )

    def _total_now(self, now: float) -> dict[str, Any]:
        wtime = self.total.get(WTime)
        if not isinstance(wtime, WTime) or wtime.T is None or wtime.countdown:
            return to_data(self.total)
        left = max(wtime.T - (now - self._started), 1.0)
        return {**to_data(self.total), **to_data(WTime(T=left))}

    def time(self, now: float) -> tuple[float, float] | None:
        """Return the whole time of the worker and what is left of it; None if it has no end."""
        wtime = self.total.get(WTime)
        if not isinstance(wtime, WTime) or wtime.T is None:
            return None
        since = now - self._started
        life = wtime.T + since if wtime.countdown else wtime.T
        return life, life - since
