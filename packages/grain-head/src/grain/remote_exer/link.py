"""The link of a mission to its scheduler: opened on demand, and again whenever it is lost."""

from __future__ import annotations

import logging
import math
import secrets
import time
from enum import Enum
from typing import TYPE_CHECKING

import trio

from grain.edge.errors import (
    ChannelBroken,
    ChannelError,
    EdgeError,
    NotAdmitted,
    NotServed,
    VersionMismatch,
)
from grain.head.errors import MissionReplaced, Unreachable
from grain.head.events import Event, Remark, SchedulerAway, SchedulerBack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from grain.edge.channel import WireBatch, WireChannel
    from grain.remote_exer.session import MissionSession

    Connect = Callable[[str], AbstractAsyncContextManager[WireChannel]]

AT_ONCE = 256
"""Messages that are handed to the channel together, between which it may say "wait"."""

APART = 0.0002
"""Seconds after the last task from which on a task leaves by itself."""

_SOON = 0.1  # seconds after which outcomes are confirmed without waiting for other messages
_AGAIN = 0.5  # seconds until the next attempt after a connection that was lost
_AFTER_FAILURE = 10.0  # seconds until the next after the scheduler failed to serve this mission
_LOOK = 1.5  # seconds between two looks at a scheduler that may have stopped
_GOODBYE = 1.0  # seconds for closing a connection that works

_REPLACED = (
    "another process has registered at the scheduler as this mission, as a copy of it by os.fork "
    "or from a checkpoint does. This one goes on under another id, and its unfinished tasks start "
    "again"
)

_log = logging.getLogger("grain.remote_exer")


class LinkState(Enum):
    """The states of a link, in the order in which it may enter them; the middle two alternate."""

    UNUSED = "unused"
    """No scheduler was reached so far: none has a task of this mission."""
    CONNECTED = "connected"
    LOST = "lost"
    """The connection was lost: the scheduler, or its successor, is still to resolve the tasks."""
    FAILED = "failed"
    """No scheduler can be reached, and waiting would not help: no process resolves the tasks."""


