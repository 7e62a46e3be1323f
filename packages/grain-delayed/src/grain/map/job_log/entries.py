r"""The result log: one line for each job that ended, in the format of GNU parallel's joblog.

A header, then nine columns separated by tabs: Seq, Host, Starttime (seconds since 1970),
JobRuntime (seconds), Send (always 0), Receive (bytes of standard output), Exitval, Signal,
Command. Newlines in a command are written as null characters, which no command contains. A line
without its newline at the end of the file was torn by a crash, and counts as not written.
"""

from __future__ import annotations

import os
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from grain.map.errors import ResultLogError

HEADER = b"Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"
# Exitval of a job that its time limit ended, or whose end is unknown.
UNKNOWN = -1


class JobLogEntry(NamedTuple):
    """The entry of one job that has ended.

    Attributes:
        seq: its number, from 1.
        start: its start, in seconds since 1970.
        runtime: its duration in seconds.
        received: the number of bytes of its standard output that were captured.
        exitval: its exit code, `UNKNOWN` if it has none.
        signal: the number of the signal that ended it, 0 if none did.
    """

    seq: int
    host: str
    start: float
    runtime: float
    received: int
    exitval: int
    signal: int
    command: str

    @property
    def failed(self) -> bool:
        """True if the job did not succeed."""
        return bool(self.exitval or self.signal)

    def line(self) -> bytes:
        """Return the entry as a line."""
        begin = (
            f"{self.seq}\t{self.host}\t{self.start:.3f}\t{self.runtime:10.3f}\t0\t"
            f"{self.received}\t{self.exitval}\t{self.signal}\t"
        )
        return begin.encode() + os.fsencode(self.command).replace(b"\n", b"\0") + b"\n"


def read_line(line: bytes) -> JobLogEntry | None:
    """Return the entry of a complete line; None for a header.

    Raises:
        ResultLogError: the line is neither.
    """
    if line.startswith(b"Seq\t"):
        return None
    columns = line.removesuffix(b"\n").split(b"\t", 8)
    try:
        seq, host, start, runtime, _, received, exitval, signal, command = columns
        return JobLogEntry(
            int(seq),
            os.fsdecode(host),
            float(start),
            float(runtime),
            int(received),
            int(exitval),
            int(signal),
            os.fsdecode(command.replace(b"\0", b"\n")),
        )
    except ValueError:
        raise ResultLogError(f"no line of a result log: {os.fsdecode(line)[:200]!r}") from None


class Past(Enum):
    """The state of a job by the log."""

    NEVER_ENDED = "never ended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class History:
    """The ends of jobs in an earlier run, as its result log has them.

    A job is identified by its number, and must then have the same command; or by its command only,
    whatever its number. Of several entries for one job the last one counts.
    """

    def __init__(self, *, by_command: bool = False) -> None:
        self._by_command = by_command
        # By number or digest: the digest of the command, and True for a failure. A digest instead
        # of the command, as there may be a million jobs.
        self._ended: dict[int, tuple[int, bool]] = {}

    def __len__(self) -> int:
        return len(self._ended)

    def add(self, entry: JobLogEntry) -> None:
        """Add an entry."""
        digest = _digest(entry.command)
        self._ended[digest if self._by_command else entry.seq] = digest, entry.failed

    def past(self, seq: int, command: str) -> Past:
        """Return the state of a job.

        Raises:
            ResultLogError: the job of this number had another command.
        """
        digest = _digest(command)
        entry = self._ended.get(digest if self._by_command else seq)
        if entry is None:
            return Past.NEVER_ENDED
        if entry[0] != digest:
            raise ResultLogError(
                f"job {seq} is {command[:200]!r} now, and was another command when the result log "
                "was written: the template or the inputs have changed. If inputs were only added, "
                "removed or put in another order, --by-command identifies the jobs by their "
                "commands; else use another --joblog"
            )
        return Past.FAILED if entry[1] else Past.SUCCEEDED


def _digest(command: str) -> int:
    return int.from_bytes(blake2b(os.fsencode(command), digest_size=8).digest(), "big")
