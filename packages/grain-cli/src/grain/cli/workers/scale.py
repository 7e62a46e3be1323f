"""``grain scale``: keep workers alive."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import click

from grain.cli.options import config_option, json_option, load_config
from grain.cli.plugin import report_errors
from grain.cli.show import clean
from grain.cli.workers.shapes import shape_option, shaped
from grain.cli.workers.up import refuse_words
from grain.files.trust import private_folder
from grain.files.whole import naming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from grain.config import Config


@click.command()
@json_option
@config_option
@click.option("--auto", is_flag=True, help="As many as the tasks need, in place of N.")
@click.option(
    "--min", "least", metavar="N", type=click.IntRange(0, 100_000),
    help="With --auto: workers that there always are.  [default: 0]",
)  # fmt: skip
@click.option(
    "--max", "most", metavar="N", type=click.IntRange(1, 100_000),
    help="With --auto: workers at most.  [default: what the shapes say, or 10]",
)  # fmt: skip
@click.option(
    "--idle", metavar="TIME", help="With --auto: let workers go that are idle for so long.",
)  # fmt: skip
@click.option(
    "--work", metavar="TIME",
    help="With --auto: a worker for each so much work.  [default: as long as one takes to come]",
)  # fmt: skip
@shape_option
@click.option("--parent", type=int, hidden=True, help="End with this process, which began it.")
@click.option("--withdraw", is_flag=True, hidden=True, help="Cancel what such a one left waiting.")
@click.argument("count", metavar="[N]", required=False, type=click.IntRange(1, 100_000))
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def scale(
    ctx: click.Context,
    count: int | None,
    as_json: bool,
    auto: bool,
    least: int | None,
    most: int | None,
    idle: str | None,
    work: str | None,
    shape: str | None,
    config_file: str | None,
    parent: int | None,
    withdraw: bool,
    options: tuple[str, ...],
) -> None:
    """Keep workers alive: N, or as many as the tasks need.

    Goes on until Ctrl-C. Submits as many jobs as are missing; waiting jobs count. With
    script.nodes, each job has several workers, and all numbers are numbers of jobs. Only
    jobs of `grain scale` are counted. After jobs that fail at once there is a pause. The
    workers stay when it ends. With --auto it asks the scheduler what its tasks need,
    submits workers for them, lets idle ones go, and says why. What follows `--` is for
    the batch system.

    \b
    Examples:
      grain scale 4
      nohup grain scale 4 &           goes on when the terminal is closed
      grain scale 2 -- --exclusive
      grain scale --auto --max 20
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    _check_usage(count, auto, least, most, {"--idle": idle, "--work": work})
    refuse_words(options)
    with report_errors():
        from msgspec.structs import replace

        from grain.cli.batch import state_folder

        config = load_config(ctx, config_file)
        if not auto or shape is not None:
            config = shaped(config, shape)
        if config.system == "custom" and not config.custom_system.status_cmd:
            raise click.ClickException(
                "without custom_system.status_cmd, Grain cannot count workers of a custom batch "
                "system; set it, or use `grain up`"
            )
        with _alone(state_folder(), config.worker.dial):
            if withdraw:
                _withdraw(config)
            elif auto:
                if shape is not None:  # the only one to choose from
                    chosen = tuple(one for one in config.shape if one == config.worker.script)
                    config = replace(config, shape=chosen)
                from grain.cli.workers.autoscale import AutoLoop, default_most

                AutoLoop(
                    *(config, options, _reporter(as_json), parent),
                    least=least or 0,
                    most=max(default_most(config), least or 0) if most is None else most,
                    idle=_seconds("--idle", idle),
                    worth=_seconds("--work", work),
                ).run()
            else:
                from grain.cli.workers.loop import PoolLoop

                assert count is not None
                PoolLoop(config, options, _reporter(as_json), parent, count=count).run()


def _check_usage(
    count: int | None,
    auto: bool,
    least: int | None,
    most: int | None,
    spans: dict[str, str | None],
) -> None:
    """Refuse a number beside ``--auto``, and what belongs to ``--auto`` without it."""
    if auto and count is not None:
        raise click.UsageError(
            f"--auto finds the number by itself; for {count} at most: grain scale --auto --max "
            f"{count}"
        )
    given = {"--min": least, "--max": most, **spans}
    for option, value in given.items():
        if not auto and value is not None:
            raise click.UsageError(
                f"{option} belongs to --auto: grain scale --auto {option} {value}"
            )
    if not auto and count is None:
        raise click.UsageError(
            "name the number of workers to keep alive, as in: grain scale 4; or let the tasks "
            "decide: grain scale --auto"
        )
    if least is not None and most is not None and least > most:
        raise click.UsageError(f"--min {least} is more than --max {most}")


def _seconds(option: str, text: str | None) -> float | None:
    """Return the span of time of an option in seconds; None if it was not given."""
    from grain.config import parse_walltime

    if text is None:
        return None
    try:
        # A plain number is seconds.
        return float(parse_walltime(int(text) if text.isdecimal() else text))
    except ValueError:
        raise click.UsageError(
            f"{option} {text}: write a span of time, as 10m, 1h30m or 00:10:00"
        ) from None


def _withdraw(config: Config) -> None:
    """Cancel the waiting jobs of a scheduler: their workers would not find one.

    Raises:
        BatchError: the batch system does not answer, or refuses.
    """
    from grain.cli.batch import WAITING, open_system
    from grain.cli.workers.jobs import own_jobs
    from grain.cli.workers.loop import POOL
    from grain.cli.workers.submission import job_words

    waiting = [
        job.record
        for job in own_jobs(config)
        if job.record.by == POOL and job.state.phase in WAITING
    ]
    open_system(config).cancel([record.id for record in waiting])
    for record in waiting:
        click.echo(f"{clean(record.name)}: {job_words(record)} waited and is cancelled")


def _reporter(as_json: bool) -> Callable[[str, int, int], None]:
    def report(text: str, alive: int, count: int) -> None:
        if as_json:
            import json

            line = {"time": time.time(), "what": text, "alive": alive, "of": count}
            click.echo(json.dumps(line))
        else:
            click.echo(f"{time.strftime('%H:%M:%S')} {alive} of {count}: {text}")

    return report


@contextlib.contextmanager
def _alone(folder: Path, address: str) -> Iterator[None]:
    """Make sure that no other process keeps workers for this address."""
    import fcntl
    import socket

    from grain.cli.workers.scaling_state import mark_of

    private_folder(folder)
    path = folder / f"scale-{mark_of(address)}.lock"
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            who = file.read().strip() or "another process"
            raise click.ClickException(
                f"{who} keeps workers for {address} already; end it first"
            ) from None
        file.truncate(0)
        with naming(path):
            # Not by a buffer, which would try again when it is closed.
            os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
