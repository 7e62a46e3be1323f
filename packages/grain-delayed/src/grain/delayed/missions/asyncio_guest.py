"""Missions in an asyncio program or a notebook: trio as a guest on asyncio's loop.

Branches, leaves and everything else of a mission stay trio tasks. Only the code in the ``async
with`` block is asyncio's, and the two take turns in one thread: so a delayed function is called
as ever, and only waiting needs a bridge.

A loop can be host to one trio run at a time. Its missions share that, a `Guest`; it begins with
the first of them and ends with the last. Each is a `Stay` in it.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import outcome
import trio

from grain.delayed.errors import NotInMission
from grain.delayed.missions.mission import _current
from grain.head import collapsed, collapsing

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
    """A mission around a block of asyncio code.

    Args:
        open_mission: makes the mission, in trio.

    Raises:
        RuntimeError: no asyncio loop runs here, or it has another guest.
        BaseException: as `grain.delayed.mission`, where the cancellation is asyncio's.
    """
    guest = await Guest.here()
    stay = Stay(open_mission, guest)
    outer = _current.get()
    raised: BaseException | None = None
    try:
        await stay.begin()
        guest.missions.append(stay.mission)
        _current.set(stay.mission)
        yield stay.mission
    except BaseException as error:
        raised = error
    # In a notebook, the block may be left in another context than it was entered in.
    _current.set(outer)
    cancelled = await stay.end(raised)
    cancelled = await guest.leave(stay.aborted) or cancelled
    raises = _what_counts(raised or cancelled, stay.failure())
    if raises is not None:
        with collapsing():  # as at the end of a mission in trio
            raise raises


class Stay:
    """One mission in the guest, as seen from the asyncio task that opened it."""

    mission: Mission

    def __init__(self, open_mission: Open, guest: Guest) -> None:
        self._open = open_mission
        self._guest = guest
        self._scope = trio.CancelScope()
        self._leave = trio.Event()
        self._began: asyncio.Future[None] = guest.loop.create_future()
        self._ended: asyncio.Future[None] = guest.loop.create_future()
        self._error: Exception | None = None
        # Whether the guest ended around it, as by Ctrl-C.
        self.aborted = False
        # The task in the block, as long as it is in there, and whether we cancelled it.
        self._task: asyncio.Task[Any] | None = None
        self._cancelled_task = False

    async def begin(self) -> None:
        """Enter the mission.

        Raises:
            BaseException: it could not be entered, or this task was cancelled meanwhile.
        """
        try:
            self._guest.start(self._run)
        except RuntimeError:  # the guest is about to end, and takes no tasks
            self.aborted = True
            self._ended.set_result(None)
            raise asyncio.CancelledError from None
        cancelled = await _settled(self._began, self._scope.cancel)
        if cancelled is not None:
            raise cancelled
        self._task = asyncio.current_task()
        if self._ended.done():
            raise asyncio.CancelledError  # what it failed with follows, in `failure`

    async def end(self, raised: BaseException | None) -> asyncio.CancelledError | None:
        """Leave the mission; returns when nothing of it is left.

        Returns:
            A cancellation that arrived meanwhile.
        """
        self._forgive()
        self._task = None
        if raised is None:
            self._leave.set()
        else:
            self._scope.cancel()
        return await _settled(self._ended, self._scope.cancel)

    def failure(self) -> BaseException | None:
        """What the mission raised that was not asked of it."""
        return self._guest.failure() if self.aborted else self._error

    async def _run(self) -> None:
        """The mission's trio task."""
        try:
            with collapsing(), self._scope:
                async with self._open() as self.mission:
                    self._began.set_result(None)
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
                # The block goes on and its mission is gone: as in trio, it is cancelled.
                self._cancelled_task = self._task.cancel()

    def _forgive(self) -> None:
        """The cancellation of the block was ours: asyncio shall not count it."""
        if self._cancelled_task and self._task is not None and sys.version_info >= (3, 11):
            self._task.uncancel()


