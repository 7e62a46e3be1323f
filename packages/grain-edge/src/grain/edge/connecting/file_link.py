"""Reaching a head through the shared filesystem alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from grain.edge.connecting.greeting import introduce
from grain.edge.connecting.mailbox import Slot
from grain.edge.connecting.peer import Opened
from grain.edge.transports.file_log import FIRST_SEGMENT
from grain.edge.transports.file_stream import FILES_HEARTBEAT, FileStream

if TYPE_CHECKING:
    from grain.edge.meeting.meeting import Meeting
    from grain.edge.messages import Codec, Hello


async def dial_files(meeting: Meeting, hello: Hello, codec: Codec) -> Opened:
    """Leave logs in the mailbox, and wait for the head to answer in them.

    Both first segments are made here, so that neither side ever looks for a missing name.
    Cancellation removes everything.

    Raises:
        MeetingError: the logs could not be made.
        EdgeError, trio.BrokenResourceError: refused, or the head is gone.
    """
    slot = Slot(meeting, hello.epoch)
    empty = bytes(FIRST_SEGMENT)
    stream = FileStream(slot.folder, "up", "down", meeting.disk, slot.ring)
    try:
        await meeting.disk.run(slot.folder.path, slot.make, {"up.0": empty, "down.0": empty})
        answer, decoder = await introduce(stream, hello, codec)
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return Opened(
        stream, answer, decoder, "files", slot.folder.path, FILES_HEARTBEAT, lambda: stream.heard_at
    )
