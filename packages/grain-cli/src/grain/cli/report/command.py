"""``grain report``: one page, or a trace, of what happened in a mission."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grain.cli.history.command import complete
from grain.cli.options import config_option, load_config
from grain.cli.plugin import Interrupted, report_errors
from grain.cli.show import clean
from grain.files.whole import whole_file
from grain.resource.figures import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.eventlog.reader import LogReader
    from grain.eventlog.store import StoredLog


LOOK = 1.0  # seconds between two looks whether the mission of a page has ended


@click.command()
@click.option(
    "-o", "--output", metavar="FILE", help="Write the page there; - is the standard output."
)
@click.option(
    "--trace", "trace_file", metavar="FILE",
    help="Write a trace for ui.perfetto.dev instead; with -o the page as well.",
)  # fmt: skip
@click.option(
    "--all", "all_rows", is_flag=True, help="Show all rows of each table, however many there are."
)
@click.option(
    "--watch", is_flag=True,
    help="Write the page again and again while the mission runs; the browser follows.",
)  # fmt: skip
@config_option
@click.argument("mission", metavar="[NAME]", required=False, shell_complete=complete)
@click.pass_context
def report(
    ctx: click.Context,
    output: str | None,
    trace_file: str | None,
    all_rows: bool,
    watch: bool,
    config_file: str | None,
    mission: str | None,
) -> None:
    """Show what happened in a mission, on one page.

    The page is one HTML file that needs no network, made of the mission's event log: how busy the
    workers were, a timeline of all runs, waiting times, what tasks used of what they asked for,
    failures by cause, and the critical path. NAME is the name, a label such as opt@2 or the id of a
    mission, or the path of an event log; without it, it is the last mission. The mission may still
    run: with --watch, the page is written every few seconds until it ends, and a browser that shows
    it loads it again without losing your place.

    \b
    Examples:
      grain report                    the last mission, in report-NAME.html
      grain report --watch            the live picture of one that runs
      grain report -o opt.html opt
      grain report --trace opt.json.gz opt
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors():
        from grain.cli.mission_names import find_log, store_of
        from grain.cli.plugins import library
        from grain.eventlog.reader import LogReader

        if watch and (trace_file is not None or output == "-"):
            raise click.UsageError("--watch writes a page again and again: name its file with -o")
        config = load_config(ctx, config_file)
        if trace_file is None or output is not None:
            library(
                "jinja2",
                user="the page of `grain report`",
                install="'grain-cli[displays]'",
                instead="write a trace with --trace, or see `grain history`",
            )
        if mission is not None:
            log = find_log(config, mission)
        else:
            store = store_of(config)
            logs = store.logs()
            if not logs:
                raise click.ClickException(
                    f"no mission has left an event log in {clean(store.folder)}; missions write "
                    "one, unless run(..., event_log=False) or head.event_log of grain.toml says "
                    "otherwise"
                )
            log = logs[0]
        if trace_file is not None:
            _write_trace(LogReader(log.folder), log, trace_file)
        if watch:
            _watch(log, _file(log, output), all_rows=all_rows)
        if trace_file is None or output is not None:
            _write_page(LogReader(log.folder), log, output, all_rows=all_rows)


def _file(log: StoredLog, output: str | None) -> Path:
    """Return the file of the page."""
    return Path(output or f"report-{log.name or 'mission'}.html")


def _watch(log: StoredLog, file: Path, *, all_rows: bool) -> None:
    """Write the page again and again until the mission has ended.

    Raises:
        Interrupted: on Ctrl-C. The page stays as it is.
    """
    from grain.cli.history.logs import state_of
    from grain.cli.report.figures import ALL_ROWS, USUAL_ROWS
    from grain.cli.report.watching import PageOfNow

    def runs() -> bool:
        return state_of(log, "") == "running"

    page = PageOfNow(log.folder, ALL_ROWS if all_rows else USUAL_ROWS)
    told = False
    try:
        while runs():
            _replace(file, [page.make(lambda reader: list(notes(reader)))])
            if not told:
                told = True
                click.echo(
                    f"{clean(file)}: open it in a browser; it is written until {log.name} ends"
                )
            due = time.monotonic() + page.again
            while time.monotonic() < due and runs():
                time.sleep(LOOK)
    except KeyboardInterrupt:
        raise Interrupted(f"{clean(file)} is not written any more; the mission goes on") from None


