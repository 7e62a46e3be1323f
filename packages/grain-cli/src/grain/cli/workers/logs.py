"""``grain logs``: show the output of workers and missions."""

from __future__ import annotations

import codecs
import os
import re
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import TYPE_CHECKING, BinaryIO

import click

from grain.cli import completion
from grain.cli.options import config_option, load_config
from grain.cli.plugin import Interrupted, report_errors
from grain.cli.show import clean
from grain.eventlog.files import open_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from grain.cli.batch import JobRecord
    from grain.config import Config
    from grain.eventlog.store import StoredLog

_LISTED = 10  # names at most in a message
_POLL = 0.5  # seconds between two looks at a file that is followed
PIECE = 1 << 18
"""Bytes that are read at once, as a file may have gigabytes."""

_LINE_END = re.compile(rb"\r\n?|\n")


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on as it is written, until Ctrl-C.")
@click.option(
    "-n", "--lines", default=0, metavar="N", type=click.IntRange(0), help="The last N lines only."
)
@config_option
@click.argument("worker", metavar="WORKER", required=False, shell_complete=completion.jobs)
@click.pass_context
def logs(
    ctx: click.Context, follow: bool, lines: int, config_file: str | None, worker: str | None
) -> None:
    """Show the output of workers, or of a task.

    WORKER is the name of a worker, or a pattern as for files. If several workers have one name, you
    see the output of the last; name@1 is the first that was submitted, and the id of a job means
    just that job. `grain start` puts missions there, too.

    NAME:NUMBER in place of WORKER shows what that task has printed and logged, on all
    workers, and names the files to which its programs have written. The output of a worker that
    was started in another way is where that one writes, such as its terminal.

    \b
    Examples:
      grain logs w093015-0
      grain logs -n 20 'w09*'         the last lines of several
      grain logs -f grain_head
      grain logs opt:17
      grain logs queue:12             job 12 of the queue, or queue:12_3
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors():
        from grain.cli.workers.jobs import outputs, records

        recorded = records().read()
        if worker is not None and not latest(recorded, worker) and _show_job(worker, lines, follow):
            return
        if worker is not None and _names_task(recorded, worker):
            _show_task(load_config(ctx, config_file), recorded, worker, lines, follow)
            return
        if worker is None:
            raise click.UsageError(_missing(recorded))
        matches = latest(recorded, worker)
        if not matches:
            raise click.ClickException(
                _without_output(load_config(ctx, config_file), recorded, worker)
            )
        for line in namesakes(recorded, matches, worker):
            click.echo(f"Note: {line}", err=True)
        files = [file for record in matches for file in outputs(record)]
        if not files and not follow:
            where = ", ".join(record.log_file or "nowhere" for record in matches)
            raise click.ClickException(f"nothing was written yet; the output goes to {where}")
        places = _show(files, lines)
        if follow:
            with _until_interrupted():
                _follow(lambda: (file for one in matches for file in outputs(one)), places)


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Have Ctrl-C say that what is followed goes on.

    Raises:
        Interrupted: on Ctrl-C.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("the output is not followed any more; what writes it goes on") from None


def _show_job(word: str, most: int, follow: bool) -> bool:
    """Print the output of jobs of the queue; return False if a word means none."""
    from grain.cli.queue.cancelling import jobs_named
    from grain.cli.queue.explaining import output_files
    from grain.cli.queue.opening import queue_errors

    with queue_errors():
        jobs = jobs_named(word, None)
        files = [] if jobs is None else output_files(*jobs)
    if jobs is None:
        return False
    there = [file for file in files if file.is_file()]
    if not there and not follow:
        raise click.ClickException(
            f"nothing was written yet; the output goes to {', '.join(map(clean, files))}"
        )
    places = _show(there, most)
    if follow:
        with _until_interrupted():
            _follow(lambda: [file for file in files if file.is_file()], places)
    return True


def _names_task(recorded: list[JobRecord], word: str) -> bool:
    """Return True for the name of a task that is none of a job: ids of processes have colons."""
    from grain.cli.workers.task_logs import TASK

    return TASK.fullmatch(word) is not None and not latest(recorded, word)


def _show_task(
    config: Config, recorded: list[JobRecord], task: str, most: int, follow: bool
) -> None:
    """Print the lines of a task, and what is known of its programs' output."""
    from grain.cli.workers.task_logs import (
        TaskOutput,
        facts_text,
        nothing_text,
        programs_text,
        several_text,
        unknown_text,
    )

    mission, _, digits = task.rpartition(":")
    number = int(digits)
    log, there, mission_id = _log_of(config, mission)
    output = TaskOutput(mission, number, log, mission_id)
    if sentence := unknown_text(task, output.facts, there):
        raise click.ClickException(sentence)
    found = output.read(recorded)
    if sentence := several_text(output, number):
        raise click.ClickException(sentence)
    for at, (file, of_file) in enumerate(found):
        if len(found) > 1:
            click.echo(("\n" if at else "") + f"==> {clean(file)} <==")
        click.echo(readable(b"".join(of_file[-most:])), nl=False)
    notes = facts_text(output.facts)
    if not any(run.final for run in output.facts.runs):
        notes += programs_text(config, mission, number)
    for note in notes:
        click.echo(f"Note: {clean(note)}", err=True)
    if not follow:
        if not found and not notes:
            raise click.ClickException(nothing_text(task, len(recorded)))
        return
    with _until_interrupted():
        while True:
            time.sleep(_POLL)
            for _, of_file in output.read(recorded):
                click.echo(readable(b"".join(of_file)), nl=False)


