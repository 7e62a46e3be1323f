"""What travels over a stream: frames. `Outbox` makes them, `Inbox` reads them, both without I/O.

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
when it is written to (`grain.edge.buffers`): so a size that a peer merely announces costs nothing,
and nobody waits while a gigabyte is cleared.
"""

from __future__ import annotations

import struct

from grain.edge.errors import LocalProtocolError
from grain.edge.messages import MAX_GREETING, MAX_MESSAGE

GREETING, BATCH, OPEN, CHUNK = 1, 2, 3, 4

INLINE = 32 * 1024
"""Payloads up to this many bytes travel inside a BATCH; copying them is cheaper than a frame."""

MAX_CHUNK = 4 * 1024 * 1024
"""The most bytes that a peer may put into one CHUNK."""

HEADER = struct.Struct("!IBBH")
LIMITS = {
    GREETING: MAX_GREETING,
    # The writer stops adding at 64 KiB, so one largest message may still follow.
    BATCH: MAX_MESSAGE + 128 * 1024,
    OPEN: MAX_MESSAGE + 64,
    CHUNK: MAX_CHUNK,
}
"""The most bytes in the body of each kind."""


def greeting_frame(body: bytes) -> bytes:
    """One whole frame of the greeting."""
    if len(body) > MAX_GREETING:
        raise LocalProtocolError(f"greeting of {len(body)} bytes; {MAX_GREETING} at most")
    return HEADER.pack(len(body), GREETING, 0, 0) + body