class SchedulerLink:
    """The link of a session to its scheduler: it sends messages, and hands over arriving ones.

    Args:
        connect: opens a channel to the scheduler for the mission of an id.
        on_event: called with the events of the scheduler's absence.
        until_direct: waits, on a connection, until there is a better way, which the next one takes;
            None if there is none.

    Attributes:
        state: see `LinkState`.
        awake: True from `on_task` until the messages are taken, as a rule in the next turn of the
            event loop; while that takes longer, for a tenth of a second at most.
        joined: set while it is connected; another event after each loss.
        wanted: to be set when there is something for a scheduler.
        stopped: the longest time for which the event loop did not run, since the shell around has
            last set it to 0; in seconds, with those for which the machine was suspended.
    """

    def __init__(
        self,
        session: MissionSession,
        connect: Connect,
        take: Callable[[WireBatch], object],
        on_event: Callable[[Event], object],
        until_direct: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._session = session
        self._connect = connect
        self._take = take
        self._on_event = on_event
        self._until_direct = until_direct
        self.state = LinkState.UNUSED
        self.awake = False
        self.joined = trio.Event()
        self.wanted = trio.Event()
        self.stopped = 0.0
        # The event that the sender waits for, and then replaces by another one.
        self._wake = trio.Event()
        self._away_reported = False
        # True once `end` was called; and the event that `Depart` was sent on a connection.
        self._departing = False
        self._departed = trio.Event()
        # The channel to the scheduler, while there is a connection.
        self._channel: WireChannel | None = None
        # True while the sender has messages that it took from the session and has not sent yet.
        self._sending = False
        # When a task last left by itself, or was the first of those that leave together.
        self._task_at = -math.inf

    @property
    def has_tasks(self) -> bool:
        """True if a scheduler has the mission's tasks, whether it is connected or not."""
        return self.state in (LinkState.CONNECTED, LinkState.LOST)

    def wake(self) -> None:
        """Have the messages of the session sent."""
        self._wake.set()

    def on_task(self) -> None:
        """Have the messages of the session sent, of which the last submits a task.

        A task by itself leaves now, as a caller that waits for one result after the other would
        also wait for the sender's turn. Tasks that follow within moments leave together, in that
        turn. A scheduler is looked for if there is none.
        """
        if self._channel is not None:
            before, self._task_at = self._task_at, trio.current_time()
            if self._task_at - before > APART and self.flush():
                return
        self.wanted.set()
        self._wake.set()
        self.awake = self._channel is not None

    # Ctrl-C waits for the next checkpoint: here it would tear a frame, or have one sent twice.
    @trio.lowlevel.enable_ki_protection
    def flush(self) -> bool:
        """Send the messages of the session, as far as that needs no waiting; True if they are sent.

        A loop that submits a hundred thousand tasks leaves nothing else in this process a turn, but
        other processes have theirs: so the first tasks are done before the last is submitted.
        """
        if self._channel is None or self._sending or not self._channel.writes_through:
            return False  # or later messages would overtake the ones in the sender's hand
        self._session.confirm()
        try:
            while self._session.to_head:
                if not self._channel.writes_through:
                    return False
                self._channel.post(self._session.to_head)
                self._session.take_mail()  # not before: what cannot be sent stays there
        except (ChannelBroken, trio.ClosedResourceError):
            return False  # the sender is about to notice what is wrong
        self.awake, self._task_at = False, trio.current_time()
        return True

    async def run(self, scope: trio.CancelScope) -> None:
        """Keep connected, until a scope is cancelled.

        Args:
            scope: a new one; shielded, as it takes the connection to cancel what runs.

        Raises:
            EdgeError: no scheduler can be reached, and waiting would not help.
            MissionReplaced: a later process of this lasting mission has registered.
        """
        with scope:
            await self.wanted.wait()
            while True:
                pause = _AGAIN
                try:
                    async with self._connect(self._session.id) as channel:
                        self._report(None)
                        await self._serve(channel)
                        pause = self._on_disconnect()
                except NotAdmitted as error:
                    if not self._session.registration.epoch:  # it was never admitted
                        self.state = LinkState.FAILED
                        raise
                    self._report(str(error))  # after a loss: it has tasks, and tries again
                except (VersionMismatch, NotServed, MissionReplaced):
                    self.state = LinkState.FAILED
                    raise
                except (ChannelError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    _log.info("the connection to the scheduler is lost: %s", error)
                except Unreachable as error:
                    self._report(str(error))
                except EdgeError as error:
                    if error.final:
                        self.state = LinkState.FAILED
                        raise
                    self._report(str(error))
                if self._departed.is_set():
                    return
                await trio.sleep(pause)

    def _on_disconnect(self) -> float:
        """Record why the scheduler has ended the connection, if it has.

        Returns:
            Seconds until the next attempt.

        Raises:
            NotServed: it would not help to come again.
            MissionReplaced: a later process of this lasting mission has registered.
        """
        registration = self._session.registration
        disconnect, registration.disconnect = registration.disconnect, None
        if disconnect is None:
            return _AGAIN
        if disconnect.because == "refused":
            raise NotServed(disconnect.why)
        if disconnect.because == "replaced" and self._session.lasts:
            # Under another id its tasks would begin again beside those that it has begun.
            raise MissionReplaced(
                f"another process of mission {registration.message.name} has taken over: this one "
                "ends, and its runs go on"
            )
        if disconnect.because == "replaced":
            self._session.rename(secrets.token_hex(8))
            self._take([])  # see `_serve`
            self._on_event(Remark(_REPLACED))
            return _AGAIN
        self._report(disconnect.why)
        return _AFTER_FAILURE

    async def end(self, scope: trio.CancelScope) -> None:
        """End the mission at the scheduler, and close the connection.

        Args:
            scope: that of `run`.
        """
        self._session.depart()
        self._departing = True
        self._wake.set()
        if self._session.connected:
            with trio.move_on_after(_GOODBYE):
                await self._departed.wait()
        if self._departed.is_set():  # closing the channel in good order may take a moment
            scope.deadline = trio.current_time() + _GOODBYE
        else:
            scope.cancel()

    def _report(self, why: str | None) -> None:
        """Report the scheduler's absence (why), or its return (None), once each."""
        away, self._away_reported = self._away_reported, why is not None
        if why is not None:
            _log.info("%s", why)
            if not away:
                self._on_event(SchedulerAway(why))
        elif away:
            self._on_event(SchedulerBack())

    async def _serve(self, channel: WireChannel) -> None:
        self._session.on_connected()
        # What that has ended is handed over at once: until then others take lanes for open, or for
        # waiting, of which the session has no record any more.
        self._take([])
        self._channel = channel
        self.state = LinkState.CONNECTED
        self.joined.set()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, channel, nursery.cancel_scope)
                nursery.start_soon(self._confirm)
                nursery.start_soon(self._watch, channel)
                nursery.start_soon(self._seek_direct, nursery.cancel_scope)
                # Caught in here, where no group can be made of it and a cancellation.
                try:
                    await channel.receive_into(self._take)
                except (ChannelError, trio.ClosedResourceError) as error:
                    _log.info("the connection to the scheduler is lost: %s", error)
                nursery.cancel_scope.cancel()
        finally:
            self._channel = None
            self.awake = False
            self.state = LinkState.LOST
            self.joined = trio.Event()
            self._session.on_disconnected()

    async def _confirm(self) -> None:
        """Have outcomes confirmed with which nothing else was sent."""
        while True:
            before = time.clock_gettime(time.CLOCK_BOOTTIME)
            await trio.sleep(_SOON)
            passed = time.clock_gettime(time.CLOCK_BOOTTIME) - before
            self.stopped = max(self.stopped, passed)
            self.awake = False
            if self._session.unconfirmed:
                self._wake.set()

    async def _watch(self, channel: WireChannel) -> None:
        """Report a scheduler that does not answer, and that it does again."""
        before, reported = "", False
        while True:
            await trio.sleep(_LOOK)
            why = channel.stalled()
            if why and before and not reported:  # in two looks: this process was not stopped itself
                reported = True
                self._report(f"the scheduler {why}")
            elif reported and not why:
                reported = False
                self._report(None)
            before = why

    async def _seek_direct(self, connection: trio.CancelScope) -> None:
        """End a connection over files or a relay when there is a direct way for the next one.

        The switch is a connection lost and made again: what is under way then is sent again.
        """
        if self._until_direct is None:
            return
        await self._until_direct()
        if not self._departing:  # else it is about to end, in good order
            _log.info("there is a direct way to the scheduler: leaving this one")
            connection.cancel()

    async def _send(self, channel: WireChannel, scope: trio.CancelScope) -> None:
        while True:
            self._session.confirm()
            mail = self._session.take_mail()
            self._sending, self.awake = True, False
            try:
                for at in range(0, len(mail), AT_ONCE):
                    await channel.send(mail[at : at + AT_ONCE])
            except (ChannelBroken, trio.ClosedResourceError) as error:
                _log.info("the connection to the scheduler is lost: %s", error)
                scope.cancel()
                return
            finally:
                self._sending = False
            if not self._session.to_head:
                if self._departing:
                    self._departed.set()
                    scope.cancel()
                    return
                await self._wake.wait()
                self._wake = trio.Event()
