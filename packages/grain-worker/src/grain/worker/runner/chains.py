"""Runs that were sent ahead of their time, and wait in line for another run's end. No I/O.

A *line* is a place on a worker, with the resources of the run that began it: one run after the
other takes place there. So the next one begins at once, where otherwise the worker would wait for
the head's next word, which is longer than a brief run takes.

The runner lets them wait (`Waiting`), as only there it is known at once that a run has ended. The
agent knows their order (`Lines`): of each line it takes the first for the one that is under way.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grain.worker.messages import Attempt, Lease, Run

PATIENCE = 0.1
"""Seconds that a run may take while others wait for its end, and that a run may have to wait. A
head that sends runs ahead expects them to be done in a fifth of that."""


class Waiting:
    """The runner's side: what waits, by the number of the run that began the line."""

    def __init__(self) -> None:
        # A line is known while something waits in it, or a run is under way that has waited.
        self.lines: dict[int, deque[tuple[Run, Any]]] = {}
        self.count = 0
        """How many runs wait."""

    def admit(self, run: Run, payload: Any, *, first_runs: bool) -> bool:
        """Whether a run begins at once; if not, `ended` gives it back when it is time.

        Args:
            run: one that names a line.
            payload: is given back with it.
            first_runs: whether the run that began the line is under way.
        """
        line = self.lines.get(run.chain)
        if line is None:
            line = self.lines[run.chain] = deque()
            if not first_runs:
                return True
        line.append((run, payload))
        self.count += 1
        return False

    def ended(self, run: Run) -> tuple[Run, Any] | None:
        """A run has ended: what begins now, if something waits in its line."""
        number = run.chain or run.task
        line = self.lines.get(number)
        if line is None:
            return None
        if line:
            self.count -= 1
            return line.popleft()
        del self.lines[number]
        return None

    def withdraw(self, task: int) -> Run | None:
        """Let a run not begin; it, or None if it does not wait."""
        for line in self.lines.values():
            for entry in line:
                if entry[0].task == task:
                    line.remove(entry)
                    self.count -= 1
                    return entry[0]
        return None

    def clear(self) -> None:
        """Nothing that waits is to begin."""
        self.lines.clear()
        self.count = 0


class Running:
    """One run under way, or in line behind one that is, as the agent knows it."""

    __slots__ = ("began", "lease", "line", "number", "returning", "revoked")

    def __init__(self, lease: Lease, number: int, began: float) -> None:
        self.lease = lease
        self.number = number
        self.began = began
        self.line: Line | None = None
        self.revoked = False
        self.returning = False


class Line:
    """The runs of a line that have not ended, in their order; the first is under way.

    Attributes:
        key: the attempt that began it.
        number: of the run that began it, by which the runner knows it.
        runs: those runs.
        asked: whether the runner was asked to return those that wait.
    """

    __slots__ = ("asked", "key", "number", "runs")

    def __init__(self, key: Attempt, first: Running) -> None:
        self.key = key
        self.number = first.number
        self.runs: deque[Running] = deque([first])
        self.asked = False
        first.line = self


class Lines:
    """The agent's side: which of its runs are in line, by the attempt that began each line.

    Args:
        patience: seconds that a run may take while others wait for its end.

    Attributes:
        due: when `overdue` has something to look at.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._lines: dict[Attempt, Line] = {}
        self.due = math.inf

    def join(self, key: Attempt, run: Running, first: Running | None, now: float) -> int:
        """A run comes into a line.

        Args:
            key: the attempt that began the line.
            run: the run.
            first: the run of that attempt, if it is still under way.
            now: the time.

        Returns:
            The number by which the runner knows the line; 0 if the run begins one.
        """
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(key, first or run)
            if first is None:
                return 0
        line.runs.append(run)
        run.line = line
        line.asked = False
        self.due = min(self.due, now + self._patience)
        return line.number

    def leave(self, run: Running, now: float) -> None:
        """A run has ended."""
        line = run.line
        if line is None:
            return
        if line.runs[0] is run:
            line.runs.popleft()
            if line.runs:
                line.runs[0].began = now
                line.asked = False
                if len(line.runs) > 1:
                    self.due = min(self.due, now + self._patience)
            else:
                del self._lines[line.key]
        else:
            line.runs.remove(run)

    def waiting(self) -> list[Running]:
        """The runs that are not the first of their line."""
        return [run for line in self._lines.values() for run in list(line.runs)[1:]]

    def overdue(self, now: float) -> list[Running]:
        """The runs that have to wait for long, once; to be called when it is `due`."""
        found: list[Running] = []
        for line in self._lines.values():
            # Since when the run in front takes place, and since when the next one waits.
            since = min(run.began for run in itertools.islice(line.runs, 2))
            if len(line.runs) > 1 and now - since >= self._patience:
                found += [] if line.asked else list(line.runs)[1:]
                line.asked = True
        busy = any(len(line.runs) > 1 and not line.asked for line in self._lines.values())
        self.due = now + self._patience if busy else math.inf
        return found