class Guest:
    """A trio run on the asyncio loop of this thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.missions: list[Mission] = []
        self._users = 0
        self._error: BaseException | None = None
        self._closing = trio.Event()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._nursery: trio.Nursery

    @classmethod
    async def here(cls) -> Guest:
        """The guest of the running loop; its user calls `leave`.

        Raises:
            RuntimeError: no asyncio loop runs here, or there is a trio run that is not ours.
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
        guest._users += 1
        try:
            await asyncio.wait([guest._ready])
        except asyncio.CancelledError:
            await guest.leave(ending=False)
            raise
        if guest._closing.is_set():  # it was interrupted before it began
            await guest.leave(ending=True)
            raise guest.failure()
        return guest

    def start(self, function: Callable[[], Any]) -> None:
        """Start a trio task.

        Raises:
            RuntimeError: the guest is about to end.
        """
        self._nursery.start_soon(function)

    async def leave(self, ending: bool) -> asyncio.CancelledError | None:
        """A user has no more use for it; the last one ends it.

        Args:
            ending: whether it ends anyway. Then, too, its end is waited for.

        Returns:
            A cancellation that arrived meanwhile.
        """
        self._users -= 1
        if not self._users:
            self._closing.set()
        elif not ending:
            return None
        return await _settled(self._ended, _nothing)

    async def _main(self) -> None:
        try:
            async with trio.open_nursery() as self._nursery:
                self._ready.set_result(None)
                await self._closing.wait()
        finally:
            self._closing.set()
            if not self._ready.done():
                self._ready.set_result(None)

    def _on_ended(self, ended: outcome.Outcome[None]) -> None:
        if isinstance(ended, outcome.Error):
            error = ended.error
            self._error = collapsed(error)
        self._ended.set_result(None)

    def failure(self) -> BaseException:
        """What to raise where a mission was aborted.

        The interrupt itself comes once: it stops asyncio's loop, and another one would stop it
        while it cancels its other tasks.
        """
        error, self._error = self._error, None
        return error or asyncio.CancelledError("the missions of this loop were interrupted")


def mission_here() -> Mission | None:
    """The mission of asyncio code that is in no ``async with`` block.

    Each cell of a notebook is such code, with a context of its own: if just one mission is open
    in this loop, it is meant.
    """
    if trio.lowlevel.in_trio_task() or not trio.lowlevel.in_trio_run():
        return None
    guest = _guest.get()
    missions = [] if guest is None else [m for m in guest.missions if not m.ended]
    return missions[0] if len(missions) == 1 else None


def event_here() -> asyncio.Event:
    """An event that this asyncio code can wait for, and a task of the guest can set.

    Raises:
        NotInMission: there is no guest in the asyncio loop that runs here.
    """
    guest = _guest.get() if trio.lowlevel.in_trio_run() else None
    if guest is None or guest.loop is not asyncio.get_running_loop():
        raise NotInMission(
            "this delayed object belongs to a mission of another asyncio loop; await it there"
        )
    return asyncio.Event()


async def checkpoint() -> None:
    """Let others of the asyncio loop run."""
    await asyncio.sleep(0)


async def _settled(
    future: asyncio.Future[None], on_cancel: Callable[[], object]
) -> asyncio.CancelledError | None:
    """Wait for a future, also if this task is cancelled; then something is done about it.

    Returns:
        The last cancellation.
    """
    cancelled = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
            on_cancel()
    return cancelled


def _what_counts(
    block: BaseException | None, mission: BaseException | None
) -> BaseException | None:
    """What to raise of what the block and its mission raised; None if all is well."""
    if mission is None or (block is not None and isinstance(mission, asyncio.CancelledError)):
        return block
    if block is None or isinstance(block, asyncio.CancelledError):
        return mission  # what failed counts more than the cancellation that followed from it
    return collapsed(BaseExceptionGroup("a block and its mission failed", [block, mission]))


def _nothing() -> None:
    """The end is near already."""
