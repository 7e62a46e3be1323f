"""`UnmetRequests`: the requests of jobs that no worker can meet. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from grain.queue.records import UnmetRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.head.messages import Unschedulable
    from grain.queue.records import Job

# Seconds for which no worker could meet a request, until commands say so: workers that are there
# come back within these when a scheduler starts, those of a batch system later.
_UNMET = 10.0
_UNMET_BY_NONE = 60.0  # the same as long as no worker has joined


class UnmetRequests:
    """The requests that no worker here can meet, nor could for a while.

    Attributes:
        known: the requests that commands know of.
    """

    def __init__(self) -> None:
        self.known: list[UnmetRequest] = []
        # By what a job asks for: jobs that come meanwhile do not begin the time again.
        self._since: dict[tuple[bytes, float], float] = {}

    def look(self, waiting: Iterable[tuple[Job, Unschedulable]], now: float) -> bool:
        """Record what cannot be met now; return True if commands are to know of others.

        Args:
            waiting: a job of each of these requests, with what the scheduler says.
        """
        since, self._since = self._since, {}
        unmet = []
        for job, message in waiting:
            key = (msgspec.json.encode(job.request), job.timeout)
            began = self._since[key] = since.get(key, now)
            if now >= began + (_UNMET if message.workers else _UNMET_BY_NONE):
                why = message.why if message.cluster else ""
                unmet.append(UnmetRequest(request=job.request, timeout=job.timeout, why=why))
        before, self.known = self.known, unmet
        return unmet != before
