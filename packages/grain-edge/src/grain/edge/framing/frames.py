"""Frames: their layout, `FrameEncoder` and `FrameDecoder`. Without I/O.

A frame is 8 bytes of header, a body and, in one case, a payload:

    length  u32   bytes of the body
    kind    u32   GREETING, BATCH or LARGE

1. Before the greeting is over only GREETING is allowed, with a body of 4 KiB at most; after it,
   never.
2. BATCH holds messages with their small payloads: a MessagePack array of pairs.
3. LARGE holds one message and the size of its payload, whose bytes follow the frame.

Messages arrive in the order in which they were sent. Nothing overtakes a large payload, and no
heartbeat need do so: the bytes that arrive are a sign of life.

A large payload is never joined to anything. It is sent as views of the caller's memory, also where
it has several pieces, and received into memory of its own. That memory is made when the payload is
announced, and from `buffers.LARGE` on it costs nothing until it is written to: a peer that
announces a gigabyte takes addresses and no memory.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

from grain.edge.buffers import LARGE as LARGE_BUFFER
from grain.edge.buffers import Buffer, Pieces, allocate
from grain.edge.errors import LocalProtocolError, RemoteProtocolError
from grain.edge.messages import MAX_GREETING, MAX_MESSAGE, Codec, Message, Payload, check_payload

if TYPE_CHECKING:
    from collections.abc import Sequence

GREETING, BATCH, LARGE = 1, 2, 3

INLINE = 32 * 1024
"""Payloads up to this many bytes travel inside a BATCH; copying them is cheaper than a frame."""

HEADER = struct.Struct("!II")

LIMITS = {
    GREETING: MAX_GREETING,
    # The encoder stops adding at 64 KiB, so one largest message may still follow.
    BATCH: MAX_MESSAGE + 128 * 1024,
    LARGE: MAX_MESSAGE + 64,
}
"""The most bytes in the body of each kind."""

_BATCH_BYTES = 64 * 1024
_BATCH_MESSAGES = 4096
_VIEWS = 256  # in one write, for which a system takes 1024 buffers


def greeting_frame(body: bytes) -> bytes:
    """Return one whole frame of the greeting.

    Raises:
        LocalProtocolError: the body has more than `MAX_GREETING` bytes.
    """
    if len(body) > MAX_GREETING:
        raise LocalProtocolError(f"greeting of {len(body)} bytes; {MAX_GREETING} at most")
    return HEADER.pack(len(body), GREETING) + body


class FrameEncoder:
    """The queue of messages to send, and the frames that they become.

    Args:
        size: bytes that `take` returns at most, but for the rest of a last BATCH.

    Attributes:
        pending: bytes that wait in the queue, without headers.
    """

    def __init__(self, codec: Codec, size: int) -> None:
        self._codec = codec
        self._size = size
        # Each entry: encoded messages and their number; or one message, and views of its large
        # payload.
        self._queue: deque[tuple[bytes, int, deque[memoryview] | None]] = deque()
        # The rest of the large payload whose LARGE frame was taken; empty without one.
        self._rest: deque[memoryview] = deque()
        self.pending = 0

    def put(self, batch: Sequence[tuple[Message, Payload]]) -> None:
        """Add a batch to the queue; all of it or, if one message is refused, nothing.

        Raises:
            LocalProtocolError: a message that is not of this channel, or too large, or whose
                payload is not bytes-like or too large for its type.
        """
        if 0 < len(batch) <= _BATCH_MESSAGES:
            together = self._codec.encode_together(batch, INLINE)
            if together is not None:
                self._queue.append((together, len(batch), None))
                self.pending += len(together)
                return
        for encoded, views in [self._encoded(*pair) for pair in batch]:
            self._queue.append((encoded, 1, views))
            self.pending += len(encoded) + (sum(map(len, views)) if views is not None else 0)

    def _encoded(
        self, message: Message, payload: Payload
    ) -> tuple[bytes, deque[memoryview] | None]:
        if payload is None:
            return self._codec.encode(message, None), None
        if type(payload) is bytes and len(payload) <= INLINE:  # most of them
            check_payload(message, len(payload), LocalProtocolError)
            return self._codec.encode(message, payload), None
        if type(payload) is Pieces:
            check_payload(message, len(payload), LocalProtocolError)
            if len(payload) <= INLINE:
                return self._codec.encode(message, b"".join(payload.parts)), None
            return self._codec.encode(message, len(payload)), deque(
                memoryview(part) for part in payload.parts
            )
        try:
            view = memoryview(payload).cast("B")
        except TypeError as e:
            raise LocalProtocolError(
                f"the payload of {type(message).__name__} must be bytes-like and contiguous to "
                f"travel over a wire, not {type(payload).__name__}"
            ) from e
        check_payload(message, len(view), LocalProtocolError)
        if len(view) <= INLINE:
            return self._codec.encode(message, view), None
        return self._codec.encode(message, len(view)), deque((view,))

    def take(self) -> list[Buffer]:
        """Remove the next bytes to write from the queue, about `size` of them.

        Returns:
            buffers to be written one after the other; empty if nothing waits. Small messages are
            joined into the first one, so that a stream which takes one buffer at a time writes
            them at once.
        """
        small: list[bytes] = []
        size = 0
        while not self._rest and self._queue and size < self._size:
            if self._queue[0][2] is None:
                size += self._take_batch(small)
            else:
                size += self._take_large(small)
        views = self._take_rest(max(self._size - size, 1)) if self._rest else []
        return [b"".join(small), *views] if small else [*views]

    def _take_batch(self, small: list[bytes]) -> int:
        """Append one BATCH to `small`; return the number of its bytes."""
        # An array of 32-bit length, so that the messages, encoded before, need no second pass.
        size, count, parts = 5, 0, [b""]
        while (
            self._queue
            and self._queue[0][2] is None
            and size < _BATCH_BYTES
            and count < _BATCH_MESSAGES
        ):
            encoded, messages, _ = self._queue.popleft()
            parts.append(encoded)
            count += messages
            size += len(encoded)
        self.pending -= size - 5
        parts[0] = HEADER.pack(size, BATCH) + struct.pack("!BI", 0xDD, count)
        small += parts
        return size

    def _take_large(self, small: list[bytes]) -> int:
        """Append a LARGE frame to `small`, whose payload is the rest from now on."""
        encoded, _, views = self._queue.popleft()
        assert views is not None
        self.pending -= len(encoded)
        self._rest = views
        small += (HEADER.pack(len(encoded), LARGE), encoded)
        return len(encoded)

    def _take_rest(self, most: int) -> list[memoryview]:
        """Take so many bytes of the payload, fewer where it has very many pieces."""
        views: list[memoryview] = []
        while self._rest and most and len(views) < _VIEWS:
            view = self._rest.popleft()
            if len(view) > most:
                self._rest.appendleft(view[most:])
                view = view[:most]
            views.append(view)
            most -= len(view)
            self.pending -= len(view)
        return views


class FrameDecoder:
    """Messages out of whatever pieces a stream delivers.

    Args:
        greetings: how many frames of the greeting come first. The last one may be followed
            directly by messages, in the same piece.
    """

    def __init__(self, codec: Codec, greetings: int = 0) -> None:
        self._codec = codec
        self._greetings = greetings
        self._partial = bytearray()  # the beginning of a frame: of its header, or with it
        self._large: tuple[Message, bytearray | memoryview] | None = None
        self._sink: memoryview | None = None  # the part of `_large` that is still to come
        self._greeting: bytes | None = None  # its body, until `feed_greeting` returns it
        # Messages that came with the last greeting, for the channel that reads on.
        self._early: list[tuple[Message, Payload]] = []

    @property
    def clean(self) -> bool:
        """True if nothing is half received: the stream may end here."""
        return not self._partial and self._sink is None

    @property
    def sink(self) -> memoryview | None:
        """The memory where the next bytes of the stream belong, amid a large payload.

        A caller that reads straight into it calls `filled`, instead of `feed`.
        """
        return self._sink

    def feed_greeting(self, data: Buffer) -> bytes | None:
        """Return the body of the greeting that these bytes complete; None if there is none yet.

        Messages that follow it in these bytes are for `take_early`.

        Raises:
            RemoteProtocolError: as `feed`.
        """
        self._early += self.feed(data)
        greeting, self._greeting = self._greeting, None
        return greeting

    def take_early(self) -> list[tuple[Message, Payload]]:
        """Return the messages that came with the last greeting, once."""
        early, self._early = self._early, []
        return early

    def filled(self, count: int) -> list[tuple[Message, Payload]]:
        """Return the message that is complete now that `count` bytes are in the sink, if any."""
        assert self._sink is not None
        assert self._large is not None
        if count < len(self._sink):
            self._sink = self._sink[count:]
            return []
        complete, self._large, self._sink = self._large, None, None
        return [complete]

    def feed(self, data: Buffer) -> list[tuple[Message, Payload]]:
        """Return the messages that these bytes complete, in order.

        Raises:
            RemoteProtocolError: the bytes break a rule; the channel must be closed.
        """
        out: list[tuple[Message, Payload]] = []
        view = memoryview(data)
        while len(view):
            if self._sink is not None:
                count = min(len(self._sink), len(view))
                self._sink[:count] = view[:count]
                out += self.filled(count)
                view = view[count:]
            elif self._partial:
                view = self._complete(view, out)
            elif len(view) < HEADER.size:
                self._partial += view
                break
            else:
                view = self._whole(view, out)
        return out

    def _complete(self, view: memoryview, out: list[tuple[Message, Payload]]) -> memoryview:
        """Continue a frame that came in part; return the bytes after it."""
        need = HEADER.size
        if len(self._partial) >= HEADER.size:
            need += HEADER.unpack_from(self._partial)[0]
        missing = need - len(self._partial)
        self._partial += view[:missing]
        view = view[missing:]
        if len(self._partial) == HEADER.size:
            length, kind = HEADER.unpack(self._partial)
            self._check(length, kind)
            if length:
                return view
        elif len(self._partial) < need:
            return view
        frame, self._partial = self._partial, bytearray()
        self._body(HEADER.unpack_from(frame)[1], memoryview(frame)[HEADER.size :], out)
        return view

    def _whole(self, view: memoryview, out: list[tuple[Message, Payload]]) -> memoryview:
        """Take a frame whose header has arrived, and mostly its body; return the bytes after it."""
        length, kind = HEADER.unpack_from(view)
        self._check(length, kind)
        end = HEADER.size + length
        if len(view) < end:
            self._partial += view
            return view[:0]
        self._body(kind, view[HEADER.size : end], out)
        return view[end:]

    def _check(self, length: int, kind: int) -> None:
        if kind not in LIMITS:
            raise RemoteProtocolError(f"the peer sent a frame of unknown kind {kind}")
        if length > LIMITS[kind]:
            raise RemoteProtocolError(
                f"the peer sent a frame of kind {kind} with {length} bytes; {LIMITS[kind]} at most"
            )
        if (kind == GREETING) is not (self._greetings > 0):
            state = "not over" if self._greetings else "over"
            raise RemoteProtocolError(f"the peer sent a frame of kind {kind}, greeting {state}")

    def _body(self, kind: int, body: memoryview, out: list[tuple[Message, Payload]]) -> None:
        if kind == GREETING:
            if self._greeting is not None:
                raise RemoteProtocolError("the peer did not wait for an answer to its greeting")
            self._greeting = bytes(body)
            self._greetings -= 1
        elif kind == BATCH:
            out += self._codec.decode_batch(body)
        else:
            message, size = self._codec.decode_announced(body)
            if size <= INLINE:
                raise RemoteProtocolError(f"the peer announced a large payload of {size} bytes")
            buffer = allocate(size) if size >= LARGE_BUFFER else bytearray(size)
            self._large = message, buffer
            self._sink = memoryview(buffer)
