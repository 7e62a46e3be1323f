"""`OutputWriters`: two tasks whose programs write to one file at the same time. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from grain.eventlog.usage import RunReport

_FILES = 1000  # that are remembered: runs that go on at the same time are mostly fewer
_CLOCKS = 5.0  # seconds by which the clocks of two hosts may differ


class _Writer(NamedTuple):
    task: int
    function: str
    host: str
    began: float
    ended: float


class OutputWriters:
    """The last run that has written to each file, to see if two have done so at the same time.

    Each program empties the file when it begins, so only the output of one is left.

    Args:
        shared: the directory of the mission, which all hosts have. Elsewhere the same path on
            another host may be another file.
    """

    def __init__(self, shared: str) -> None:
        self._shared = shared.rstrip("/") + "/"
        self._last: dict[str, _Writer] = {}
        self._told: set[tuple[str, str]] = set()

    def note(self, task: int, function: str, report: RunReport) -> str:
        """Note that a run has ended.

        Returns:
            A sentence if another run has written to a file of its programs meanwhile; "" if none
            has, or if there was such a sentence for these two functions.
        """
        own = _Writer(task, function, report.host, report.started, report.ended)
        said = ""
        for path in report.usage.outputs:
            other = self._last.pop(path, None)
            self._last[path] = own
            if len(self._last) > _FILES:
                del self._last[next(iter(self._last))]
            if other is None or not self._both_wrote(path, other, own):
                continue
            pair = other.function, function
            if pair not in self._told:
                self._told.add(pair)
                said = (
                    f"{other.function} (task {other.task}) and {function} (task {task}) ran at the "
                    f"same time, and programs of both wrote to {path}, which each had emptied for "
                    "its own output. Give each program a file of its own"
                )
        return said

    def _both_wrote(self, path: str, one: _Writer, other: _Writer) -> bool:
        if path.startswith("/dev/"):  # such as /dev/null
            return False
        together = min(one.ended, other.ended) - max(one.began, other.began)
        if one.host == other.host:
            return together > 0.0
        return together > _CLOCKS and path.startswith(self._shared)
