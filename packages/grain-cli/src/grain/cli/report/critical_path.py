"""The critical path of a mission: the chain of tasks, each awaited by the next, that ended last.

It leads back from the task that ran and ended last. Before each task in the chain comes the last to
end of the tasks that its branch had awaited when it submitted the task. A mission gets shorter only
if this chain does. A task that was cancelled while it waited ends no path.

All tasks have to be remembered, as any of them may turn out to be in the chain: in arrays, 44 bytes
for each.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_CHUNK = 1024


class PathStep(NamedTuple):
    """A task of the chain.

    Attributes:
        after: the end of the task before, in seconds from the beginning; 0 for the first.
        submitted: when it was submitted: until then, the mission's own code ran.
        started: when its last run began: until then, it waited, or ran in vain.
        unsure: the seconds between its submission and its last run in which it may not have waited
            for room: it ran in vain, or the log does not say when a brief run began.
    """

    task: int
    function: int
    after: float
    submitted: float
    started: float
    ended: float
    unsure: float


class _Chunk:
    """A thousand tasks whose numbers follow each other. A time that is not known is -1."""

    __slots__ = ("before", "ended", "function", "started", "submitted", "unsure")

    def __init__(self) -> None:
        unknown = array("d", [-1.0]) * _CHUNK
        self.submitted = unknown[:]
        self.started = unknown[:]
        self.ended = unknown[:]
        self.function = array("l", bytes(8 * _CHUNK))
        self.before = array("q", bytes(8 * _CHUNK))
        self.unsure = array("f", bytes(4 * _CHUNK))


class CriticalPath:
    """The tasks of a mission. Their numbers begin with 1; 0 is none."""

    def __init__(self) -> None:
        # By number // _CHUNK: a torn log may have any number, and must not need memory for all.
        self._chunks: dict[int, _Chunk] = {}
        # The latest attempt at each task that was tried again, by the first.
        self._latest: dict[int, int] = {}
        self._last = 0
        self._last_end = -1.0

    def submitted(
        self, task: int, function: int, time: float, after: Iterable[int], retry_of: int = 0
    ) -> None:
        """Record a task that is submitted after others have ended.

        Args:
            retry_of: the first attempt at it; 0 if this is the first.
        """
        chunk, at = self._place(task)
        if retry_of:
            after = (*after, self._latest.get(retry_of, retry_of))
            self._latest[retry_of] = task
        chunk.submitted[at] = time
        chunk.function[at] = function
        before, latest = 0, -1.0
        for one in after:
            ended = self._end_of(one)
            if latest < ended <= time:
                before, latest = one, ended
        chunk.before[at] = before

    def ended(self, task: int, started: float | None, ended: float, unsure: float = 0.0) -> None:
        """Record a task that has ended.

        Args:
            started: when its last run began; None if it was waiting, which ends no path.
            unsure: as of `PathStep`; at most all that time counts.
        """
        chunk, at = self._place(task)
        if chunk.submitted[at] < 0:
            return  # its submission was torn
        chunk.started[at] = ended if started is None else started
        chunk.ended[at] = ended
        chunk.unsure[at] = unsure
        if started is not None and ended >= self._last_end:
            self._last, self._last_end = task, ended

    def function_of(self, task: int) -> int | None:
        """Return the number of the function of a task; None if its submission is not known."""
        number, at = divmod(task, _CHUNK)
        chunk = self._chunks.get(number)
        return None if chunk is None or chunk.submitted[at] < 0 else chunk.function[at]

    def steps(self) -> list[PathStep]:
        """Return the chain, the first task first."""
        steps: list[PathStep] = []
        seen: set[int] = set()
        task = self._last
        while task and task not in seen:
            seen.add(task)  # a number that is used twice makes no endless chain
            chunk, at = self._place(task)
            before = chunk.before[at]
            after = max(0.0, self._end_of(before)) if before else 0.0
            submitted, started = chunk.submitted[at], chunk.started[at]
            unsure = min(chunk.unsure[at], max(0.0, started - submitted))
            function, ended = chunk.function[at], chunk.ended[at]
            steps.append(PathStep(task, function, after, submitted, started, ended, unsure))
            task = before
        return steps[::-1]

    def _place(self, task: int) -> tuple[_Chunk, int]:
        number, at = divmod(task, _CHUNK)
        chunk = self._chunks.get(number)
        if chunk is None:
            chunk = self._chunks[number] = _Chunk()
        return chunk, at

    def _end_of(self, task: int) -> float:
        number, at = divmod(task, _CHUNK)
        chunk = self._chunks.get(number)
        return -1.0 if chunk is None else chunk.ended[at]
