"""Bytes to frames and back, without I/O.

Theory of operation. A frame is 8 bytes of header and a body:

    length  u32   bytes of the body
    kind    u8    GREETING, BATCH, OPEN or CHUNK
    lane    u8    which of the lanes of `grain.edge.messages`
    zero    u16   reserved; anything else is refused

1. Before the greeting is over, only GREETING is allowed, with 4 KiB at most; after it, never.
2. BATCH holds several messages of one lane with their small payloads.
3. OPEN holds one message and the size of its large payload; CHUNKs of the same lane follow until
   that many bytes have come. Only then is the message delivered. No BATCH or OPEN of that lane
   comes in between, so a lane keeps its order; frames of other lanes do.
4. A sender takes URGENT first, then the other lanes in turn, one frame each. So whatever is
   waiting, an urgent message waits for one chunk at most.

Large payloads are never joined to anything: sent as views, also where they have several pieces,
and received into a buffer of their own. That buffer grows chunk by chunk, or is memory that comes
when it is written to (`grain.edge.memory`): so a size that a peer merely announces costs nothing,
and nobody waits while a gigabyte is cleared.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

from grain.edge.errors import LocalProtocolError, RemoteProtocolError
from grain.edge.memory import LARGE, room
from grain.edge.messages import (
    LANES,
    MAX_GREETING,
    MAX_MESSAGE,
    URGENT,
    Codec,
    Message,
    Payload,
    Pieces,
    check_payload,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    Buffer = bytes | bytearray | memoryview
    Rest = deque[memoryview]
    """What is still to be sent of a large payload; never empty."""

GREETING, BATCH, OPEN, CHUNK = 1, 2, 3, 4

INLINE = 32 * 1024
"""Payloads up to this many bytes travel inside a BATCH; copying them is cheaper than a frame."""

MAX_CHUNK = 4 * 1024 * 1024
"""The most bytes that a peer may put into one CHUNK."""

HEADER = struct.Struct("!IBBH")
_LIMITS = {
    GREETING: MAX_GREETING,
    # The writer stops adding at 64 KiB, so one largest message may still follow.
    BATCH: MAX_MESSAGE + 128 * 1024,
    OPEN: MAX_MESSAGE + 64,
    CHUNK: MAX_CHUNK,
}
_ZEROS = memoryview(bytes(MAX_CHUNK))
_BATCH_BYTES = 64 * 1024
_BATCH_MESSAGES = 4096
_VIEWS = 256  # in one frame; a system takes 1024 buffers in one write


def greeting_frame(body: bytes) -> bytes:
    """One whole frame of the greeting."""
    if len(body) > MAX_GREETING:
        raise LocalProtocolError(f"greeting of {len(body)} bytes; {MAX_GREETING} at most")
    return HEADER.pack(len(body), GREETING, 0, 0) + body


class Outbox:
    """What waits to be sent, in lanes.

    Args:
        codec: the message types of this channel.
        chunk: bytes of a large payload in one frame.
    """

    def __init__(self, codec: Codec, chunk: int) -> None:
        self._codec = codec
        self._chunk = min(chunk, MAX_CHUNK)
        # An entry: encoded messages, how many, and the rest of the one's large payload if any.
        self._lanes: list[deque[tuple[bytes, int, Rest | None]]] = [deque() for _ in range(LANES)]
        self._rest: list[Rest | None] = [None] * LANES
        self._turn = 0
        self.pending = 0
        """Bytes that wait."""

    def push(self, batch: Sequence[tuple[Message, Payload]]) -> None:
        """Add a batch; all of it or, where something is wrong with one message, nothing.

        Raises:
            LocalProtocolError: a message that is not of this channel, or too large, or whose
                payload is not bytes-like or too large for its type.
        """
        if 0 < len(batch) <= _BATCH_MESSAGES:
            together = self._codec.encode_alike(batch, INLINE)
            if together is not None:
                self._lanes[batch[0][0].lane].append((together, len(batch), None))
                self.pending += len(together)
                return
        ready = [(message.lane, *self._encoded(message, payload)) for message, payload in batch]
        for lane, encoded, rest in ready:
            self._lanes[lane].append((encoded, 1, rest))
            self.pending += len(encoded) + (sum(map(len, rest)) if rest is not None else 0)

    def _encoded(self, message: Message, payload: Payload) -> tuple[bytes, Rest | None]:
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

    def pull(self) -> list[Buffer]:
        """The next buffers to write, one after the other; empty if nothing waits.

        At most one frame of each lane besides everything urgent, so that whoever comes meanwhile
        is asked again soon.
        """
        small: list[bytes] = []
        while self._lanes[URGENT] or self._rest[URGENT] is not None:
            views = self._frame(URGENT, small)
            if views:
                return [b"".join(small), *views]
        for step in range(1, LANES):
            lane = 1 + (self._turn + step) % (LANES - 1)
            if self._lanes[lane] or self._rest[lane] is not None:
                views = self._frame(lane, small)
                if views:
                    self._turn = lane - 1
                    return [b"".join(small), *views]
        return [b"".join(small)] if small else []

    def _frame(self, lane: int, small: list[bytes]) -> list[memoryview]:
        """Append one lane's next frame to `small`; of a chunk the header only, then its views."""
        rest = self._rest[lane]
        if rest is None and self._lanes[lane][0][2] is not None:
            encoded, _, rest = self._lanes[lane].popleft()
            self.pending -= len(encoded)
            small += (HEADER.pack(len(encoded), OPEN, lane, 0), encoded)
        if rest is not None:
            views = _cut(rest, self._chunk)
            self._rest[lane] = rest or None
            length = sum(map(len, views))
            self.pending -= length
            small.append(HEADER.pack(length, CHUNK, lane, 0))
            return views
        size, count, parts, queue = 5, 0, [b""], self._lanes[lane]
        while queue and queue[0][2] is None and size < _BATCH_BYTES and count < _BATCH_MESSAGES:
            encoded, messages, _ = queue.popleft()
            parts.append(encoded)
            count += messages
            size += len(encoded)
        self.pending -= size - 5
        # An array of 32-bit length, so that the messages, encoded before, need no second pass.
        parts[0] = HEADER.pack(size, BATCH, lane, 0) + struct.pack("!BI", 0xDD, count)
        small += parts
        return []


