"""``grain whatif``: replay a mission with other workers, requests or limits.

click comes with the command `grain`; no other module of this package needs it.
"""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

import click

from grain.config import ConfigError
from grain.eventlog.errors import LogError
from grain.whatif.errors import WhatIfError

if TYPE_CHECKING:
    from typing import TextIO

    from grain.eventlog.store import LogStore
    from grain.resource import Resource
    from grain.whatif.replay import Outcome
    from grain.whatif.scenario import Scenario
    from grain.whatif.workload import Workload


def _names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a mission that has left an event log."""
    from contextlib import suppress

    names: list[str] = []
    # A shell that completes has no place for errors. Nothing was invoked yet, so `obj` has no file.
    with suppress(Exception):
        store = _store(ctx.find_root().params.get("config_file"))
        names = [log.name for log in store.logs()]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


@click.command()
@click.option(
    "-n", "--workers", "counts", metavar="N,N-N",
    help="Numbers of workers to try.  [default: from a quarter to four times what there was]",
)  # fmt: skip
@click.option(
    "-w", "--worker", metavar="Kind=value,...",
    help="What each worker offers, as in Cores=16,Memory=64.  [default: as most workers did]",
)  # fmt: skip
@click.option(
    "--walltime", metavar="TIME",
    help="How long a worker lives, in seconds or as h:mm:ss; another one follows it.",
)  # fmt: skip
@click.option(
    "--queued", metavar="TIME",
    help="How long the job of a worker waits in the batch system, in seconds or as h:mm:ss.",
)  # fmt: skip
@click.option(
    "-r", "--request", "changes", multiple=True, metavar="FUNCTION:Kind=value,...",
    help="What tasks of a function ask for, as in opt:Memory=4; also limits: opt:WTime=1:00:00.",
)  # fmt: skip
@click.option(
    "--max-overtakes", metavar="N", type=click.IntRange(1),
    help="How often a task may be overtaken before a worker is reserved for it.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.argument("mission", metavar="NAME", shell_complete=_names)
@click.pass_context
def whatif(
    ctx: click.Context,
    counts: str | None,
    worker: str | None,
    walltime: str | None,
    queued: str | None,
    changes: tuple[str, ...],
    max_overtakes: int | None,
    as_json: bool,
    mission: str,
) -> None:
    """Replay a mission with other workers, requests or limits.

    This predicts how long it would take, at how many core-hours. NAME is that of a mission, its
    label such as opt@2, its id, or the path of an event log; `grain history` lists them. The tasks
    pass through the real scheduler in virtual time: each runs for as long as it did, after the
    tasks that it waited for.

    \b
    Examples:
      grain whatif screening                          would more nodes help?
      grain whatif screening -w Cores=64,Memory=250   or larger ones?
      grain whatif screening -r opt:Memory=4          if `opt` had asked for 4 GB?
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    try:
        from grain.whatif.scenario import WorkerGroup, most_at_once, parse_counts, usual_counts
        from grain.whatif.sweep import sweep
        from grain.whatif.text import report_data, report_text

        numbers = None if counts is None else parse_counts(counts)
        lifetime, wait = _seconds("--walltime", walltime), _seconds("--queued", queued)
        workload = _workload(_store(ctx.find_root().obj), mission)  # grain -c FILE
        offer = _offer(workload, worker)
        scenario = _scenario(workload, changes, max_overtakes)
        original = _original(workload)
        start = min((stay.joins for stay in workload.stays), default=0.0)
        workers = WorkerGroup(0, offer, start, lifetime, wait or 0.0)
        if numbers is None:
            numbers = usual_counts(max(1, most_at_once(workload.stays)))
        rows = sweep(workload, scenario, workers, numbers, _show_progress)
        _clear_progress()
    except (WhatIfError, LogError, ConfigError) as error:
        _clear_progress()
        raise click.ClickException(_printable(str(error))) from None
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(_printable(f"{name}{error.strerror or error}")) from None
    if as_json:
        click.echo(json.dumps(report_data(workload, original, rows, offer), indent=2))
    else:
        width = max(60, shutil.get_terminal_size().columns)
        click.echo(_printable(report_text(workload, original, rows, offer, width=width)), nl=False)


def _store(config_file: object) -> LogStore:
    from grain.config import load
    from grain.eventlog.names import logs_folder
    from grain.eventlog.store import LogStore

    config = load(config_file if isinstance(config_file, str) else None)
    return LogStore(logs_folder(config.head.event_log.folder))


def _workload(store: LogStore, word: str) -> Workload:
    """Read the log that a word means.

    Raises:
        LogError: there is none, or it cannot be understood.
        WhatIfError: it cannot be replayed.
    """
    from grain.eventlog.reader import read
    from grain.whatif.workload import workload_of

    return workload_of(read(store.find(word).folder))


def _offer(workload: Workload, worker: str | None) -> Resource:
    """Return what each worker offers.

    Raises:
        WhatIfError: it is not a resource, or nothing is given and no worker was there.
    """
    from grain.resource import Gang, from_text
    from grain.whatif.scenario import usual_worker

    if worker is not None:
        try:
            offer = from_text(worker)
            offer.parts()  # raises TypeError for alternatives
        except (TypeError, ValueError) as error:
            raise WhatIfError(f"--worker {error}") from None
        if isinstance(offer, Gang):
            raise WhatIfError(
                f"--worker {worker}: say what one worker offers, as in {offer.member.ask()}; "
                "--workers says how many there are"
            )
        return offer
    if not workload.stays:
        raise WhatIfError(
            f"no worker has joined by the log of {workload.name!r}: say what one offers, as in "
            "--worker Cores=16,Memory=64"
        )
    return usual_worker(workload.stays)


def _scenario(workload: Workload, changes: tuple[str, ...], max_overtakes: int | None) -> Scenario:
    """Return the conditions of all replays but for the workers.

    Raises:
        WhatIfError: a change makes no sense.
    """
    from grain.whatif.scenario import Scenario, parse_change

    requests: dict[str, Resource] = {}
    for change in changes:
        functions, request = parse_change(change, workload)
        for function in functions:
            earlier = requests.get(function)
            requests[function] = request if earlier is None else earlier & request
    return Scenario(None, requests, max_overtakes)


def _original(workload: Workload) -> Outcome | None:
    """Return the replay of what happened; None if no worker was there."""
    from grain.whatif.replay import replay
    from grain.whatif.scenario import Scenario

    return replay(workload, Scenario()) if workload.stays else None


def _seconds(option: str, text: str | None) -> float | None:
    """Return a span of time in seconds.

    Raises:
        WhatIfError: the text is none.
    """
    from grain.resource import clock_seconds, unit_seconds

    if text is None:
        return None
    seconds: float | None
    try:
        seconds = float(text)
    except ValueError:
        seconds = clock_seconds(text) or unit_seconds(text)
    if seconds is None or not 0 < seconds < 1e9:
        raise WhatIfError(f"{option} {text}: write seconds, or h:mm:ss, as in 4:00:00")
    return seconds


def _show_progress(workers: int) -> None:
    if sys.stderr.isatty():
        print(f"\rreplaying {workers} workers ", end="", file=_plain(), flush=True)


def _clear_progress() -> None:
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=_plain(), flush=True)


def _plain() -> TextIO:
    """Return standard error, where it may move the cursor: see `grain.cli.streams`."""
    return getattr(sys.stderr, "plain", sys.stderr)


def _printable(text: str) -> str:
    """Replace what would control a terminal: the names of functions come from a file."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
