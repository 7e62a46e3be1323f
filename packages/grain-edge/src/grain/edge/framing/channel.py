"""`Channel`: the interface of every channel, whatever lies below it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import trio

from grain.edge.messages import Message, Payload

Beside = TypeVar("Beside")
Sent = TypeVar("Sent", contravariant=True)
Received = TypeVar("Received", covariant=True)

Batch = Sequence[tuple[Message, Beside]]
"""Messages with their payloads, in the order in which they were sent."""

WireBatch = Batch[Payload]
"""Messages with payloads that can travel over a wire."""


class Channel(trio.abc.AsyncResource, Generic[Sent, Received]):
    """Messages to and from one peer, with payloads of type `Sent` and of type `Received`.

    One task may receive at a time; any number may send. Used as an async context manager, it is
    closed at the end: with a goodbye after normal execution, at once after an exception.
    """

    @abstractmethod
    async def send(self, batch: Batch[Sent]) -> None:
        """Send some messages.

        Returns when they are written or wait in a bounded queue, not when they have arrived. A
        payload must not be changed afterwards: it is not copied. Waits while much else is still to
        be written; after a cancellation then, none of the batch is sent.

        Raises:
            LocalProtocolError: a message or payload that cannot travel; nothing was sent.
            ChannelBroken: the connection is lost; whatever was sent may or may not have arrived.
            trio.ClosedResourceError: this side has closed the channel.
        """

    @abstractmethod
    def post(self, batch: Batch[Sent], *, more: bool = False) -> None:
        """Send some messages without waiting, however much is still to be written.

        For senders that something else bounds, as the runs on a worker bound its reports.

        Args:
            more: more is likely to follow within moments, which had better travel together.

        Raises:
            LocalProtocolError, ChannelBroken, trio.ClosedResourceError: as `send`.
        """

    @property
    @abstractmethod
    def writes_through(self) -> bool:
        """True if what is posted now may leave this process before the sender waits.

        For a loop that never waits, whose peers could work meanwhile. False if so much waits that
        `send` would wait, and always within one process, where the peer runs when the sender waits.
        """

    @property
    @abstractmethod
    def congested(self) -> bool:
        """True if so much is still to be written that `send` would wait."""

    @abstractmethod
    async def receive(self) -> Batch[Received]:
        """Wait for messages; return at least one. Cancellation loses nothing.

        Raises:
            trio.EndOfChannel: the peer closed it on purpose.
            ChannelBroken: the connection is lost.
            RemoteProtocolError: the peer broke a rule; the channel is closed.
            trio.BusyResourceError: another task is receiving.
            trio.ClosedResourceError: this side has closed the channel.
        """

    async def receive_into(self, handle: Callable[[Batch[Received]], object]) -> None:
        """Call a function with each batch received, until the peer closes the channel.

        Where both ends are in one process it is called by the sender's task, which saves a pass
        through trio's scheduler; it must not wait, and what it raises is a bug.

        Raises:
            As `receive`, but for `trio.EndOfChannel`.
        """
        while True:
            try:
                batch = await self.receive()
            except trio.EndOfChannel:
                return
            handle(batch)
            del batch  # or the last payload would be kept until the next comes

    @abstractmethod
    def silent_for(self) -> float:
        """Return the seconds since the last sign of life of the peer; 0 for one in memory."""

    def stalled(self) -> str:
        """Return the end of a sentence on why the peer does not answer; "" if it may well do.

        A look at one moment: two in a row tell more.
        """
        return ""

    @property
    @abstractmethod
    def suspect_after(self) -> float:
        """The seconds of silence after which a caller had better not rely on the peer."""


WireChannel = Channel[Payload, Payload]
"""A channel whose payloads are bytes, whether or not both of its ends are in one process."""
