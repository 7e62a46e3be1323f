"""Frames to messages, out of whatever pieces come. Their layout: `grain.edge.framing.frames`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.edge.buffers import LARGE, room
from grain.edge.errors import RemoteProtocolError
from grain.edge.framing.frames import BATCH, CHUNK, GREETING, HEADER, INLINE, LIMITS, MAX_CHUNK
from grain.edge.messages import LANES, Codec, Message, Payload

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

_ZEROS = memoryview(bytes(MAX_CHUNK))


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
        if kind not in LIMITS or zero or lane >= LANES:
            raise RemoteProtocolError(f"the peer sent a frame of unknown kind {kind}, lane {lane}")
        if length > LIMITS[kind]:
            raise RemoteProtocolError(
                f"the peer sent a frame of kind {kind} with {length} bytes; {LIMITS[kind]} at most"
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
