"""The jobs that failed, in groups by their ends, as the last line has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_GROUPS = 3
_LONG_INPUT = 40  # characters


class _Group(NamedTuple):
    """The jobs that ended in one way: how many, and the one with the smallest number."""

    jobs: int
    seq: int
    values: str


class FailureGroups:
    """The jobs that failed, by how they ended.

    It holds one job of each group, and there are no more groups than exit codes and signals: so it
    stays small, however many jobs fail.
    """

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def add(self, end: str, seq: int, values: Iterable[str]) -> None:
        """Count a job that failed.

        Args:
            end: how it ended, as in "exit 3" or "SIGSEGV".
        """
        group = self._groups.get(end)
        if group is None or seq < group.seq:  # jobs do not end in the order of their numbers
            before = 0 if group is None else group.jobs
            self._groups[end] = _Group(before + 1, seq, shortened(values, _LONG_INPUT))
        else:
            self._groups[end] = group._replace(jobs=group.jobs + 1)

    def summary(self) -> str:
        """Return the largest groups as part of a line; empty if no job failed."""
        ranked = sorted(self._groups.items(), key=lambda item: (-item[1].jobs, item[1].seq))
        parts = [
            f"{group.jobs} x {end}, first: {job_text(group.seq, group.values)}"
            for end, group in ranked[:_MOST_GROUPS]
        ]
        if others := sum(group.jobs for _, group in ranked[_MOST_GROUPS:]):
            parts.append(f"{others} in other ways")
        return "; ".join(parts)


def job_text(seq: int, values: str) -> str:
    """Return the display name of a job: its number and its input.

    >>> job_text(3, "a.xyz")
    'job 3 (a.xyz)'
    """
    return f"job {seq} ({values})" if values else f"job {seq}"


def shortened(values: Iterable[str], most: int = 80) -> str:
    """Return an input as one short line, without control characters."""
    text = " ".join(values)
    line = "".join(char if char.isprintable() else "?" for char in text[:most])
    return f"{line}..." if len(text) > most else line
