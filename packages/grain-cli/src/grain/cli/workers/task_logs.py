"""The output of one task: its lines in the output of workers, and the files of its programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.show import clean, program_text, span
from grain.cli.workers.jobs import outputs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from grain.cli.batch import JobRecord
    from grain.config import Config
    from grain.eventlog.schema import RunEnded

TASK = re.compile(r"(?P<mission>.+):(?P<number>[0-9]{1,18})", re.DOTALL)
"""A task as people name it."""

_BLOCK = 1 << 20  # bytes that are searched at once
_PATIENCE = 0.5  # seconds to look for a scheduler, which is not needed
_OUTCOMES = {
    "value": "returned a value",
    "error": "raised {error}",
    "cancelled": "was cancelled",
    "crashed": "crashed",
    "lost": "was lost with its worker",
    "returned": "was handed back",
}


class TaskFacts(NamedTuple):
    """What the event log of a mission has on one of its tasks.

    Attributes:
        mission: the name of the mission, as it stands in the output of workers.
        since: when the mission began, in Unix seconds; 0 if it has no log here.
        runs: the ends of the runs of the task.
    """

    mission: str
    since: float
    runs: tuple[RunEnded, ...]


def task_facts(mission: str, number: int, id: str = "") -> TaskFacts:  # noqa: A002
    """Return what is known of a task; nothing but its mission's name if that has no log here.

    Args:
        mission: a name, a name as `grain ls` shows it (``opt@2``), or an id.
        number: of the task.
        id: of the mission, if the log of just that one is meant.
    """
    from grain.eventlog.errors import LogError
    from grain.eventlog.reader import LogReader
    from grain.eventlog.schema import RunEnded
    from grain.eventlog.store import LogStore

    name = re.sub(r"@[0-9]+$", "", mission)
    try:
        log = LogStore().find(id or name)
        reader = LogReader(log.folder)
        runs = tuple(line for line in reader if isinstance(line, RunEnded) and line.task == number)
    except (LogError, OSError):
        return TaskFacts(name, 0.0, ())
    since = 0.0 if reader.header is None else reader.header.time
    return TaskFacts(name if reader.header is None else reader.header.name, since, runs)


def facts_text(facts: TaskFacts) -> list[str]:
    """Return the runs of a task, and the files of its programs, a line each."""
    lines = []
    for run in facts.runs:
        outcome = _OUTCOMES[run.outcome].format(error=run.error)
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
    from grain.cli.query import NoScheduler, ask
    from grain.edge.questions import Ask

    try:
        _, programs = ask(
            config,
            Ask("why", mission=mission, task=number),
            patience=_PATIENCE,
            others=[Ask("programs", mission=mission, task=number)],
        )
    except NoScheduler:
        return []
    return [program_text(program) for program in (programs or {}).get("programs", ())]


class TaskLines:
    """The lines of one task in files that others append to.

    Args:
        mission: the name of its mission.
        number: its number.
    """

    def __init__(self, mission: str, number: int) -> None:
        self._prefix = f"{mission}:{number} ".encode()
        # The place up to which each file was read: the end of its last whole line.
        self._places: dict[Path, int] = {}

    def read(self, files: Iterable[Path], since: float = 0.0) -> list[tuple[Path, list[bytes]]]:
        """Return the new lines of each file that has some.

        Args:
            files: the files.
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
            at = 0  # it was written anew
        with file.open("rb") as source:
            source.seek(at)
            rest = b""
            while block := source.read(_BLOCK):
                whole, end, rest = (rest + block).rpartition(b"\n")
                at += len(whole) + len(end)
                if self._prefix in whole:  # most blocks are of other tasks
                    lines += [
                        line + b"\n" for line in whole.split(b"\n") if line.startswith(self._prefix)
                    ]
        self._places[file] = at
        return lines


class TaskOutput:
    """What a task has printed and logged on all workers, and what is known of its runs.

    Args:
        mission: as of `task_facts`.
        number: of the task.
        id: of the mission, if just that one is meant.

    Attributes:
        facts: of the time when this was made.
    """

    def __init__(self, mission: str, number: int, id: str = "") -> None:  # noqa: A002
        self.facts = task_facts(mission, number, id)
        self._lines = TaskLines(self.facts.mission, number)

    def read(self, recorded: Iterable[JobRecord]) -> list[tuple[Path, list[bytes]]]:
        """Return the new lines of each file that has some.

        Args:
            recorded: the jobs whose output is looked through.
        """
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