def _write_page(reader: LogReader, log: StoredLog, output: str | None, *, all_rows: bool) -> None:
    from grain.cli.history.logs import lines_of
    from grain.cli.plugins import installed_version
    from grain.cli.report.collecting import collect
    from grain.cli.report.figures import ALL_ROWS, USUAL_ROWS
    from grain.cli.report.page import render
    from grain.eventlog.reader import LogReader
    from grain.facts.clocks import clocks_of

    # The whole log tells by how much the clocks of workers differ, and so is read twice.
    clocks = clocks_of(lines_of(LogReader(log.folder), log.size()))
    written = log.is_running()
    collected = collect(lines_of(reader, log.size()), clocks=clocks)
    text = render(
        collected,
        written=written,
        version=installed_version(),
        notes=list(notes(reader)),
        rows=ALL_ROWS if all_rows else USUAL_ROWS,
    )
    if output == "-":
        click.echo(text, nl=False)
        return
    file = _file(log, output)
    _replace(file, [text])
    totals = collected.totals
    cached = f" ({totals.cached:,} from the cache)" if totals.cached else ""
    click.echo(
        f"{clean(file)}: {totals.done:,} of {totals.tasks:,} tasks done{cached}, "
        f"{totals.failed:,} failed; {size_text(file.stat().st_size)}"
    )


def _write_trace(reader: LogReader, log: StoredLog, output: str) -> None:
    from grain.cli.history.logs import lines_of
    from grain.cli.report.trace import trace
    from grain.eventlog.reader import LogReader
    from grain.facts.clocks import clocks_of

    # The whole log tells by how much the clocks of workers differ, and so is read twice.
    clocks = clocks_of(lines_of(LogReader(log.folder), log.size()))
    pieces = trace(lines_of(reader, log.size()), clocks)
    if output == "-":
        for piece in pieces:
            click.echo(piece, nl=False)
        return
    file = Path(output)
    _replace(file, pieces)
    click.echo(
        f"{clean(file)}: {size_text(file.stat().st_size)}; open it at https://ui.perfetto.dev"
    )
    for note in notes(reader):
        click.echo(f"Note: {note}", err=True)


def notes(reader: LogReader) -> Iterator[str]:
    """Yield sentences on what of a log was not read."""
    if reader.skipped:
        lines = "1 line" if reader.skipped == 1 else f"{reader.skipped:,} lines"
        yield f"{lines} of the log could not be read, as after a crash or on a full disk."
    if reader.unknown:
        lines = "1 line" if reader.unknown == 1 else f"{reader.unknown:,} lines"
        yield f"{lines} of the log are of kinds that a newer Grain writes, and are left out."
    if reader.missing:
        parts = "1 part" if reader.missing == 1 else f"{reader.missing:,} parts"
        yield f"{parts} of the log had been removed, as it grew too large; the figures lack them."


def _replace(file: Path, pieces: Iterable[str]) -> None:
    """Write a file whole, or not at all; a name that ends with .gz means compressed.

    Raises:
        OSError: it cannot be written.
    """
    # A device such as /dev/stdout is not a file that another could replace.
    direct = file.exists() and not file.is_file()
    with file.open("wb") if direct else whole_file(file, mode=None) as raw:
        data = (piece.encode(errors="replace") for piece in pieces)
        if file.suffix == ".gz":
            import gzip

            # Half of the time for a tenth more.
            with gzip.GzipFile(file.stem, "wb", 4, raw, mtime=0) as out:
                out.writelines(data)
        else:
            raw.writelines(data)
