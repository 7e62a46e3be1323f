"""Messages to frames: what waits to be sent, in lanes. Their layout: `grain.edge.framing.frames`."""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

from grain.edge.errors import LocalProtocolError
from grain.edge.framing.frames import BATCH, CHUNK, HEADER, INLINE, MAX_CHUNK, OPEN
from grain.edge.messages import LANES, URGENT, Codec, Message, Payload, Pieces, check_payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    Buffer = bytes | bytearray | memoryview
    Rest = deque[memoryview]
    """What is still to be sent of a large payload; never empty."""

_BATCH_BYTES = 64 * 1024
_BATCH_MESSAGES = 4096
_VIEWS = 256  # in one frame; a system takes 1024 buffers in one write


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
