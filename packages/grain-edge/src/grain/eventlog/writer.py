"""`LogWriter`: takes the lines of a log and has a thread write them.

Theory of operation. A caller only appends lines to a queue in memory: no file is touched and
nothing is formatted in the event loop. The thread makes JSON of all lines that are there and writes
them together. A caller that collects lines first asks the thread to remind it in a second. So a
slow disk costs nothing, and a hanging disk, such as an NFS mount whose server is away, stops only
the thread. The queue is bounded: beyond that, lines are dropped and counted.

Times are those of the monotonic clock, moved to Unix' epoch. So within a log they never go back;
where the clock of the machine is set, by more than a second, a line `ClockChanged` says by how
much, and the times after it follow the new clock.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from grain.eventlog.files import LogFiles
from grain.eventlog.names import folder_name, parse_label
from grain.eventlog.schema import VERSION, AnyLine, ClockChanged, LogEnded, LogStarted, encode
from grain.eventlog.store import KEEP, KEEP_GB, TOUCHED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.eventlog.store import LogStore

MOST_LINES = 50_000
"""Lines that wait to be written; more are dropped."""

PART_SIZE = 64 * 1024**2
"""Bytes of one file."""

_DELAY = 1.0  # seconds after which those are reminded who asked for it
_BATCH = 500  # lines that are encoded at a time: other threads wait for a fraction of a millisecond
_RETRY = 10.0  # seconds between two attempts to write what could not be written
_SYNC = 10.0  # seconds between two requests to store what was written
_JUMP = 1.0  # seconds by which the clock has to be off to count as set
_COMMAND = 4000  # characters of a command line

Status = Literal["done", "failed", "interrupted"]


def first_line(
    id: str,  # noqa: A002 - its name
    name: str,
    *,
    grain: str,
    label: str = "",
    address: str = "",
    lasting: str = "",
    generation: int = 0,
) -> LogStarted:
    """Return the first line of a log that this process is about to write.

    Args:
        address: where others join; empty for nowhere.
        lasting: the lasting mission that this process serves, if it serves one.
        generation: its number among the processes of that mission.
    """
    command: list[str] = []
    room = _COMMAND
    for word in sys.orig_argv:
        if room <= 0:
            break
        command.append(word[:room])
        room -= len(word)
    try:
        directory = str(Path.cwd())
    except OSError:  # it was removed
        directory = ""
    return LogStarted(
        time=time.time(),
        version=VERSION,
        grain=grain,
        python=platform.python_version(),
        id=id,
        name=name,
        label=label,
        command=tuple(map(_printable, command)),
        directory=_printable(directory),
        host=socket.gethostname(),
        pid=os.getpid(),
        address=address,
        lasting=lasting,
        generation=generation,
    )


def _printable(text: str) -> str:
    """Return a text without the halves of characters that stand for bytes which are not UTF-8."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


