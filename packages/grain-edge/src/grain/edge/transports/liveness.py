"""Signs of life of a peer that sends nothing: of its process, or of its host's kernel.

Heartbeats come from a peer's event loop. A loop that does not run, as in a long computation, under
a debugger or after Ctrl-Z, sends none, and yet its process is there and will go on. Two others
answer in its place:

- the process table, for a process of this host: its pid with its start time, as the kernel uses
  pids again;
- the kernel that holds the connection: over a Unix socket the connection ends with the process;
  over TCP the peer's kernel acknowledges what we send, also what its process does not read.
"""

from __future__ import annotations

import socket as sockets
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.socket import SocketType

    from grain.files.processes import PeerProcess

ANSWERS = 60.0
"""Seconds since the last acknowledgement after which a kernel counts as cut off."""

_LOOK = 0.02  # seconds between two looks at a process that is about to end
_PROBES = 2  # unanswered probes of a full connection; the kernel makes the pauses longer and longer
# The beginning of `struct tcp_info` in linux/tcp.h: eight bytes, the fourth being tcpi_probes; then
# numbers of 32 bits, the fifth being tcpi_unacked and the thirteenth tcpi_last_ack_recv, in
# milliseconds.
_TCP_INFO = struct.Struct("8B13I")


def stopped_words(pid: int, host: str) -> str:
    """Return the end of a sentence on a process that does not run."""
    return (
        f"(process {pid} on {host}) is stopped, as by Ctrl-Z or `kill -STOP`; `kill -CONT {pid}` "
        "there lets it go on"
    )


def acknowledges(socket: SocketType) -> bool:
    """Return True if the kernel at the other end of a TCP connection answers ours.

    We send signs of life, which it acknowledges. When its process has not read for so long that it
    takes no more, our kernel sends probes instead, at pauses of up to two minutes.
    """
    try:
        raw = socket.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_INFO, _TCP_INFO.size)
        fields = _TCP_INFO.unpack(raw)
    except (OSError, struct.error):
        return False
    probes, unacknowledged, answered = fields[3], fields[8 + 4], fields[8 + 12] / 1000
    return answered < ANSWERS or (not unacknowledged and probes <= _PROBES)


class Presence:
    """A peer that may be silent for a while, since its process or its kernel is there.

    Args:
        held_open: returns True if its kernel holds the connection open; None if no kernel does.
        patience: seconds for which it may be silent.
    """

    def __init__(
        self,
        process: PeerProcess | None,
        held_open: Callable[[], bool] | None = None,
        patience: float = 0.0,
        host: str = "",
    ) -> None:
        self._process = process
        self._host = host
        self._held_open = held_open
        self._patience = patience

    def stopped(self) -> str:
        """Return the end of a sentence if the peer's process is stopped, as seen from here."""
        if self._process is None or not self._process.stopped:
            return ""
        return stopped_words(self._process.pid, self._host)

    def excuses(self, silent: float) -> bool:
        """Return True if the peer is there, although it has been silent for so many seconds."""
        if silent >= self._patience:
            return False
        if self._process is not None:
            return self._process.alive
        return self._held_open is not None and self._held_open()
