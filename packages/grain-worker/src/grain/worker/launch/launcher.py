"""`launch`: the process in the script of a job, which starts the workers of its nodes."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio

from grain.edge.errors import EdgeError
from grain.edge.invitation import invite
from grain.eventlog.names import state_folder
from grain.files.batch_systems import facts_of
from grain.files.trust import private_folder, python_command, remove_files
from grain.worker.errors import UsageError
from grain.worker.launch.part import CODEC, PART, NodePart, SignalReceived
from grain.worker.launch.places import places, remote, srun, system_of
from grain.worker.launch.starter import StartOrder
from grain.worker.node.signals import on_signals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grain.edge.channel import FramedChannel
    from grain.edge.invitation import Door

_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
_ORDER = re.compile(r"[0-9a-f]{24}\.json")
_KEPT = 86400.0  # seconds for which the file of a job that was killed is kept

_log = logging.getLogger("grain.worker")


class _Start(NamedTuple):
    """A command that starts workers, and ends with them."""

    what: str
    argv: list[str]
    environment: Mapping[str, str]
    workers: int = 1


class _Launch:
    """The workers of a job.

    Attributes:
        status: the largest exit status so far.
    """

    def __init__(self) -> None:
        self.status = 0
        self._received: list[int] = []
        self._channels: set[FramedChannel] = set()

    def on_signal(self, number: int) -> None:
        """Pass a signal on to all workers, also to those that have yet to connect."""
        _log.info("%s received, and passed on to all workers", signal.Signals(number).name)
        self._received.append(number)
        for channel in self._channels:
            _post(channel, number)

    async def serve(self, door: Door) -> None:
        """Keep the connection to one worker after the other, until cancelled."""
        while True:
            try:
                async with door.guest() as channel:
                    for number in self._received:
                        _post(channel, number)
                    self._channels.add(channel)
                    try:
                        while True:
                            await channel.receive()
                    finally:
                        self._channels.discard(channel)
            except (EdgeError, trio.EndOfChannel, trio.BrokenResourceError):
                pass  # it has ended, or works on without us: what started it knows

    async def run(self, start: _Start) -> None:
        """Run a command to its end."""
        try:
            done = await trio.run_process(
                start.argv, stdin=subprocess.DEVNULL, check=False, env=start.environment
            )
            code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        except OSError as error:
            _log.error("%s: %s", start.argv[0], error.strerror)
            code = 1
        if code:
            _log.warning("%s has ended with status %d", start.what, code)
        self.status = max(self.status, code)


async def launch(
    argv: Sequence[str], nodes: int, log: str = "", environ: Mapping[str, str] = os.environ
) -> int:
    """Start a worker on each node of this job, and wait until all of them have ended.

    On cancellation, what has started them is killed.

    Args:
        argv: the arguments of each worker.
        nodes: the number of nodes that was asked for.
        log: the file of the job's output, where the batch system moves it there at the end.

    Returns:
        The largest exit status of the workers.

    Raises:
        UsageError: this is not a job of a batch system in which that is possible, or its launcher
            or the list of its nodes is missing.
        OSError: a file cannot be written, or this host cannot listen.
    """
    ours = _Launch()
    system_of(environ)
    with on_signals(ours.on_signal, *_SIGNALS):
        async with invite(CODEC) as door:
            with _starts(argv, nodes, log, door.invitation, environ) as starts:
                count = sum(start.workers for start in starts)
                if count != nodes:
                    _log.warning("%d nodes were asked for, and the job has %d", nodes, count)
                async with trio.open_nursery() as nursery:
                    for _ in range(count):
                        nursery.start_soon(ours.serve, door)
                    async with trio.open_nursery() as running:
                        for start in starts:
                            running.start_soon(ours.run, start)
                    nursery.cancel_scope.cancel()
    return ours.status


@contextmanager
def _starts(
    argv: Sequence[str], nodes: int, log: str, invitation: bytes, environ: Mapping[str, str]
) -> Iterator[list[_Start]]:
    """Give the commands that start the workers, with what they need, for the block."""
    system = system_of(environ)
    if system != "pbs":
        log = _own_output() or log
    if system == "slurm":
        count = int(environ.get("SLURM_JOB_NUM_NODES", nodes))
        variables = {**environ, PART: NodePart(invitation, log).text()}
        worker = [*python_command("grain.worker"), *argv]
        yield [_Start("srun", srun(count, worker), variables, count)]
        return
    variable = "PBS_NODEFILE" if system == "pbs" else "PE_HOSTFILE"
    file = environ.get(variable)
    if not file:
        raise UsageError(
            f"--nodes needs the nodes of the job, and {variable} does not name the file of them: "
            "start it by the job's script"
        )
    found = places(system, Path(file).read_text().splitlines())
    slots = [place.slots for place in found]
    order = StartOrder(list(argv), str(Path.cwd()), dict(environ), slots, invitation, log)
    commands = _commands(system, environ)
    with _written(order) as path:
        starter = [*python_command("grain.worker.launch.starter"), str(path)]
        starts = []
        for index, place in enumerate(found):
            words = [*starter, str(index)]
            # The worker of this node is a child: a launcher may have no task left for it.
            line = remote(system, place.host, words, commands) if index else words
            starts.append(_Start(f"the worker on {place.host}", line, environ))
        yield starts


@contextmanager
def _written(order: StartOrder) -> Iterator[Path]:
    """Write an order into a file that all nodes see, and only this user; remove it at the end."""
    folder = state_folder() / "nodes"
    private_folder(folder)
    before = time.time() - _KEPT
    remove_files(
        folder,
        lambda name, status: _ORDER.fullmatch(name) is not None and status.st_mtime < before,
    )
    path = folder / f"{secrets.token_hex(12)}.json"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(order))
        yield path
    finally:
        path.unlink(missing_ok=True)


def _commands(system: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the paths of the launchers that there are, by name."""
    own = environ.get("SGE_ROOT", ""), environ.get("ARC", "")
    usual = [
        environ.get("PATH", os.defpath),
        *([environ["SGE_BINARY_PATH"]] if environ.get("SGE_BINARY_PATH") else []),
        *([str(Path(own[0], "bin", own[1]))] if all(own) else []),
        "/opt/pbs/bin",
    ]
    path = os.pathsep.join(usual)
    found = {name: shutil.which(name, path=path) for name in facts_of(system).launchers}
    return {name: where for name, where in found.items() if where}


def _own_output() -> str:
    """Return the file that this process writes to; empty if it is none."""
    try:
        if stat.S_ISREG(os.fstat(1).st_mode):
            return str(Path("/proc/self/fd/1").readlink())
    except OSError:
        pass
    return ""


def _post(channel: FramedChannel, number: int) -> None:
    try:
        channel.post([(SignalReceived(number), None)])
    except (EdgeError, trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # as in `_Launch.serve`
