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
from grain.edge.trust import make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from grain.config import Config

BY, SWARM = "scale", "gnaw"
"""The marks in the records of these jobs: a user's `grain scale` submitted them, or that of a
scheduler, which cancels those that still wait when it leaves."""

_POLL = {"local": 2.0}
_POLL_BATCH = 15.0  # seconds between two queries to a batch system


@click.command()
@json_option
@config_option
@shape_option
@click.option("--parent", type=int, hidden=True, help="End with this process, which began it.")
@click.option("--withdraw", is_flag=True, hidden=True, help="Cancel what such a one left waiting.")
@click.argument("count", metavar="N", required=False, type=click.IntRange(1, 100_000))
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def scale(
    ctx: click.Context,
    count: int | None,
    as_json: bool,
    shape: str | None,
    config_file: str | None,
    parent: int | None,
    withdraw: bool,
    options: tuple[str, ...],
) -> None:
    """Keep N workers alive, until Ctrl-C.

    Submits as many jobs as are missing, those that wait included; only jobs of `grain scale` are
    counted. After jobs that fail at once there is a pause. The workers stay when it ends. What
    follows `--` is for the batch system.

    \b
    Examples:
      grain scale 4
      nohup grain scale 4 &           goes on when the terminal is closed
      grain scale 2 -- --exclusive
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    if count is None:
        raise click.UsageError("name the number of workers to keep alive, as in: grain scale 4")
    refuse_words(options)
    with report_errors():
        from grain.cli.batch import state_folder

        config = shaped(load_config(ctx, config_file), shape)
        if config.system == "custom" and not config.custom_system.status_cmd:
            raise click.ClickException(
                "without custom_system.status_cmd, nobody knows how many workers of a custom batch "
                "system are alive; set it, or use `grain up`"
            )
        with _alone(state_folder(), config.worker.dial):
            if withdraw:
                _withdraw(config)
                return
            SwarmLoop(config, count, options, _reporter(as_json), parent).run()


def _withdraw(config: Config) -> None:
    """Cancel the jobs of a scheduler that wait: their workers would find nobody.

    Raises:
        BatchError: The batch system does not answer, or refuses.
    """
    from grain.cli.batch import WAITING, open_system
    from grain.cli.workers.jobs import own_jobs
    from grain.cli.workers.submission import job_words

    waiting = [
        job.record
        for job in own_jobs(config)
        if job.record.by == SWARM and job.state.phase in WAITING
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
    """See to it that nobody else keeps workers for this address."""
    import fcntl
    import hashlib
    import socket

    make_folder(folder)
    path = folder / f"scale-{hashlib.sha256(address.encode()).hexdigest()[:16]}.lock"
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


class SwarmLoop:
    """The loop of `grain scale`: queries, submits and waits, as a `Swarm` decides.

    Args:
        config: The configuration.
        count: How many.
        options: Further options for the batch system.
        report: Takes a sentence, the number of jobs that are alive, and the number wanted.
        parent: The pid of the process with which it ends; None if it ends by signals only.
    """

    def __init__(
        self,
        config: Config,
        count: int,
        options: tuple[str, ...],
        report: Callable[[str, int, int], None],
        parent: int | None = None,
    ) -> None:
        from grain.cli.workers.swarm import Swarm

        self._config = config
        self._count = count
        self._options = options
        self._swarm = Swarm(count)
        self._report_to = report
        self._parent = parent
        self._over = False
        self._trouble = ""

    def run(self) -> None:
        """Keep the workers alive until SIGINT, SIGTERM, SIGHUP or the parent's end.

        A submission that has begun is completed first. Under ``nohup``, which ignores SIGHUP, the
        command goes on when its terminal is closed.
        """
        import select
        import signal

        # A pipe and not a `threading.Event`: a handler that sets an event blocks for ever if the
        # signal arrives while this thread holds the event's lock.
        ending, end = os.pipe()
        os.set_blocking(end, False)

        def on_signal(*_: object) -> None:
            self._over = True
            with contextlib.suppress(BlockingIOError):
                os.write(end, b"!")

        signal.signal(signal.SIGINT, on_signal)
        signal.signal(signal.SIGTERM, on_signal)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, on_signal)
        self._adopt()
        while not self._over and self._parent in {None, os.getppid()}:
            if self._look():
                self._submit()
            select.select([ending], [], [], _POLL.get(self._config.system, _POLL_BATCH))
        self._report("ending; workers and jobs stay, `grain quit` ends them")

    def _report(self, text: str) -> None:
        self._report_to(text, len(self._swarm.jobs), self._count)

    def _adopt(self) -> None:
        """Count the jobs that an earlier `grain scale` left behind."""
        from grain.cli.batch import JobPhase
        from grain.cli.workers.jobs import own_jobs

        mine = [
            job.record.id
            for job in own_jobs(self._config)
            if job.record.by in {BY, SWARM}
            and job.state.phase not in {JobPhase.GONE, JobPhase.UNKNOWN}
        ]
        self._swarm.submitted(mine, time.monotonic())
        self._report(f"{len(mine)} jobs are left from before" if mine else "beginning")

    def _look(self) -> bool:
        """Query the states of the jobs; return True if the batch system answered."""
        from grain.cli.batch import BatchError, open_system

        asked = self._swarm.jobs
        try:
            states = open_system(self._config).states(asked)
        except BatchError as error:
            self._complain(str(error))
            return False
        self._trouble = ""
        now = time.monotonic()
        failed = self._swarm.look(states, now)
        ended = len(asked) - len(self._swarm.jobs)
        pause = f"nothing is submitted for {self._swarm.pause(now):.0f} s"
        for one in [one for one in failed if one in self._swarm.stuck]:
            why = states[one].reason or "the batch system does not say why"
            self._report(f"{one} would never start ({why}) and is cancelled; {pause}")
            failed.remove(one)
        if failed:
            self._report(
                f"{len(failed)} failed at once ({', '.join(failed)}), see `grain logs`; {pause}"
            )
        try:
            open_system(self._config).cancel(self._swarm.stuck)
        except BatchError as error:
            self._complain(str(error))
        if ended > len(failed):
            self._report(f"{ended - len(failed)} ended")
        return True

    def _submit(self) -> None:
        from grain.cli.batch import BatchError
        from grain.cli.workers.submission import job_words, submit_workers

        wanted = self._swarm.wanted(time.monotonic())
        if not wanted:
            return
        by = BY if self._parent is None else SWARM
        try:
            for record in submit_workers(
                self._config, wanted, self._options, by=by, sharing=self._count
            ):
                self._swarm.submitted([record.id], time.monotonic())
                self._report(f"{record.name} is {job_words(record)}, output in {record.log_file}")
        except (BatchError, OSError) as error:
            self._swarm.refused(time.monotonic())
            self._complain(str(error))

    def _complain(self, text: str) -> None:
        """Report trouble once, as long as it stays the same."""
        if text != self._trouble:
            self._report(text)
        self._trouble = text