def _log_of(config: Config, mission: str) -> tuple[StoredLog | None, list[str], str]:
    """Return the log of a mission, and its id.

    Without a log, it is the id of the mission that is here now; and if none is meant, the missions
    that there are stand between the two.

    Raises:
        LogError: several are meant.
    """
    from grain.cli.mission_names import find_log, namesakes_text, store_of
    from grain.cli.query import state_if_any
    from grain.eventlog.errors import AmbiguousLog, LogError

    try:
        log = find_log(config, mission)
    except AmbiguousLog:
        raise
    except LogError:
        state = state_if_any(config)
        here = [] if state is None else state.missions
        if ids := [one.id for one in here if one.goes_by(mission)]:
            return None, [], ids[0] if len(ids) == 1 else ""
        named = sorted({name for one in here for name in (one.label, one.name)})
        names = [*named, *(log.name for log in store_of(config).logs())]
        return None, list(dict.fromkeys(names))[:_LISTED], ""
    if text := namesakes_text(config, log, mission):
        click.echo(f"Note: {text}", err=True)
    return log, [], log.id


def _without_output(config: Config, recorded: list[JobRecord], word: str) -> str:
    """Return the message on a word that is the name of no job: what it is, and what there is."""
    from grain.cli.mission_names import find_log
    from grain.cli.query import state_if_any
    from grain.eventlog.errors import LogError

    state = state_if_any(config)
    name = clean(word)
    workers = [] if state is None else state.workers
    for worker in workers:
        if word in (worker.label, worker.name, worker.id):
            return (
                f"worker {name} runs on host {clean(worker.host)} and was not started by `grain "
                "up` from here: its output goes to where it was started, such as a terminal there. "
                f"To have it in a file, start it with >{name}.log 2>&1 behind the command"
            )
    here = [] if state is None else state.missions
    missions = {name for one in here for name in (one.label, one.name)}
    with suppress(LogError):
        find_log(config, word)
        missions.add(word)
    if word in missions:
        return (
            f"{name} is a mission, and no worker: `grain logs {name}:1` shows the output of its "
            f"task 1, `grain history {name}` its tasks, and `grain attach {name}` the output of "
            "the mission itself if `grain run` has started it"
        )
    jobs = list(dict.fromkeys(clean(one.name) for one in reversed(recorded)))[:_LISTED]
    labels = sorted({clean(worker.label) for worker in workers})[:_LISTED]
    parts = [f"no job that `grain` has submitted from here is called {name!r}"]
    parts.append(f"the last ones are: {', '.join(jobs)}" if jobs else "there are none")
    parts.append(f"workers here are: {', '.join(labels)}" if labels else "no worker is here")
    return "; ".join(parts)


def _missing(recorded: list[JobRecord]) -> str:
    """Return the message for a command line without a worker, which lists the last ones."""
    if not recorded:
        return "no job was submitted from here, so there is no output; `grain up` submits workers"
    names = list(dict.fromkeys(clean(one.name) for one in reversed(recorded)))
    more = ", and earlier ones" if len(names) > _LISTED else ""
    return (
        f"name a worker, as in: grain logs {names[0]}; the last ones are: "
        f"{', '.join(names[:_LISTED])}{more}"
    )


