"""The dispatcher of a queue: started by whatever command finds that there is none."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grain.cli.queue.opening import LATE, dispatcher_state, silence_of
from grain.cli.show import clean
from grain.files.processes import is_stopped
from grain.resource.figures import signal_name, span

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.cli.jobs.as_job import AsJob
    from grain.queue.dispatchers import Dispatchers, LiveDispatcher
    from grain.queue.folder import Queue


_STARTING = 60.0  # seconds after which a dispatcher that is not in charge has failed to begin
_STOPPING = 10.0  # seconds for which a command waits for its end
_ANSWER = 2.0  # seconds for the answer of a scheduler
_STOPPED = "the dispatcher has stopped; jobs that run go on"
_LOOK = 0.1  # seconds between two looks for a dispatcher that is to come
_LOOK_FOR_SIGN = 2.0  # seconds between two looks for a sign of life
_LOCKS = "/dev/shm"  # noqa: S108 - a directory of this host; files there are checked


def wake_dispatcher(queue: Queue, config: str | None) -> str:
    """Make sure that jobs are taken; return why that is not possible, as a sentence.

    It starts a dispatcher if none runs, and has one on this host look at once. One on another host,
    which cannot be seen from here, is watched by a process of its own until it gives a sign of
    life; if none comes, that starts one here. Two that are started at once do no harm: the first
    ends when it sees the second.

    Args:
        config: the configuration file that was chosen; None for none.
    """
    from grain.cli.plugin import report_errors
    from grain.queue.dispatchers import Dispatchers

    try:
        # The caller has something to say beside an error: what it did stands.
        with report_errors():
            alive = Dispatchers(queue.files).alive()
            if alive is None:
                if not is_starting(queue):
                    _start(queue, config)
                return ""
            if alive.is_here:
                alive.rouse()
            else:
                watch_over(queue, config, alive)
    except click.ClickException as error:
        return f"no dispatcher could be started, so use `grain queue start` later: {error.message}"
    return other_address(queue, config)


def _start(queue: Queue, config: str | None) -> None:
    """Start a dispatcher, here or as a batch job; errors as of both."""
    from grain.cli.jobs import as_job
    from grain.config import load

    if (chosen := as_job.choice(queue)) is not None:
        as_job.ensure(queue, load(chosen.config or config), chosen)
    else:
        start_dispatcher(queue, config)


def revive_dispatcher(queue: Queue, config: str | None) -> bool:
    """Make sure that jobs are taken that wait; for commands that ask for jobs, or wait for them.

    A dispatcher that a user has stopped stays so. In a job, where no process stays, nothing is
    done.

    Returns:
        True if the last one was killed, or none ever began, and one is started.
    """
    from grain.queue.dispatchers import Dispatchers

    if "GRAIN_JOB_ID" in os.environ:
        return False
    with suppress(OSError):
        dispatchers = Dispatchers(queue.files)
        alive = dispatchers.alive()
        if alive is None:
            starts = dispatchers.is_missing() and not is_starting(queue)
            return starts and not wake_dispatcher(queue, config)
        if not alive.is_here:
            watch_over(queue, config, alive)
    return False


def watch_over(queue: Queue, config: str | None, alive: LiveDispatcher) -> None:
    """Have a process of this host wait for a sign of life of a dispatcher, see `watch`.

    There is one such process on a host, also for many commands. The lock that keeps it so belongs
    to this host, as locks of a shared file system may hang.

    Raises:
        OSError: no process can be started.
    """
    from grain.cli.missions.logout import at_logout
    from grain.files.trust import python_command
    from grain.queue.dispatchers import Dispatchers

    # Before the lock: whoever has that looks once more when it has given it back.
    Dispatchers(queue.files).ask_for_sign(alive.number)
    lock = _lock_of(queue)
    if lock is None:
        return
    words = [*python_command("grain.cli.jobs.dispatcher"), str(queue.folder), config or ""]
    try:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [*at_logout().prefix, *words, str(lock)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=() if lock < 0 else (lock,),
            start_new_session=True,
        )
    finally:
        if lock >= 0:
            os.close(lock)
    process.returncode = 0  # it outlives this command, which does not wait for it


def _lock_of(queue: Queue) -> int | None:
    """Take the lock of a queue on this host; return None if another process has it.

    Without a place for locks it is -1: several processes that watch do no harm.
    """
    name = f"{_LOCKS}/grain-{os.getuid()}-{zlib.crc32(os.fsencode(queue.folder)):08x}"
    with suppress(OSError):
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(fd).st_uid == os.getuid():
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
        except BlockingIOError:
            os.close(fd)
            return None
        os.close(fd)
    return -1


def watch(
    queue: Queue,
    start: Callable[[], object],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until the dispatcher on another host has given a sign of life; or start another one.

    Clocks of hosts may differ: only times of the file server are compared with each other, and
    times of this process.

    Args:
        start: starts a dispatcher.
        clock: returns seconds, which only move on.
        sleep: waits for seconds.
    """
    from grain.queue.dispatchers import QUIET_AFTER, Dispatchers

    dispatchers = Dispatchers(queue.files)
    last, silent, since = 0, 0.0, clock()
    while True:
        with suppress(OSError):
            alive = dispatchers.alive()
            if alive is None:
                if dispatchers.is_missing():
                    start()
                return
            if alive.is_here or dispatchers.has_answered(alive.number):
                return
            silence = dispatchers.silence(alive.number)
            if alive.number != last or silence < silent:
                since = clock()  # another one, or a sign that came before we were asked again
            last, silent = alive.number, silence
            if silence > QUIET_AFTER:
                break
        if clock() > since + QUIET_AFTER:
            break
        sleep(_LOOK_FOR_SIGN)
    start()


