"""The writer of a channel: which bytes are written next, and by which task. Without I/O.

Two tasks may write. A *sender* writes its own message at once where that spares a round trip two
switches between tasks; everything else is left to the channel's *writer task*. Rules:

1. A write begins with `next_write` and ends with `wrote`, and there is one at a time. So bytes
   leave in the order in which they were put.
2. Over a stream that writes without waiting (a socket, TLS) nothing happens between the two: no
   cancellation can tear a frame, and the writer is never seen WRITING by another task. Over other
   streams only the writer task writes, which is cancelled when the channel ends and not before.
3. `put` never waits. Who can wait does so while the writer is `congested`.
4. Single messages leave at once, many leave together: `post` writes at once if nothing was posted
   within `BURST` before. Otherwise the writer task finds all of it in its next turn. But bytes that
   have waited for longer than `LATE` are written by the next `post`, as in a loop that gives no
   task a turn.

The states of what is sent, and what leads from one to another:

    ========  ===============================================  =========================
    state     meaning                                          left by
    ========  ===============================================  =========================
    IDLE      nothing waits                                    put: QUEUED
    QUEUED    bytes wait for a turn                            next_write: WRITING
    BLOCKED   the stream took less than it was given, and      next_write: WRITING
              what it left is written before anything else
    WRITING   a write is under way                             wrote: IDLE, QUEUED if
                                                               more was put meanwhile,
                                                               BLOCKED if the stream is
                                                               full
    BROKEN    the connection is lost                           never
    CLOSED    this side has closed the channel                 never
    ========  ===============================================  =========================

`failed` leads from the first four to BROKEN, `close` from all to CLOSED. `finish` puts the last
message; a later send is refused as if the channel was CLOSED already.
"""

from __future__ import annotations

import math
from enum import Enum, auto
from typing import TYPE_CHECKING

import trio

from grain.edge.errors import ChannelBroken
from grain.edge.framing.frames import FrameEncoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.edge.buffers import Buffer
    from grain.edge.errors import ChannelError
    from grain.edge.framing.channel import WireBatch
    from grain.edge.messages import Codec

HIGH_WATER = 1024 * 1024
"""Bytes that may wait before senders do."""

SMALL = 4096
"""Bytes that `send` writes at once. Who sends more gives the writer task a turn in between."""

BURST = 0.0001
"""Seconds: what is posted within them is caused by the same event."""

LATE = 0.001
"""Seconds after which posted bytes wait no longer for the writer task."""


class WriterState(Enum):
    """The state of what is sent; see the module's table."""

    IDLE = auto()
    QUEUED = auto()
    BLOCKED = auto()
    WRITING = auto()
    BROKEN = auto()
    CLOSED = auto()


IDLE, QUEUED, BLOCKED, WRITING, BROKEN, CLOSED = WriterState


class Writer:
    """The sending half of a channel, which decides what is written when.

    Args:
        size: about as many bytes are in one write.
    """

    def __init__(self, codec: Codec, size: int) -> None:
        self._encoder = FrameEncoder(codec, size)
        self._rest: list[Buffer] = []  # of a write that the stream took in part
        self._rest_size = 0
        self.finishing = False
        self._posted_at = self._waiting_since = -math.inf
        self.state = IDLE
        self.writes = 0
        self.error: ChannelError | None = None

    def __repr__(self) -> str:
        return f"<Writer, {self.state.name}, {self.pending} bytes to write>"

    @property
    def pending(self) -> int:
        """The number of bytes that wait, without those of a write that is under way."""
        return self._encoder.pending + self._rest_size

    @property
    def congested(self) -> bool:
        """True if so much waits that senders had better wait, too."""
        return self._encoder.pending + self._rest_size > HIGH_WATER

    @property
    def ended(self) -> bool:
        """True if nothing will be written any more."""
        return self.state in (BROKEN, CLOSED)

    def check_open(self) -> None:
        """Refuse to go on with a channel that is closed or broken.

        Raises:
            trio.ClosedResourceError: this side has closed it.
            ChannelBroken: the connection is lost.
        """
        if self.state is CLOSED or self.finishing:
            raise trio.ClosedResourceError("this channel was closed")
        if self.error is not None:
            ended = isinstance(self.error, ChannelBroken) and self.error.ended
            raise ChannelBroken(str(self.error), ended=ended) from self.error

    def put(self, batch: WireBatch) -> None:
        """Queue a batch for the writer task.

        Raises:
            LocalProtocolError: a message that cannot travel; nothing is queued.
            trio.ClosedResourceError, ChannelBroken: as `check_open`.
        """
        self.check_open()
        self._encoder.put(batch)
        if self.state is IDLE and self._encoder.pending:
            self.state = QUEUED

    def send(self, batch: WireBatch) -> bool:
        """Queue a batch; True if the caller is to write now.

        Raises:
            LocalProtocolError, trio.ClosedResourceError, ChannelBroken: as `put`.
        """
        idle = self.state is IDLE
        self.put(batch)
        return idle and self._encoder.pending <= SMALL and self.state is QUEUED

    def post(self, batch: WireBatch, now: float, *, more: bool = False) -> bool:
        """Queue a batch by rule 4; True if the caller is to write now.

        Args:
            now: seconds, of any clock.
            more: more is likely to follow within moments, which had better travel together.

        Raises:
            LocalProtocolError, trio.ClosedResourceError, ChannelBroken: as `put`.
        """
        idle = self.state is IDLE
        self.put(batch)
        alone = idle and not more and now - self._posted_at > BURST
        self._posted_at = now
        if idle:
            self._waiting_since = now
        late = now - self._waiting_since > LATE
        return (alone or late) and self.state in (QUEUED, BLOCKED)

    def next_write(self) -> list[Buffer]:
        """Begin a write: what is to be written, one buffer after the other.

        To be called if the state is QUEUED or BLOCKED. Empty if a stream that is full has taken
        everything already and need only be asked whether it is full still.
        """
        assert self.state in (QUEUED, BLOCKED)
        if not self._rest:
            self._rest = self._encoder.take()
        self.state = WRITING
        self.writes += 1
        return self._rest

    def wrote(self, count: int, *, full: bool) -> None:
        """End a write.

        Args:
            count: bytes that the stream took, from the beginning of what `next_write` returned; all
                of them unless it is full.
            full: the stream takes no more before it was waited for.
        """
        if self.state is not WRITING:  # broken or closed meanwhile
            return
        if full:
            self._rest = _without(self._rest, count)
            self._rest_size = sum(map(len, self._rest))
            self.state = BLOCKED
        else:
            self._rest, self._rest_size = [], 0
            self.state = QUEUED if self._encoder.pending else IDLE

    def failed(self, error: ChannelError) -> None:
        """Note that the connection is lost; the first reason counts."""
        if not self.ended:
            self.state = BROKEN
            self.error = error

    def finish(self, goodbye: WireBatch) -> None:
        """Queue the last messages, and refuse all that would follow. Does nothing if repeated."""
        if not self.finishing and not self.ended:
            self.put(goodbye)
            self.finishing = True

    def close(self) -> None:
        """Forget what waits."""
        self.state = CLOSED


def _without(buffers: Sequence[Buffer], count: int) -> list[Buffer]:
    """Return what follows the first bytes of some buffers."""
    for at, buffer in enumerate(buffers):
        if count < len(buffer):
            return [memoryview(buffer)[count:], *buffers[at + 1 :]]
        count -= len(buffer)
    return []
