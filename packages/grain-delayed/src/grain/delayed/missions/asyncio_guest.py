"""Missions in an asyncio program or a notebook: trio as a guest on asyncio's loop.

Branches, leaves and everything else of a mission stay trio tasks. Only the code in the ``async
with`` block is asyncio's, and the two take turns in one thread. So a delayed function is called as
ever, and only waiting needs a bridge, which is `grain.delayed.host`.

A loop can be host to one trio run at a time. The missions of the loop share that run, a `Guest`:
it begins with the first of them and ends with the last. Each mission is a `GuestMission` in it.

An asyncio future carries one fact from trio to asyncio, and is set exactly once: by then the
waiting asyncio task may have been cancelled, and waits again (`_wait_for`) until it is set.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import outcome
import trio

from grain.delayed.advice import note_mistakes
from grain.delayed.errors import MissionCancelled
from grain.delayed.host import asyncio_host
from grain.delayed.missions.current import add_mission_of_asyncio, set_current
from grain.edge.machine.copies import Origin, end_copies_in
from grain.head import TaskCancelled, collapsed, collapsing

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    from grain.delayed.missions.mission import Mission

    Open = Callable[[], AbstractAsyncContextManager[Mission]]

# The guest of the asyncio loop in this thread: trio keeps it with the trio run itself.
_guest: trio.lowlevel.RunVar[Guest | None] = trio.lowlevel.RunVar("grain.delayed guest", None)


@asynccontextmanager
async def hosted(open_mission: Open) -> AsyncGenerator[Mission]:
    """Open a mission around a block of asyncio code.

    Raises:
        RuntimeError: no asyncio loop runs here, or the loop has another guest.
        BaseException: as `grain.delayed.mission`, where the cancellation is asyncio's.
    """
    origin = Origin()
    guest = await Guest.join()
    entered = GuestMission(open_mission, guest)
    raised: BaseException | None = None
    try:
        mission = await entered.begin()
        add_mission_of_asyncio(mission)
        # Not by a token of the context variable: in a notebook, the block may be left in another
        # context than it was entered in.
        outer = set_current(mission)
        try:
            yield mission
        finally:
            set_current(outer)
    except BaseException as error:
        note_mistakes(error)
        raised = error
    origin.check(raised)  # a copy has no loop to wait in
    cancelled = await entered.end(raised)
    cancelled = await guest.leave(until_ended=entered.aborted) or cancelled
    error_to_raise = _more_important(raised or cancelled, entered.failure())
    if error_to_raise is not None:
        with collapsing():  # as at the end of a mission in trio
            raise error_to_raise


class GuestMission:
    """A mission in the guest, as seen from the asyncio task that opened it.

    Attributes:
        aborted: True if the guest ended around the mission, as by Ctrl-C.
    """

    def __init__(self, open_mission: Open, guest: Guest) -> None:
        self._open = open_mission
        self._guest = guest
        self._scope = trio.CancelScope()
        self._leave = trio.Event()
        # The result is None if the mission ended before it began.
        self._began: asyncio.Future[Mission | None] = guest.loop.create_future()
        self._ended: asyncio.Future[None] = guest.loop.create_future()
        self._error: Exception | None = None
        self.aborted = False
        # The asyncio task in the block, as long as it is there.
        self._task: asyncio.Task[Any] | None = None
        self._task_was_cancelled_here = False

    async def begin(self) -> Mission:
        """Enter the mission.

        Raises:
            BaseException: the mission could not be entered, or this task was cancelled meanwhile.
        """
        try:
            self._guest.start(self._run)
        except RuntimeError:  # the guest is about to end, and takes no tasks
            self.aborted = True
            self._ended.set_result(None)
            raise asyncio.CancelledError from None
        cancelled = await _wait_for(self._began, self._scope.cancel)
        if cancelled is not None:
            raise cancelled
        self._task = asyncio.current_task()
        mission = self._began.result()
        if mission is None or self._ended.done():
            raise asyncio.CancelledError  # the reason follows, from `failure`
        return mission

    async def end(self, raised: BaseException | None) -> asyncio.CancelledError | None:
        """Leave the mission, and return when nothing of it is left.

        Returns:
            A cancellation that arrived meanwhile.
        """
        if self._task_was_cancelled_here and self._task is not None:
            _uncancel(self._task)
        self._task = None
        if raised is None:
            self._leave.set()
        else:
            self._scope.cancel()
        return await _wait_for(self._ended, self._scope.cancel)

    def failure(self) -> BaseException | None:
        """Return the exception of the mission itself, None if it ended as it should."""
        return self._guest.failure() if self.aborted else self._error or self._guest.late_error()

    async def _run(self) -> None:
        """Run the mission, as a trio task."""
        try:
            with collapsing(), self._scope:
                async with self._open() as mission:
                    self._began.set_result(mission)
                    await self._leave.wait()
        except Exception as error:
            self._error = error
        except BaseException:
            self.aborted = True
            raise
        finally:
            self._ended.set_result(None)
            if not self._began.done():
                self._began.set_result(None)
            if self._task is not None:
                # The block goes on although its mission has ended: it is cancelled, as in trio.
                self._task_was_cancelled_here = self._task.cancel()


class Guest:
    """A trio run on the asyncio loop of this thread; `join` returns it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._users = 0
        self._error: BaseException | None = None
        self._closing = trio.Event()
        # The result is None if the run ended before it began.
        self._nursery: asyncio.Future[trio.Nursery | None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()

    @classmethod
    async def join(cls) -> Guest:
        """Return the guest of the running loop, a new one if there is none; `leave` it later.

        Raises:
            RuntimeError: no asyncio loop runs here, or this thread has another trio run.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "a mission needs a trio program or an asyncio program around it, and there is "
                "neither: use grain.delayed.run"
            ) from None
        while trio.lowlevel.in_trio_run():
            guest = _guest.get()
            if guest is None or guest.loop is not loop:
                raise RuntimeError(
                    "this thread has a trio run already, of another library or of an asyncio loop "
                    "that was stopped too early: use `async with mission(...)` inside that run"
                )
            if not guest._closing.is_set():
                break
            await asyncio.wait([guest._ended])
        else:
            guest = cls(loop)
            trio.lowlevel.start_guest_run(
                guest._main,
                run_sync_soon_threadsafe=loop.call_soon_threadsafe,
                run_sync_soon_not_threadsafe=loop.call_soon,
                done_callback=guest._on_ended,
                host_uses_signal_set_wakeup_fd=True,
            )
            _guest.set(guest)
            asyncio_host.set(loop)
            end_copies_in(loop.call_soon)
        guest._users += 1
        try:
            await asyncio.wait([guest._nursery])
        except asyncio.CancelledError:
            await guest.leave(until_ended=False)
            raise
        if guest._closing.is_set():  # it was interrupted before it began
            await guest.leave(until_ended=True)
            raise guest.failure()
        return guest

    def start(self, function: Callable[[], Any]) -> None:
        """Start a trio task.

        Raises:
            RuntimeError: the guest is about to end.
        """
        nursery = self._nursery.result()
        if nursery is None:
            raise RuntimeError("the trio run of this loop has ended")
        nursery.start_soon(function)

    async def leave(self, *, until_ended: bool) -> asyncio.CancelledError | None:
        """Give up the guest; the last user that does so ends it, and waits for its end.

        Args:
            until_ended: wait in any case, as the guest ends by itself.

        Returns:
            A cancellation that arrived meanwhile.
        """
        self._users -= 1
        if not self._users:
            self._closing.set()
        elif not until_ended:
            return None
        # A cancellation changes nothing: the end is near already.
        return await _wait_for(self._ended, lambda: None)

    async def _main(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self._nursery.set_result(nursery)
                await self._closing.wait()
        except BaseException as error:
            # It is not trio's outcome. The thread that waits for I/O may hold that outcome when the
            # interpreter ends; with the exception it would hold the frames and globals of the
            # program, and Python would not flush a file that is open there.
            self._error = collapsed(error)
        finally:
            self._closing.set()
            if not self._nursery.done():
                self._nursery.set_result(None)

    def _on_ended(self, ended: outcome.Outcome[None]) -> None:
        if isinstance(ended, outcome.Error):  # trio's own, as Ctrl-C at the last moment
            self._error = ended.error
        self._ended.set_result(None)

    def failure(self) -> BaseException:
        """Return the exception to raise where a mission was aborted.

        The interrupt itself is returned once: it stops asyncio's loop, and another one would stop
        the loop while it cancels its other tasks.
        """
        error, self._error = self._error, None
        return error or asyncio.CancelledError("the missions of this loop were interrupted")

    def late_error(self) -> BaseException | None:
        """Return the exception of the trio run if that has ended with one which none has raised.

        An interrupt may come when all missions have ended well, and the run has not.
        """
        error = None
        if self._ended.done():
            error, self._error = self._error, None
        return error


async def _wait_for(
    future: asyncio.Future[Any], on_cancel: Callable[[], object]
) -> asyncio.CancelledError | None:
    """Wait until a future is done, even if this task is cancelled meanwhile.

    Args:
        on_cancel: called at each cancellation; it hastens the end.
    """
    cancelled = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
            on_cancel()
    return cancelled


def _uncancel(task: asyncio.Task[Any]) -> None:
    """Take back a cancellation that `GuestMission` made, or asyncio counts it as the user's."""
    if sys.version_info >= (3, 11):
        task.uncancel()


def _more_important(
    block: BaseException | None, mission: BaseException | None
) -> BaseException | None:
    """Return the exception to raise, of a block's and its mission's; None if all is well.

    A failure is more important than the cancellation that follows from it.
    """
    if mission is None or (block is not None and isinstance(mission, asyncio.CancelledError)):
        return block
    if block is None or isinstance(block, asyncio.CancelledError):
        return mission
    ended = isinstance(mission, KeyboardInterrupt | SystemExit | MissionCancelled)
    if isinstance(block, TaskCancelled) and ended:
        return mission  # the block awaited a task that was cancelled for the same reason
    return collapsed(BaseExceptionGroup("a block and its mission failed", [block, mission]))
