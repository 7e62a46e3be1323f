"""The output of one task: its lines in the output of workers, and the files of its programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.show import clean, program_text
from grain.cli.workers.jobs import outputs
from grain.eventlog.files import open_plain
from grain.resource.figures import span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from grain.cli.batch import JobRecord
    from grain.config import Config
    from grain.eventlog.schema import RunEnded
    from grain.eventlog.store import StoredLog

TASK = re.compile(r"(?P<mission>.+):(?P<number>[0-9]{1,18})", re.DOTALL)
"""A task as users name it."""

_BLOCK = 1 << 20  # bytes that are searched at once
_LONGEST_LINE = 1 << 24  # bytes of a line that are looked at together
_SHORT = 8  # characters of a mission's id in front of its tasks' lines
_LABEL = re.compile(rb"[^\n]*?:[0-9]+ \((?P<id>[0-9a-f]+)\) ")
_OUTCOMES = {
    "value": "returned a value",
    "error": "raised {error}",
    "cancelled": "was cancelled",
    "crashed": "crashed",
    "lost": "was lost with its worker",
    "returned": "was handed back",
}


class TaskInLog(NamedTuple):
    """The facts on one task in the event log of its mission.

    Attributes:
        mission: the name of the mission, as it stands in the output of workers.
        id: the beginning of its id, as it stands there; empty if it has no log here.
        since: when the mission began, in Unix seconds; 0 if it has no log here.
        last: the largest number of a task that the mission has submitted; None if it has no log.
    """

    mission: str
    id: str
    since: float
    runs: tuple[RunEnded, ...]
    last: int | None


def task_facts(mission: str, number: int, log: StoredLog | None) -> TaskInLog:
    """Return what is known of a task; nothing but its mission's name without a log.

    Args:
        mission: a name or a label.
    """
    from grain.eventlog.errors import LogError
    from grain.eventlog.names import parse_label
    from grain.eventlog.reader import LogReader
    from grain.eventlog.schema import RunEnded, TaskSubmitted

    name, _ = parse_label(mission) or (mission, 0)
    if log is None:
        return TaskInLog(name, "", 0.0, (), None)
    reader = LogReader(log.folder)
    last = 0
    runs = []
    try:
        for line in reader:
            if isinstance(line, TaskSubmitted):
                last = max(last, line.task)
            elif isinstance(line, RunEnded) and line.task == number:
                runs.append(line)
    except (LogError, OSError):
        return TaskInLog(name, log.id[:_SHORT], 0.0, (), None)
    header = reader.header
    if header is None:
        return TaskInLog(name, log.id[:_SHORT], 0.0, tuple(runs), last)
    return TaskInLog(header.name, header.id[:_SHORT], header.time, tuple(runs), last)


def facts_text(facts: TaskInLog) -> list[str]:
    """Return the runs of a task, and the files of its programs, a line each."""
    lines = []
    for run in facts.runs:
        outcome = _OUTCOMES[run.outcome].format(error=run.failure.error)
        length = ""
        if run.started is not None and run.ended is not None:
            length = f" after {span(run.ended - run.started)}"
        where = f" on worker {run.worker} (host {run.host})" if run.worker else ""
        lines.append(f"run {run.attempt}{where} {outcome}{length}")
        if run.usage is not None:
            lines += [f"its programs wrote to {path}" for path in run.usage.outputs]
    return lines


def programs_text(config: Config, mission: str, number: int) -> list[str]:
    """Return the programs that a task runs now, a line each; none without a scheduler."""
    from grain.cli.query import BRIEF, NoScheduler, explain

    try:
        task = explain(config, mission, number, patience=BRIEF, call=False)
    except NoScheduler:
        return []
    return [program_text(program) for program in task.programs or ()]


class TaskLines:
    """The lines of one task in files that others append to.

    Args:
        id: the beginning of the mission's id; empty if it is not known: then lines of all missions
            of the name are meant.
    """

    def __init__(self, mission: str, number: int, id: str = "") -> None:  # noqa: A002 - its name
        self.ids: set[str] = set()
        self._prefix = f"{mission}:{number} {f'({id}) ' if id else ''}".encode()
        # The place up to which each file was read: the end of its last whole line.
        self._places: dict[Path, int] = {}

    def read(self, files: Iterable[Path], since: float = 0.0) -> list[tuple[Path, list[bytes]]]:
        """Return the new lines of each file that has some.

        Args:
            since: Unix seconds; what was not written to since then is left out.
        """
        found = []
        for file in files:
            try:
                status = file.stat()
                if status.st_mtime >= since and (lines := self._lines(file, status.st_size)):
                    found.append((file, lines))
            except OSError:
                continue  # it was removed, or is another user's
        return found

    def _lines(self, file: Path, size: int) -> list[bytes]:
        at = self._places.get(file, 0)
        if size == at:
            return []
        lines: list[bytes] = []
        if at > size:
            at = 0  # it was written again
        with open_plain(file) as source:
            source.seek(at)
            rest = b""
            while block := source.read(_BLOCK):
                whole, end, rest = (rest + block).rpartition(b"\n")
                if not end and len(rest) > _LONGEST_LINE:  # it may be one line of gigabytes
                    whole, rest = rest, b""
                at += len(whole) + len(end)
                if self._prefix in whole:  # most blocks are of other tasks
                    lines += [
                        line + b"\n" for line in whole.split(b"\n") if line.startswith(self._prefix)
                    ]
        self.ids.update(label["id"].decode() for line in lines if (label := _LABEL.match(line)))
        self._places[file] = at
        return lines


class TaskOutput:
    """The lines that a task has printed and logged on all workers, and the facts on its runs.

    Args:
        id: of the mission; empty if it is not known, as that of its log.

    Attributes:
        facts: of the time when this was made.
    """

    def __init__(
        self,
        mission: str,
        number: int,
        log: StoredLog | None,
        id: str = "",  # noqa: A002 - its name
    ) -> None:
        self.facts = task_facts(mission, number, log)
        self._lines = TaskLines(self.facts.mission, number, self.facts.id or id[:_SHORT])

    @property
    def ids(self) -> list[str]:
        """The missions whose lines were read, by the beginnings of their ids."""
        return sorted(self._lines.ids)

    def read(self, recorded: Iterable[JobRecord]) -> list[tuple[Path, list[bytes]]]:
        """Return the new lines of each file that has some."""
        # Jobs may share a file.
        files = dict.fromkeys(file for record in recorded for file in outputs(record))
        return self._lines.read(files, self.facts.since)


def nothing_text(task: str, jobs: int) -> str:
    """Return the message where no line of a task is to be had."""
    looked = "no job was submitted from here"
    if jobs:
        noun = "job" if jobs == 1 else "jobs"
        looked = f"none in the output of the {jobs} {noun} submitted from here"
    return (
        f"no line of {clean(task)}: {looked}. What a task prints on a worker that was started in "
        "another way is where that one writes, and on a local worker in the mission's terminal"
    )


def several_text(output: TaskOutput, number: int) -> str:
    """Return the message on lines of several missions, any of which may be meant; "" if of one."""
    if len(output.ids) < 2:
        return ""
    return (
        f"several missions called {clean(output.facts.mission)} have lines of a task {number}: "
        f"{', '.join(output.ids)}. None of them is here or has an event log by which to choose; "
        f"search the output of a worker: grain logs WORKER | grep '({output.ids[-1]})'"
    )


def unknown_text(task: str, facts: TaskInLog, there: Sequence[str]) -> str:
    """Return the message on a task that does not exist; "" if it may.

    Args:
        there: the missions that there are, where none of them is meant.
    """
    number = int(task.rpartition(":")[2])
    mission = clean(task.rpartition(":")[0])
    if facts.last is not None and not facts.runs and not 0 < number <= facts.last:
        last = f"the last one is {facts.last}" if facts.last else "it has submitted none"
        return f"mission {mission} has no task {number}: {last}"
    if facts.last is None and there:
        return f"no mission goes by {mission!r}; the last ones are: {', '.join(map(clean, there))}"
    return ""