def _cut(rest: Rest, most: int) -> list[memoryview]:
    """Take so many bytes from the front, fewer where there are very many pieces."""
    views: list[memoryview] = []
    while rest and most and len(views) < _VIEWS:
        view = rest.popleft()
        if len(view) > most:
            rest.appendleft(view[most:])
            view = view[:most]
        views.append(view)
        most -= len(view)
    return views


class Inbox:
    """Frames out of whatever pieces the stream delivers.

    Args:
        codec: the message types of this channel.
        greetings: how many frames of the greeting come first. The last one may be followed
            directly by messages, in the same piece.
    """

    def __init__(self, codec: Codec, greetings: int = 0) -> None:
        self._codec = codec
        self._greetings = greetings
        self._partial = bytearray()
        self._open: list[_Opened | None] = [None] * LANES
        self._sink: memoryview | None = None
        self._sink_lane = 0
        self.greeting: bytes | None = None
        """The last greeting's body, until somebody takes it."""
        self.early: list[tuple[Message, Payload]] = []
        """Messages that came with the last greeting; kept here by whoever read that."""

    @property
    def clean(self) -> bool:
        """Nothing is half received: the stream may end here."""
        return not self._partial and self._sink is None and not any(self._open)

    @property
    def sink(self) -> memoryview | None:
        """Where the next bytes of the stream belong, if that is known; then call `filled`."""
        return self._sink

    def filled(self, count: int) -> list[tuple[Message, Payload]]:
        """Bytes have been put into the sink; returns what they complete."""
        out: list[tuple[Message, Payload]] = []
        self._advance(count, out)
        return out

    def _advance(self, count: int, out: list[tuple[Message, Payload]]) -> None:
        sink = self._sink
        assert sink is not None
        self._sink = sink[count:] if count < len(sink) else None
        if self._sink is None:
            self._end_of_chunk(out)

    def feed(self, data: Buffer) -> list[tuple[Message, Payload]]:
        """The messages that these bytes complete, in order.

        Raises:
            RemoteProtocolError: what came breaks a rule; the channel must be closed.
        """
        out: list[tuple[Message, Payload]] = []
        view = memoryview(data)
        while len(view):
            if self._sink is not None:
                view = self._fill(view, out)
            elif self._partial:
                view = self._complete(view, out)
            elif len(view) < HEADER.size:
                self._partial += view
                break
            else:
                view = self._whole(view, out)
        return out

    def _fill(self, view: memoryview, out: list[tuple[Message, Payload]]) -> memoryview:
        """Bytes of a chunk go straight to the payload that they belong to."""
        sink = self._sink
        assert sink is not None
        n = min(len(sink), len(view))
        sink[:n] = view[:n]
        self._advance(n, out)
        return view[n:]

    def _complete(self, view: memoryview, out: list[tuple[Message, Payload]]) -> memoryview:
        """A frame that came in pieces."""
        need = HEADER.size
        if len(self._partial) >= HEADER.size:
            need += HEADER.unpack_from(self._partial)[0]
        take = need - len(self._partial)
        self._partial += view[:take]
        view = view[take:]
        if len(self._partial) == HEADER.size:
            length, kind, lane, zero = HEADER.unpack(self._partial)
            self._check(length, kind, lane, zero)
            if kind == CHUNK:
                self._partial = bytearray()
                self._begin_chunk(length, lane)
                return view
            if length:
                return view
        elif len(self._partial) < need:
            return view
        frame, self._partial = self._partial, bytearray()
        _, kind, lane, _ = HEADER.unpack_from(frame)
        self._body(kind, lane, memoryview(frame)[HEADER.size :], out)
        return view

    def _whole(self, view: memoryview, out: list[tuple[Message, Payload]]) -> memoryview:
        """The common case: the header is at hand, and mostly the body."""
        length, kind, lane, zero = HEADER.unpack_from(view)
        self._check(length, kind, lane, zero)
        if kind == CHUNK:
            self._begin_chunk(length, lane)
            return view[HEADER.size :]
        end = HEADER.size + length
        if len(view) < end:
            self._partial += view
            return view[:0]
        self._body(kind, lane, view[HEADER.size : end], out)
        return view[end:]

    def _check(self, length: int, kind: int, lane: int, zero: int) -> None:
        if kind not in _LIMITS or zero or lane >= LANES:
            raise RemoteProtocolError(f"the peer sent a frame of unknown kind {kind}, lane {lane}")
        if length > _LIMITS[kind]:
            raise RemoteProtocolError(
                f"the peer sent a frame of kind {kind} with {length} bytes; {_LIMITS[kind]} at most"
            )
        if (kind == GREETING) is not (self._greetings > 0):
            state = "not over" if self._greetings else "over"
            raise RemoteProtocolError(f"the peer sent a frame of kind {kind}, greeting {state}")

    def _body(
        self, kind: int, lane: int, body: memoryview, out: list[tuple[Message, Payload]]
    ) -> None:
        if kind == GREETING:
            if self.greeting is not None:
                raise RemoteProtocolError("the peer did not wait for an answer to its greeting")
            self.greeting = bytes(body)
            self._greetings -= 1
            return
        if self._open[lane] is not None:
            raise RemoteProtocolError(f"the peer left a payload of lane {lane} unfinished")
        if kind == BATCH:
            pairs = self._codec.decode_batch(body)
            for message, _ in pairs:
                if message.lane != lane:
                    raise _strayed(message, lane)
            out += pairs
            return
        message, size = self._codec.decode_opened(body)
        if message.lane != lane:
            raise _strayed(message, lane)
        if size <= INLINE:
            raise RemoteProtocolError(f"the peer announced a large payload of {size} bytes")
        self._open[lane] = _Opened(message, size)

    def _begin_chunk(self, length: int, lane: int) -> None:
        opened = self._open[lane]
        if opened is None:
            raise RemoteProtocolError(f"the peer sent a piece of no payload in lane {lane}")
        if not 0 < length <= opened.lacks:
            raise RemoteProtocolError(
                f"the peer sent {length} bytes of a payload that lacks {opened.lacks}"
            )
        self._sink = opened.grow(length)
        self._sink_lane = lane

    def _end_of_chunk(self, out: list[tuple[Message, Payload]]) -> None:
        opened = self._open[self._sink_lane]
        assert opened is not None
        if not opened.lacks:
            self._open[self._sink_lane] = None
            out.append((opened.message, opened.buffer))


class _Opened:
    """A large payload that is on its way."""

    __slots__ = ("_have", "_size", "buffer", "message")

    def __init__(self, message: Message, size: int) -> None:
        self.message = message
        self.buffer: bytearray | memoryview = room(size) if size >= LARGE else bytearray()
        self._size = size
        self._have = 0

    @property
    def lacks(self) -> int:
        return self._size - self._have

    def grow(self, length: int) -> memoryview:
        """Where the next bytes belong."""
        have = self._have
        self._have += length
        if isinstance(self.buffer, memoryview):
            return self.buffer[have : self._have]
        try:
            self.buffer += _ZEROS[:length]
        except BufferError:  # an old view is still held somewhere, as by a traceback
            self.buffer = self.buffer + _ZEROS[:length]
        return memoryview(self.buffer)[have:]


def _strayed(message: Message, lane: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"the peer sent {type(message).__name__} in lane {lane}, not {message.lane}"
    )
