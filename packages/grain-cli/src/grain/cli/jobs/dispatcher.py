"""The dispatcher of a queue: started by whatever command finds that there is none."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grain.cli.queue.opening import dispatcher_state
from grain.cli.show import clean
from grain.eventlog.files import open_plain
from grain.resource.figures import signal_name

if TYPE_CHECKING:
    from grain.cli.jobs.as_job import AsJob
    from grain.queue.folder import Queue


_STARTING = 60.0  # seconds after which a dispatcher that is not in charge has failed to begin
_STOPPING = 10.0  # seconds for which a command waits for its end
_ANSWER = 2.0  # seconds for the answer of a scheduler
_LAST = 2000  # bytes of the output of a dispatcher in which its last line is looked for
_STOPPED = "the dispatcher has stopped; jobs that run go on"
_LOOK = 0.1  # seconds between two looks for a dispatcher that is to come


def wake_dispatcher(queue: Queue, config: str | None) -> str:
    """Start a dispatcher, if none runs; return why that is not possible, as a sentence.

    Two that are started at once do no harm: the first ends when it sees the second.

    Args:
        config: the configuration file that was chosen; None for none.
    """
    from grain.cli.jobs import as_job
    from grain.cli.plugin import report_errors
    from grain.config import load

    try:
        # The caller has something to say beside an error: what it did stands.
        with report_errors():
            if not dispatcher_state(queue) and not _is_starting(queue):
                if (chosen := as_job.choice(queue)) is not None:
                    as_job.ensure(queue, load(chosen.config or config), chosen)
                else:
                    start_dispatcher(queue, config)
    except click.ClickException as error:
        return f"no dispatcher could be started, so use `grain queue start` later: {error.message}"
    return ""


def revive_dispatcher(queue: Queue, config: str | None) -> None:
    """Start a dispatcher if the last one was killed; for commands that wait for jobs.

    One that a user has stopped stays so.
    """
    from grain.queue.dispatchers import Dispatchers

    with suppress(OSError):
        if Dispatchers(queue.files).has_died():
            wake_dispatcher(queue, config)


def no_workers(config: str | None) -> str:
    """Return a sentence if there are no workers, and none were submitted; "" if there may be some.

    It asks the scheduler, and the batch system if that has none, for some seconds at most.
    """
    from grain.cli.batch import BatchError
    from grain.cli.query import NoScheduler, state_if_any
    from grain.cli.workers.jobs import own_jobs
    from grain.config import ConfigError, load
    from grain.edge.errors import EdgeError

    try:
        loaded = load(config)
        state = state_if_any(loaded, answer=_ANSWER)
        if state is not None and state.workers:
            return ""
        if any(one.alive for one in own_jobs(loaded, hurry=True)):
            return ""
    except (BatchError, ConfigError, EdgeError, NoScheduler, OSError):
        return ""  # the job is in the queue, and whatever is wrong shows elsewhere
    return "there are no workers: `grain up` starts one"


def last_words(queue: Queue) -> str:
    """Return how the last dispatcher failed that was started here; "" if it did not."""
    from grain.cli.mission_records import missions_folder, read

    records = read(missions_folder(), queue.name)
    end = records[-1].end if records else None
    if end is None or end.status in (0, -signal.SIGTERM):
        return ""
    if end.status < 0:
        return signal_name(-end.status)
    with suppress(OSError), open_plain(records[-1].output) as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _LAST, 0))
        lines = file.read().decode(errors="replace").strip().splitlines()
        return clean(lines[-1]) if lines else ""
    return ""


def no_dispatcher(queue: Queue) -> str:
    """Return a sentence that no dispatcher runs, and what the user may do."""
    from grain.cli.jobs import as_job

    if (chosen := as_job.choice(queue)) is not None:
        return f"no dispatcher runs: {_no_job(queue, chosen)}"
    words = last_words(queue)
    why = f"; the last one has ended: {words}" if words else ""
    return f"no dispatcher runs: `grain queue start` starts one{why}"


def _no_job(queue: Queue, chosen: AsJob) -> str:
    """Return why no dispatcher runs that is a batch job."""
    from grain.cli.batch import BatchError
    from grain.cli.jobs import as_job
    from grain.config import ConfigError, load

    try:
        jobs = as_job.jobs_of(queue, load(chosen.config or None))
    except (BatchError, ConfigError, OSError) as error:
        return f"it is to be a batch job, and that cannot be looked for: {clean(error)}"
    return as_job.waiting_text(jobs) or "the next job is submitted by `grain queue start`"


def _is_starting(queue: Queue) -> bool:
    """Return True if a dispatcher was started a moment ago, and lives.

    It needs seconds until it is in charge. Whoever submits many jobs one by one would start as many
    meanwhile.
    """
    from grain.cli.mission_records import missions_folder, read
    from grain.cli.missions.starting import state_of

    command, earliest = _command(queue), time.time() - _STARTING
    return any(
        record.start.at > earliest
        and record.start.command == command
        and state_of(record).phase.alive
        for record in read(missions_folder(), queue.name)
    )


def await_dispatcher(queue: Queue) -> None:
    """Wait until the dispatcher that was just started is in charge.

    Raises:
        click.ClickException: it has ended.
    """
    from grain.cli.mission_records import missions_folder, read
    from grain.cli.missions.starting import state_of

    while not dispatcher_state(queue):
        records = read(missions_folder(), queue.name)
        if not records or not state_of(records[-1]).phase.alive:
            raise click.ClickException(
                f"the dispatcher has ended at once: {last_words(queue) or 'it was stopped'}"
            )
        time.sleep(_LOOK)


def _command(queue: Queue) -> tuple[str, ...]:
    from grain.edge.trust import python_command

    return (*python_command("grain.dispatcher"), str(queue.folder))


def start_dispatcher(queue: Queue, config: str | None) -> None:
    """Start the dispatcher of a queue, so that it outlives the terminal.

    Raises:
        click.ClickException: it cannot be started.
        ConfigError, EdgeError: the configuration cannot be used.
        OSError: the state directory cannot be written.
    """
    from grain.cli.mission_records import MissionStart
    from grain.cli.missions.environment import kept
    from grain.cli.missions.starting import begin_another

    env = dict(os.environ)
    if config is not None:
        env["GRAIN_CONFIG"] = str(Path(config).absolute())
    start = MissionStart(
        name=queue.name,
        command=_command(queue),
        directory=str(Path.cwd()),
        environment=kept(env),
        at=time.time(),
        detached=True,
        program="",
        digest="",
        config=env.get("GRAIN_CONFIG", ""),
    )
    otherwise = "have the dispatcher run as a job: `grain queue start --as-job`"
    begin_another(start, env, otherwise=otherwise)


def stop_dispatcher(queue: Queue) -> str:
    """Stop the dispatcher of a queue, here or as a batch job; return a sentence for the user.

    It waits for the end of the process, for some seconds: while it lives, no command starts the
    next one.

    Raises:
        click.ClickException: it runs on another host, or in another container, and is not a batch
            job.
        BatchError: the batch system refuses to end the job, or does not answer.
        ConfigError: the configuration is wrong.
    """
    from grain.cli.jobs import as_job
    from grain.config import load
    from grain.queue.dispatchers import Dispatchers

    dispatchers = Dispatchers(queue.files)
    jobs = []
    if (chosen := as_job.choice(queue)) is not None:
        jobs = as_job.end_jobs(queue, load(chosen.config or None))
        as_job.forget(queue)
    alive = dispatchers.alive()
    if alive is None:
        return _STOPPED if jobs else "no dispatcher runs"
    if not alive.is_here:
        if jobs:
            dispatchers.say_farewell(alive.number)
            return _STOPPED
        host = clean(alive.dispatcher.host)
        there = f"on {host}, in another container" if host == socket.gethostname() else f"on {host}"
        raise click.ClickException(f"it runs {there}: give this command there")
    with suppress(ProcessLookupError):  # that of a batch job
        os.kill(alive.dispatcher.pid, signal.SIGTERM)
    end = time.monotonic() + _STOPPING
    while dispatchers.alive() == alive:
        if time.monotonic() > end:
            return "the dispatcher is told to stop; jobs that run go on"
        time.sleep(0.05)
    return _STOPPED