def main(folder: str, config: str, lock: str) -> None:
    """Watch the dispatcher of a queue for commands of this host that rely on it."""
    from grain.queue.dispatchers import Dispatchers
    from grain.queue.folder import Queue

    queue = Queue.open(Path(folder))
    chosen = config or None

    def start() -> None:
        if not is_starting(queue):
            _start(queue, chosen)

    watch(queue, start)
    if int(lock) >= 0:
        os.close(int(lock))
    dispatchers = Dispatchers(queue.files)
    alive = dispatchers.alive()
    if alive is not None and not alive.is_here and not dispatchers.has_answered(alive.number):
        watch_over(queue, chosen, alive)  # for a command that came at the last moment


def other_address(queue: Queue, config: str | None) -> str:
    """Return a sentence if the dispatcher has its scheduler at another address than this process.

    Workers that were started with this configuration take none of its jobs then. A configuration
    that cannot be read has none.
    """
    from grain.config import ConfigError, load
    from grain.queue.dispatchers import Dispatchers
    from grain.queue.folder import DEFAULT

    try:
        alive = Dispatchers(queue.files).alive()
        here = load(config).head.listen
    except (ConfigError, OSError):
        return ""
    there = "" if alive is None else alive.dispatcher.address
    if not there or there == here:
        return ""
    name = "" if queue.name == DEFAULT else f" --queue {queue.name}"
    start = f"grain queue start{name}" + ("" if config is None else f" -c {config}")
    return clean(
        f"the dispatcher of queue {queue.name} serves workers at {there}, and this configuration "
        f"has {here}: have it serve these by `grain queue stop{name}` and `{start}`, or give them "
        "a queue of their own by `--queue NAME`"
    )


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
    from grain.cli.mission_records import last_line, missions_folder, read

    records = read(missions_folder(), queue.name)
    end = records[-1].end if records else None
    if end is None or end.status in (0, -signal.SIGTERM):
        return ""
    if end.status < 0:
        return signal_name(-end.status)
    return clean(last_line(records[-1]))


def dispatcher_text(queue: Queue, config: str | None) -> str:
    """Make sure that jobs are taken that wait; return what keeps them from it, as a sentence."""
    from grain.cli.jobs import as_job

    # A batch job may wait for a node for hours.
    if revive_dispatcher(queue, config) and as_job.choice(queue) is None:
        return "no dispatcher was left: one starts now"
    return other_address(queue, config) if dispatcher_state(queue) else no_dispatcher(queue)


def no_dispatcher(queue: Queue) -> str:
    """Return a sentence that no dispatcher runs, and what the user may do; or that one starts."""
    from grain.cli.jobs import as_job

    if is_starting(queue):
        return "a dispatcher is starting"
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


def is_starting(queue: Queue) -> bool:
    """Return True if a dispatcher was started a moment ago, on any host, and lives.

    It needs seconds until it is in charge. Whoever submits many jobs one by one would start as many
    meanwhile.
    """
    from grain.cli.mission_records import missions_folder, read, time_of_files
    from grain.cli.missions.starting import state_of

    return any(
        # Another environment has another interpreter; and another host, another clock.
        record.start.command[-1:] == (str(queue.folder),)
        and record.end is None
        and time_of_files(record.folder.parent) - record.made < _STARTING
        and state_of(record).phase.alive
        and not (record.process is not None and is_stopped(record.process.pid))
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
    from grain.files.trust import python_command

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
    next one. One that is just starting is awaited and stopped, too.

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
    stopped = bool(jobs)
    while (alive := _in_charge_soon(queue, dispatchers)) is not None:
        if not alive.is_here and jobs:
            dispatchers.say_farewell(alive.number)
            return _STOPPED
        if not alive.is_here:
            raise click.ClickException(_on_its_host(dispatchers, alive))
        with suppress(ProcessLookupError):  # that of a batch job
            os.kill(alive.dispatcher.pid, signal.SIGTERM)
            os.kill(alive.dispatcher.pid, signal.SIGCONT)  # it may be stopped
        end = time.monotonic() + _STOPPING
        while dispatchers.alive(also_stopped=True) == alive:
            if time.monotonic() > end:
                return "the dispatcher is told to stop; jobs that run go on"
            time.sleep(0.05)
        stopped = True
    if (last := dispatchers.last()) is not None:
        dispatchers.say_farewell(last[0])  # so that no command takes it for killed
    return _STOPPED if stopped else "no dispatcher runs"


def _in_charge_soon(queue: Queue, dispatchers: Dispatchers) -> LiveDispatcher | None:
    """Return the dispatcher in charge, perhaps when one is that is just starting; None for none."""
    while (alive := dispatchers.alive(also_stopped=True)) is None and is_starting(queue):
        time.sleep(_LOOK)
    return alive


def _on_its_host(dispatchers: Dispatchers, alive: LiveDispatcher) -> str:
    """Return on which other host a dispatcher can be stopped, as a sentence."""
    from grain.queue.dispatchers import SILENT_AFTER

    host = clean(alive.dispatcher.host)
    there = f"on {host}, in another container" if host == socket.gethostname() else f"on {host}"
    silence = silence_of(dispatchers, alive)
    if silence < LATE:
        return (
            f"it runs {there}: give this command there (its last sign of life came "
            f"{span(silence)} ago)"
        )
    return (
        f"it ran {there}, and has given no sign of life for {span(silence)}: give this command "
        f"there, or wait until it is taken for dead, which is after {span(SILENT_AFTER)}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
