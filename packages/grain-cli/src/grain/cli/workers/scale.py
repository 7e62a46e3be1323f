"""``grain scale``: keep workers alive."""

from __future__ import annotations

import contextlib
import math
import os
import time
from typing import TYPE_CHECKING

import click

from grain.cli.options import config_option, json_option, load_config
from grain.cli.plugin import report_errors
from grain.cli.show import clean
from grain.cli.workers.loop import BATCH, SignalLoop, seconds_between
from grain.cli.workers.shapes import shape_option, shaped
from grain.cli.workers.up import refuse_words
from grain.edge.trust import private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from grain.cli.batch import JobRecord
    from grain.cli.workers.autoscale import AutoLoop
    from grain.config import Config
    from grain.edge.questions import WorkerState

BY, POOL = "scale", "gnaw"
"""The marks in the records of these jobs: a user's `grain scale` submitted them, or that of a
scheduler, which cancels the waiting jobs when it leaves."""


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

    Goes on until Ctrl-C. Submits as many jobs as are missing; waiting jobs count. Only
    jobs of `grain scale` are counted. After jobs that fail at once there is a pause. The workers
    stay when it ends. With --auto it asks the scheduler what its tasks need, submits workers for
    them, lets idle ones go, and says why. What follows `--` is for the batch system.

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
                spans = {"idle": _seconds("--idle", idle), "worth": _seconds("--work", work)}
                _auto_loop(
                    config, least or 0, most, spans, options, _reporter(as_json), parent
                ).run()
            else:
                assert count is not None
                PoolLoop(config, count, options, _reporter(as_json), parent).run()


def _check_usage(
    count: int | None,
    auto: bool,
    least: int | None,
    most: int | None,
    spans: dict[str, str | None],
) -> None:
    """Refuse a number beside ``--auto``, and what belongs to ``--auto`` without it.

    Raises:
        click.UsageError: they do not fit together.
    """
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


def _auto_loop(
    config: Config,
    least: int,
    most: int | None,
    spans: dict[str, float | None],
    options: tuple[str, ...],
    report: Callable[[str, int, int], None],
    parent: int | None,
) -> AutoLoop:
    """Return the loop of `grain scale --auto`."""
    from grain.cli.batch import state_folder
    from grain.cli.workers.autoscale import AutoLoop, default_most
    from grain.cli.workers.scaling_state import ScalingState

    return AutoLoop(
        config,
        least=least,
        most=max(default_most(config), least) if most is None else most,
        **spans,
        options=options,
        report=report,
        by=BY if parent is None else POOL,
        adopts=(BY, POOL),
        state=ScalingState(state_folder(), config.worker.dial),
        parent=parent,
    )


def _seconds(option: str, text: str | None) -> float | None:
    """Return the span of time of an option in seconds; None if it was not given.

    Raises:
        click.UsageError: it is not a span of time.
    """
    from grain.config import parse_walltime

    if text is None:
        return None
    try:
        return float(parse_walltime(_number(text)))
    except ValueError:
        raise click.UsageError(
            f"{option} {text}: write a span of time, as 10m, 1h30m or 00:10:00"
        ) from None


def _number(text: str) -> int | str:
    """Return the seconds of a time that was written as a plain number."""
    return int(text) if text.isdecimal() else text


def _withdraw(config: Config) -> None:
    """Cancel the waiting jobs of a scheduler: their workers would not find one.

    Raises:
        BatchError: the batch system does not answer, or refuses.
    """
    from grain.cli.batch import WAITING, open_system
    from grain.cli.workers.jobs import own_jobs
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
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


