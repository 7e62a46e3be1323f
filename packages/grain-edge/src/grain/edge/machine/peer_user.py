"""The user at the other end of a socket within this kernel: SO_PEERCRED in unix(7).

Any user may connect to a name without a file ("abstract"), and take the name when its owner has
died. So both ends ask the kernel before they read or send anything.

It imports the standard library only: programs that start without Grain on their search path load
this file as well, see `grain.worker.gang`.
"""

from __future__ import annotations

import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Connected(Protocol):
        """A socket of the standard library or of trio."""

        def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes:
            """Return an option of the socket."""


_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


def peer_of(connected: Connected) -> tuple[int, int]:
    """Return the peer's process and user id, as they were when it connected or listened."""
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid


def is_own(connected: Connected) -> bool:
    """Return True if the peer is a process of this user; False for all others, also root's."""
    return peer_of(connected)[1] == os.geteuid()
