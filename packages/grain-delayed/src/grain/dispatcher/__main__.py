"""``python -m grain.dispatcher FOLDER``: serve the queue in a folder, until another one does.

In a batch job there follow the seconds that it has, and the command that submits a successor.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from grain.config import ConfigError, load
from grain.delayed.missions.opening import opened
from grain.delayed.missions.options import MissionOptions
from grain.delayed.missions.report import Reporter
from grain.dispatcher.desk import Desk
from grain.dispatcher.lifetime import IDLE, Lifetime, outlive, run_command
from grain.dispatcher.mission import TICKETS, DispatchLoop
from grain.edge.errors import EdgeError, VersionMismatch
from grain.edge.mission_ids import lasting_id
from grain.edge.version import code_at_start, replaced_code
from grain.files.trust import python_command
from grain.head.collapse import collapsing, flattened
from grain.head.errors import MissionReplaced
from grain.queue.errors import QueueError
from grain.queue.folder import Queue
from grain.remote_exer import LastingMission, RemoteExecutor
from grain.resource.figures import span

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

_EXPECTED = (QueueError, ConfigError, EdgeError, OSError)
"""Errors that end a dispatcher, and are told in a line."""


async def serve(
    folder: Path,
    lifetime: Lifetime | None = None,
    once: Callable[[Queue, Desk, Lifetime | None], Awaitable[None]] | None = None,
) -> None:
    """Serve a queue until another dispatcher is in charge, or the mission is cancelled.

    If that other one dies at once, as where its host allows fewer processes, this one serves again.
    It has a new number then, as a scheduler that has seen the other one serves no smaller number.

    Args:
        lifetime: that of a batch job; None for any other process.
        once: serves as one dispatcher, until it raises MissionReplaced.

    Raises:
        QueueError: the folder is not a queue that this process can serve.
        MissionReplaced: another dispatcher serves it, or none is wanted.
        grain.config.ConfigError, grain.edge.errors.EdgeError: there can be no scheduler.
    """
    queue = Queue.open(folder)
    # Before it takes charge, as the dispatcher before ends then.
    address = load().head.listen
    began = time.monotonic()
    while True:
        desk = Desk(queue, address=address)
        left = lifetime
        if lifetime is not None:
            left = lifetime._replace(seconds=lifetime.seconds - (time.monotonic() - began))
        try:
            with _told_once():
                await (once or _serve_as)(queue, desk, left)
        except MissionReplaced:
            if not await trio.to_thread.run_sync(desk.has_outlived_successor):
                raise


@contextmanager
def _told_once() -> Generator[None]:
    """Raise MissionReplaced by itself where the queue and the scheduler have told of it at once.

    A dispatcher that was stopped finds both when it goes on. What else has failed meanwhile, in the
    queue or on the way to the scheduler, is for the other dispatcher to meet.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        told = flattened(group)
        replaced = [one for one in told if isinstance(one, MissionReplaced)]
        if not replaced or not all(isinstance(one, (MissionReplaced, *_EXPECTED)) for one in told):
            raise
        raise replaced[0] from None


async def _serve_as(queue: Queue, desk: Desk, lifetime: Lifetime | None) -> None:
    """Serve a queue under the number of a desk."""
    lasting = LastingMission(
        lasting_id(queue.name, queue.mission), desk.number, desk.number * TICKETS
    )
    options = MissionOptions(name=queue.name, cache=False, lasting=lasting)
    async with opened(options, Reporter(False, routine=False)) as mission:
        executor = mission.executor
        assert isinstance(executor, RemoteExecutor)  # there is no local worker
        loop, idle = DispatchLoop(queue, desk, executor), False
        try:
            idle = await _dispatch(loop, lifetime)
        except BaseException:
            await _leave(desk)
            raise
        why = "another dispatcher serves it, or its folder was removed"
        if idle:
            await _leave(desk)
            why = f"it has had no jobs for {span(IDLE)}"
        # By an exception, as the mission would wait for all runs otherwise.
        raise MissionReplaced(f"queue {queue.name}: {why}; this dispatcher ends")


async def _dispatch(loop: DispatchLoop, lifetime: Lifetime | None) -> bool:
    """Dispatch jobs until another dispatcher is in charge; return True if it had no jobs for long.

    Only a batch job ends then.
    """
    if lifetime is None:
        await loop.run()
        return False
    idle = False
    with collapsing():
        async with trio.open_nursery() as nursery:

            async def dispatch() -> None:
                await loop.run()
                nursery.cancel_scope.cancel()

            nursery.start_soon(dispatch)
            await outlive(lifetime, lambda: loop.busy_at, run_command)
            idle = True
            nursery.cancel_scope.cancel()
    return idle


async def _leave(desk: Desk) -> None:
    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(desk.leave)


def main(folder: str, seconds: str = "", *successor: str) -> int:
    """Serve a queue; return the exit status."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    lifetime = Lifetime(float(seconds), successor) if seconds else None
    began = time.monotonic()
    code_at_start()
    try:
        trio.run(serve, Path(folder), lifetime)
    except MissionReplaced as error:
        logging.getLogger("grain.dispatcher").info("%s", error)
    except _EXPECTED as error:
        if isinstance(error, VersionMismatch) and (why := replaced_code()):
            # The scheduler is of the new code. So is the next dispatcher, which takes over.
            logging.getLogger("grain.dispatcher").info("%s: starting again", why)
            words = again(folder, lifetime, time.monotonic() - began)
            os.execv(words[0], words)  # noqa: S606 - our own interpreter
        print(f"grain: {error}", file=sys.stderr)
        return 1
    return 0


def again(folder: str, lifetime: Lifetime | None, ran: float) -> list[str]:
    """Return the command line of a dispatcher in place of one that ran for so many seconds."""
    words = [*python_command("grain.dispatcher"), folder]
    if lifetime is not None:
        words += [f"{max(lifetime.seconds - ran, 0.0):g}", *lifetime.successor]
    return words


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