class PoolLoop:
    """The loop of `grain scale`: queries, submits and waits, as a `JobPool` decides.

    Args:
        report: takes a sentence, the number of jobs that are alive, and the number wanted.
        parent: the pid of the process with which it ends; None if it ends by signals only.
    """

    def __init__(
        self,
        config: Config,
        count: int,
        options: tuple[str, ...],
        report: Callable[[str, int, int], None],
        parent: int | None = None,
    ) -> None:
        from grain.cli.scaling.pool import JobPool, proven_after

        self._config = config
        self._count = count
        self._options = options
        self._pool = JobPool(count, proven_after(config.worker.script.walltime))
        self._names: dict[str, str] = {}  # of the workers, by their jobs
        self._asked = -math.inf  # when the scheduler was asked for workers that leave
        self._report_to = report
        self._parent = parent
        self._trouble = ""

    def run(self) -> None:
        """Keep the workers alive until SIGINT, SIGTERM, SIGHUP or the parent's end."""
        loop = SignalLoop(self._parent)
        self._adopt()
        loop.run(self._step, seconds_between(self._config.system))
        self._report("ending; workers and jobs stay, `grain drain` ends them")

    def _step(self) -> None:
        if self._look():
            self._note_leaving()
            self._submit()

    def _report(self, text: str) -> None:
        self._report_to(text, self._pool.counted, self._count)

    def _adopt(self) -> None:
        """Count the jobs that an earlier `grain scale` left behind."""
        from grain.cli.workers.jobs import own_jobs

        mine = [
            job.record
            for job in own_jobs(self._config)
            if job.record.by in {BY, POOL} and job.counts
        ]
        self._count_in(mine)
        self._report(f"{len(mine)} jobs are left from before" if mine else "beginning")

    def _count_in(self, records: list[JobRecord]) -> None:
        """Count jobs; the end of a job that was never submitted is not a failure."""
        from grain.cli.batch import is_mark

        self._pool.submitted([one.id for one in records], time.monotonic())
        for one in records:
            self._names[one.id] = one.name
            if is_mark(one.id):
                self._pool.excuse(one.id)

    def _look(self) -> bool:
        """Query the states of the jobs; return True if the batch system answered."""
        from grain.cli.batch import BatchError, open_system
        from grain.cli.workers.jobs import joined, report_ended

        asked = self._pool.jobs
        try:
            states = joined(open_system(self._config).states(asked), self._workers)
        except BatchError as error:
            self._complain(str(error))
            return False
        self._trouble = ""
        report_ended(self._config, states, self._names, self._workers)
        now = time.monotonic()
        failed = self._pool.look(states, now)
        ended = len(asked) - len(self._pool.jobs)
        pause = f"nothing is submitted for {self._pool.pause(now):.0f} s"
        for one in [one for one in failed if one in self._pool.stuck]:
            why = states[one].reason or "the batch system does not say why"
            self._report(f"{one} would never start ({why}) and is cancelled; {pause}")
            failed.remove(one)
        if failed:
            self._report(
                f"{len(failed)} failed at once ({', '.join(failed)}), see `grain logs`; {pause}"
            )
        try:
            open_system(self._config).cancel(self._pool.stuck)
        except BatchError as error:
            self._complain(str(error))
        if ended > len(failed):
            self._report(f"{ended - len(failed)} ended")
        return True

    def _note_leaving(self) -> None:
        """Ask the scheduler, now and then, which workers take no more tasks, and count them out.

        Their time ends, mostly: their successors are to be there by then.
        """
        from grain.cli.batch import submitted_names

        now = time.monotonic()
        running = self._pool.running
        if not running or now < self._asked + BATCH:
            return
        self._asked = now
        workers = self._states()
        draining = submitted_names(one.name for one in workers if one.state == "draining")
        self._pool.leaving(one for one in running if self._names.get(one) in draining)

    def _workers(self) -> list[str]:
        """Return the names of the workers with the scheduler; none if there is no scheduler."""
        return [worker.name for worker in self._states()]

    def _states(self) -> list[WorkerState]:
        """Return the workers with the scheduler; none if there is no scheduler."""
        from grain.cli.query import NoScheduler, ask_state

        try:
            return ask_state(self._config).workers
        except NoScheduler:
            return []

    def _submit(self) -> None:
        from grain.cli.batch import BatchError, is_mark
        from grain.cli.workers.submission import job_words, submit_workers

        wanted = self._pool.wanted(time.monotonic())
        if not wanted:
            return
        by = BY if self._parent is None else POOL
        try:
            for record in submit_workers(
                *(self._config, wanted, self._options),
                by=by,
                sharing=self._count,
                note=self._complain,
            ):
                self._count_in([record])
                if is_mark(record.id):
                    continue  # the error that follows says so
                self._report(f"{record.name} is {job_words(record)}, output in {record.log_file}")
        except (BatchError, OSError) as error:
            self._pool.refused(time.monotonic())
            self._complain(str(error))

    def _complain(self, text: str) -> None:
        """Report trouble once, as long as it stays the same."""
        if text != self._trouble:
            self._report(text)
        self._trouble = text
