"""``grain attach``: follow the output of a mission."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from grain.cli import completion
from grain.cli.options import config_option, load_config
from grain.cli.plugin import Interrupted, report_errors
from grain.cli.show import clean
from grain.cli.streams import plain
from grain.eventlog.files import open_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.cli.mission_records import StartRecord
    from grain.cli.missions.progress import ProgressLine
    from grain.cli.workers.jobs import OwnJob

_POLL = 0.5  # seconds between two looks at the output
_CHUNK = 1 << 20  # bytes read at once


def complete(_ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a mission that `grain run` has started."""
    return completion.names_within(incomplete, _started)


def _started() -> list[str]:
    from grain.cli.mission_records import missions_folder, read

    return list(dict.fromkeys(one.start.name for one in reversed(read(missions_folder()))))


@click.command()
@click.option(
    "-n", "--lines", default=20, show_default=True, metavar="N", type=click.IntRange(0),
    help="Begin with the last N lines.",
)  # fmt: skip
@config_option
@click.argument("mission", metavar="NAME", required=False, shell_complete=complete)
@click.pass_context
def attach(ctx: click.Context, lines: int, config_file: str | None, mission: str | None) -> None:
    """Follow the output of a mission.

    On a terminal its progress stands below. Ctrl-C detaches: the mission goes on. The exit status
    is that of the mission; 130 after Ctrl-C.

    \b
    Examples:
      grain attach night
      grain attach -n 1000 night@1
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors():
        from grain.cli.mission_names import started
        from grain.cli.mission_records import find, missions_folder, read
        from grain.cli.missions.jobs import find_job
        from grain.cli.missions.starting import state_of

        if mission is None:
            raise click.UsageError("name a mission, as in: grain attach opt; see `grain missions`")
        record = find(read(missions_folder()), mission)
        if record is None:
            config = load_config(ctx, config_file)
            if (job := find_job(config, mission)) is not None:
                _follow_job(ctx, job, lines)
                return
            record = started(lambda: config, mission)
        if not record.start.detached:
            raise click.ClickException(
                f"{record.label} {state_of(record).detail}, in a terminal: its output is there"
            )
        place = begin_at(record, lines)
        progress = _progress(ctx, config_file, record)
        begins_line = True  # False while the last line of the output has no end
        try:
            while True:
                # The state first: what was written before the end is then shown, too.
                record = find(read(missions_folder()), record.label) or record
                state = state_of(record)
                for text, end in _output(record, place, last=not state.phase.alive):
                    place = end
                    progress.hide()
                    click.echo(text, nl=False)
                    begins_line = text.endswith("\n")
                if not state.phase.alive:
                    break
                if begins_line:
                    progress.show()
                time.sleep(_POLL)
        except KeyboardInterrupt:
            progress.hide()
            label = record.label
            raise Interrupted(
                f"detached: {label} goes on: `grain attach {label}` follows it again, "
                f"`grain cancel {label}` ends it"
            ) from None
        finally:
            progress.close()
        click.echo(f"{record.label} {clean(state.detail)}", err=True)
        status = record.end.status if record.end is not None else 1
        ctx.exit(status if status >= 0 else 128 - status)


def _progress(ctx: click.Context, config_file: str | None, record: StartRecord) -> ProgressLine:
    """Return the line on the progress of a mission, from the scheduler that its program reads of.

    Without a configuration that can be read there is none.
    """
    import sys

    from grain.cli.mission_names import log_of, store_of
    from grain.cli.mission_records import missions_folder, read
    from grain.cli.missions.progress import ProgressLine
    from grain.cli.plugin import chosen_config
    from grain.config import ConfigError, load

    start = record.start
    chosen = config_file or chosen_config(ctx)
    try:
        # That of the program, which reads it where it was started.
        env = {**os.environ, **start.environment}
        config = load(chosen) if chosen else load(env=env, cwd=start.directory)
    except ConfigError:
        return ProgressLine(None, lambda: None, plain(sys.stderr))

    def mission() -> str | None:
        now = next((one for one in read(missions_folder()) if one.label == record.label), None)
        log = None if now is None else log_of(store_of(config), now)
        return None if log is None else log.id

    return ProgressLine(config.worker.cli_dial, mission, plain(sys.stderr))


def _follow_job(ctx: click.Context, job: OwnJob, lines: int) -> None:
    """Follow the output of a mission that `grain start` has submitted, until Ctrl-C."""
    from grain.cli.batch import WAITING
    from grain.cli.missions.jobs import output_file
    from grain.cli.workers.logs import logs
    from grain.cli.workers.submission import job_words

    name = clean(job.record.name)
    waits = ", which waits in the batch system" if job.state.phase in WAITING else ""
    output = output_file(job.record)
    click.echo(f"{name} is {job_words(job.record)}{waits}; output in {output}", err=True)
    ctx.invoke(logs, follow=job.alive, lines=lines, worker=job.record.id)


def begin_at(record: StartRecord, lines: int) -> int:
    """Return where the last lines of the output begin, in bytes; 0 if there are no more."""
    try:
        with open_plain(record.output) as output:
            place = max(0, os.fstat(output.fileno()).st_size - _CHUNK)
            output.seek(place)
            tail = output.read()  # which may have grown since
    except OSError:
        return 0
    last = tail.splitlines(keepends=True)[-lines:] if lines else []
    return place + len(tail) - sum(map(len, last))


def _output(record: StartRecord, place: int, *, last: bool) -> Iterator[tuple[str, int]]:
    """Yield parts of the output from a place on, each with the place where it ends, in bytes.

    Args:
        last: True if nothing will be added.
    """
    from grain.cli.workers.logs import readable_part

    while raw := _read(record, place):
        text, count = readable_part(raw, last=last and len(raw) < _CHUNK)
        if not count:
            break
        place += count
        yield text, place


def _read(record: StartRecord, place: int) -> bytes:
    try:
        with open_plain(record.output) as output:
            output.seek(place)
            return output.read(_CHUNK)
    except OSError:
        return b""