class LogWriter:
    """The writer of one log, from its first line to its last.

    All but `close` is for one thread, that of the event loop.

    Args:
        on_trouble: called by the thread, once, with a sentence: the log cannot be written.
        call_soon: called by the thread with a function that the thread of `write` is to call.
        keep: seconds for which logs of the store are kept, see `LogStore.remove_old`.
        gigabytes: how much of them is kept. This log keeps half of that at most.
        part_size: bytes of one file.
        clocks: the clock of Unix' epoch, and a clock that does not go back.

    Attributes:
        lost: lines that were dropped.
    """

    def __init__(
        self,
        store: LogStore,
        header: LogStarted,
        *,
        on_trouble: Callable[[str], object] = lambda _: None,
        call_soon: Callable[[Callable[[], None]], object] = lambda _: None,
        keep: float = KEEP,
        gigabytes: float = KEEP_GB,
        part_size: int = PART_SIZE,
        clocks: tuple[Callable[[], float], Callable[[], float]] = (time.time, time.monotonic),
    ) -> None:
        _, number = parse_label(header.label) or ("", 0)
        self.folder: Path = store.folder / folder_name(header.time, header.name, header.id, number)
        self.id = header.id
        self.lost = 0
        self.written = False
        self._store = store
        self._header = header
        self._on_trouble = on_trouble
        self._call_soon = call_soon
        self._reminder: Callable[[], None] | None = None
        self._keep = keep
        self._gigabytes = gigabytes
        most = int(gigabytes * 1e9 / 2)
        self._files = LogFiles(
            self.folder, header, part_size=min(part_size, max(most // 8, 1)), most=most
        )
        self._wall, self._monotonic = clocks
        self._offset = header.time - self._monotonic()
        self._lines: deque[AnyLine] = deque()
        self._encoder = msgspec.json.Encoder()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._end: tuple[Status, str] | None = None
        # Only the thread uses these.
        self._parts_seen = 0
        self._synced = 0.0
        self._failing = False
        self._reported = False
        self._thread = threading.Thread(target=self._run, name="grain event log", daemon=True)
        self._thread.start()
        self._wake.set()  # the first line is written though no other may come for long

    def now(self) -> float:
        """Return the time for a line."""
        return self._offset + self._monotonic()

    def time_of(self, reading: float) -> float:
        """Return the time for a line, of a reading of the clock that does not go back."""
        return self._offset + reading

    def clock_is_off(self) -> bool:
        """Return True if the clock of the machine was set; a `ClockChanged` is written next."""
        return abs(self._wall() - self.now()) > _JUMP

    def remind(self, flush: Callable[[], None]) -> None:
        """Have a function called in about a second, by ``call_soon``."""
        self._reminder = flush
        self._wake.set()

    def write(self, lines: Sequence[AnyLine]) -> None:
        """Take lines, which are written soon: let them wait for each other before."""
        taken = lines[: max(0, MOST_LINES - len(self._lines))]
        self.lost += len(lines) - len(taken)
        self._lines.extend(taken)
        self._check_clock()
        self._wake.set()
        if not self._failing:
            self._hurry.set()

    def _check_clock(self) -> None:
        """Follow the clock of the machine if it was set."""
        by = self._wall() - self.now()
        if abs(by) > _JUMP:
            self._offset += by
            self._lines.append(ClockChanged(time=self.now(), by=by))

    def close(self, status: Status, message: str = "", *, patience: float = 5.0) -> None:
        """End the log, and wait until it is written. Blocks.

        Args:
            patience: seconds; a disk that hangs for longer gets nothing more.
        """
        self._end = (status, message)
        self._wake.set()
        self._hurry.set()
        self._thread.join(patience)

    # ---- the thread

    def _run(self) -> None:
        while True:
            if not self._failing and not self._wake.wait(TOUCHED):
                with suppress(OSError):
                    self._files.touch()
                continue
            self._wake.clear()
            hurried = self._end is not None
            if not hurried:
                hurried = self._hurry.wait(_RETRY if self._failing else _DELAY)
            self._hurry.clear()
            if self._reminder is not None:
                self._remind(hurried=hurried)
            end = self._end  # before the queue is looked at: what was written before `close` goes
            self._write_waiting()
            if end is not None:
                self._finish(*end)
                return

    def _remind(self, *, hurried: bool) -> None:
        """Call the function that wants to be called, once it has waited for long enough."""
        if hurried:
            self._wake.set()  # after another round
            return
        reminder, self._reminder = self._reminder, None
        if reminder is not None:
            self._call_soon(reminder)

    def _write_waiting(self) -> None:
        """Write what is in the queue, as far as the disk lets us."""
        try:
            self._files.write(b"")  # the rest of the last time, or the first line of all
            self.written = True
            while self._lines:
                count = min(len(self._lines), _BATCH)
                self._files.write(self._encoded([self._lines.popleft() for _ in range(count)]))
        except OSError as error:
            self._fail(error)
            return
        self._failing = False
        self._look_after()

    def _encoded(self, lines: list[AnyLine]) -> bytes:
        try:
            return self._encoder.encode_lines(lines)
        except (msgspec.MsgspecError, TypeError, ValueError):
            # One of them has half a character, or a value that JSON has not.
            parts = []
            for line in lines:
                try:
                    parts.append(encode(line))
                except (msgspec.MsgspecError, TypeError, ValueError):
                    self.lost += 1
            return b"".join(parts)

    def _fail(self, error: OSError) -> None:
        self._failing = True
        if not self._reported:
            self._reported = True
            self._on_trouble(
                f"the event log {self.folder} cannot be written ({error.strerror}). What it is "
                "about goes on, and the log is tried again. To have it elsewhere, or not at all, "
                "set head.event_log.folder or head.event_log.enabled in grain.toml"
            )

    def _look_after(self) -> None:
        """Have stored what was written, and remove old logs when a part has begun."""
        if self._files.part >= self._parts_seen:
            self._parts_seen = self._files.part + 1
            now = self._files.modified()
            if now is not None:
                with suppress(OSError):
                    if self._files.part > 0 or self._store.is_neglected(now):
                        self._store.remove_old(
                            seconds=self._keep, gigabytes=self._gigabytes, now=now
                        )
        if self._monotonic() - self._synced > _SYNC:
            self._synced = self._monotonic()
            with suppress(OSError):
                self._files.sync()

    def _finish(self, status: Status, message: str) -> None:
        end = LogEnded(time=self.now(), status=status, message=message, lost=self.lost)
        with suppress(OSError):
            self._files.write(self._encoded([end]))
        self._files.close()