def latest(recorded: Iterable[JobRecord], pattern: str) -> list[JobRecord]:
    """Return the last job of each matching name, sorted by name; or only the job with that id."""
    recorded = sorted(recorded, key=lambda one: one.submitted)
    if alone := [one for one in recorded if one.id == pattern]:
        return alone[-1:]
    matches = [one for one in recorded if one.name == pattern or fnmatchcase(one.name, pattern)]
    name, _, ordinal = pattern.rpartition("@")
    same = [one for one in recorded if one.name == name]
    if not matches and ordinal.isdecimal() and 1 <= int(ordinal) <= len(same):
        return [same[int(ordinal) - 1]]
    if not matches:
        matches = [one for job in recorded if (one := part_of(job, pattern)) is not None]
    last = {one.name: one for one in matches}
    return [last[name] for name in sorted(last)]


def part_of(job: JobRecord, worker: str) -> JobRecord | None:
    """Return the record of one worker of a job that has several; None if it has none of that name.

    Its output is beside that of the job, as ``grain-worker --nodes`` writes it.
    """
    if job.nodes == 1 or not re.fullmatch(rf"{re.escape(job.name)}(-r\d+)?\.\d+", worker):
        return None
    log = PurePath(job.log_file)
    mark = worker[len(job.name) :]
    name = str(log.with_name(f"{log.stem}{mark}{log.suffix}")) if job.log_file else ""
    return replace(job, name=worker, log_file=name, nodes=1)


def namesakes(
    recorded: Iterable[JobRecord], matches: list[JobRecord], pattern: str
) -> Iterator[str]:
    """Yield a line for each name that several jobs have, and by which they were asked for."""
    for record in matches:
        same = [one for one in recorded if one.name == record.name]
        if len(same) > 1 and fnmatchcase(record.name, pattern):
            same.sort(key=lambda one: one.submitted)
            others = (
                f"{clean(one.name)}@{at} is job {clean(one.id)}" for at, one in enumerate(same, 1)
            )
            yield f"this is the last of {len(same)} jobs of that name: {', '.join(others)}"


def _show(files: list[Path], lines: int) -> dict[Path, int]:
    """Print files; return the size of each."""
    places = {}
    for number, file in enumerate(files):
        if len(files) > 1:
            click.echo(("\n" if number else "") + f"==> {clean(file)} <==")
        with open_plain(file) as source:
            begin = begin_of_last(source, lines) if lines else 0
            places[file] = _copy(source, begin, last=True)
    return places


def begin_of_last(source: BinaryIO, lines: int, most: int = PIECE) -> int:
    """Return where the last lines of a file begin, in bytes; 0 if there are no more.

    Args:
        most: bytes that are read at once.
    """
    size = position = source.seek(0, os.SEEK_END)
    after = b""
    while position:
        before, position = position, max(position - most, 0)
        source.seek(position)
        piece = source.read(before - position)
        for end in reversed([match.end() for match in _LINE_END.finditer(piece)]):
            in_two = end == len(piece) and piece.endswith(b"\r") and after == b"\n"
            if position + end < size and not in_two:
                lines -= 1
                if not lines:
                    return position + end
        after = piece[:1]
    return 0


def _copy(source: BinaryIO, at: int, *, last: bool) -> int:
    """Print a file from a place on, in pieces; return the place behind what was printed.

    Args:
        last: False if the file may go on, so that the rest of a character is left for later.
    """
    source.seek(at)
    rest = b""
    while piece := source.read(PIECE):
        raw = rest + piece
        # The end of a line may be in two pieces, as a character may.
        whole = raw.removesuffix(b"\r")
        text, count = readable_part(whole, last=False)
        click.echo(text, nl=False)
        at += count
        rest = raw[count:]
    if last and rest:
        click.echo(readable(rest), nl=False)
        at += len(rest)
    return at


def readable(raw: bytes) -> str:
    """Decode output without control characters; carriage returns become line ends."""
    return readable_part(raw, last=True)[0]


def readable_part(raw: bytes, *, last: bool) -> tuple[str, int]:
    """Decode output that may go on, without control characters, see `readable`.

    Returns:
        The text, and the number of its bytes: the rest of the last character may be yet to come.
    """
    text, count = codecs.utf_8_decode(raw, "replace", last)
    return clean(re.sub(r"\r\n?", "\n", text), keep="\n\t"), count


def _follow(find: Callable[[], Iterable[Path]], places: dict[Path, int]) -> None:
    """Print what is appended, also to files that appear later, until Ctrl-C."""
    while True:
        for file in find():
            size, at = file.stat().st_size, places.get(file, 0)
            if size < at:
                at = 0  # written again
            if size > at:
                with open_plain(file) as source:
                    at = _copy(source, at, last=False)
            places[file] = at
        time.sleep(_POLL)
