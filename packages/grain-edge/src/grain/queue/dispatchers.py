"""Dispatchers of a queue: each takes the next number, and the last one is in charge.

Two that believe to be in charge do no harm: receipts decide what runs. So a dispatcher that was
stopped for a while, or sees an old list, needs no lock; it looks now and then and stops.
"""

from __future__ import annotations

import os
import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from grain.queue.records import Dispatcher

if TYPE_CHECKING:
    from grain.queue.files import WholeFiles

SIGN_EVERY = 30.0
"""Seconds between two signs of life of a dispatcher."""

SILENT_AFTER = 300.0
"""Seconds without a sign of life after which a dispatcher on another host is taken for dead."""

_KEPT = 10  # earlier dispatchers whose files stay


def this_process() -> Dispatcher:
    """Return this process as a dispatcher."""
    pid = os.getpid()
    return Dispatcher(
        host=platform.node(), boot=boot_id(), pid=pid, pid_began=began(pid) or 0, at=time.time()
    )


def boot_id() -> str:
    """Return the id of the kernel's boot; "" if there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def began(pid: int) -> int | None:
    """Return when a process began, in clock ticks since the boot; None if it does not run."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name, in parentheses, may have spaces and parentheses itself.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


class Dispatchers:
    """The dispatchers of a queue."""

    def __init__(self, files: WholeFiles) -> None:
        self._files = files

    def last(self) -> tuple[int, Dispatcher] | None:
        """Return the dispatcher in charge and its number; None if there was none.

        It may not run any more, see `is_alive`.

        Raises:
            OSError: it cannot be read.
        """
        # The list may be old, so we go on from there.
        number = max(self._numbers(), default=0)
        found = self._read(number)
        while following := self._read(number + 1):
            number, found = number + 1, following
        return None if found is None else (number, found)

    def take_charge(self, me: Dispatcher) -> int:
        """Become the dispatcher in charge, and return its number.

        Raises:
            CannotWrite: the dispatcher in charge is still the one before.
        """
        # Whoever made the format may not have synced it: after a crash, another one would have
        # another mission.
        self._files.sync("", "format")
        content = msgspec.json.encode(me)
        numbers = self._numbers()
        number = max(numbers, default=0) + 1
        while not self._files.link_whole(f"dispatchers/{number}", content):
            number += 1
        for earlier in numbers:
            if earlier < number - _KEPT:
                for name in (f"dispatchers/{earlier}.alive", f"dispatchers/{earlier}"):
                    with suppress(OSError):
                        self._files.disk.remove(name)
        self.give_sign(number)
        return number

    def is_there(self, number: int, me: Dispatcher) -> bool:
        """Return True if a dispatcher still has its number in the folder of the queue.

        Raises:
            OSError: it cannot be read.
        """
        return self._read(number) == me

    def is_in_charge(self, number: int) -> bool:
        """Return True if no dispatcher after a number is seen; it may be 60 seconds old."""
        return not self._files.disk.exists(f"dispatchers/{number + 1}")

    def give_sign(self, number: int) -> None:
        """Show that a dispatcher is alive, to be called every `SIGN_EVERY` seconds.

        On a full disk nothing happens.
        """
        name = f"dispatchers/{number}.alive"
        with suppress(OSError):
            try:
                self._files.disk.touch(name)
            except FileNotFoundError:
                self._files.disk.create(name, b"")

    def is_alive(self, number: int, dispatcher: Dispatcher, here: Dispatcher) -> bool:
        """Return True if a dispatcher runs, as far as can be seen from here.

        Args:
            number: the dispatcher's.
            dispatcher: its file.
            here: this process.
        """
        if dispatcher.host == here.host and dispatcher.boot:
            # Another boot of this host has ended all processes of the one before.
            return dispatcher.boot == here.boot and began(dispatcher.pid) == dispatcher.pid_began
        for name in (f"dispatchers/{number}.alive", f"dispatchers/{number}"):
            with suppress(OSError):
                return self._files.disk.age(name) < SILENT_AFTER
        return False

    def _numbers(self) -> list[int]:
        return [int(name) for name in self._files.disk.list("dispatchers") if name.isdigit()]

    def _read(self, number: int) -> Dispatcher | None:
        content = self._files.read(f"dispatchers/{number}") if number else None
        return None if content is None else msgspec.json.decode(content, type=Dispatcher)
