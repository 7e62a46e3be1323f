"""Dispatchers of a queue: each takes the next number, and the last one is in charge.

Two that believe to be in charge do no harm: receipts decide what runs. So a dispatcher that was
stopped for a while, or sees an old list, needs no lock; it looks now and then and stops.

`fate_of` judges whether a process of a dispatcher or a worker still runs.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from grain.files.processes import is_stopped, start_time, this_process
from grain.queue.errors import QueueError
from grain.queue.records import UNREADABLE, Dispatcher, UnmetRequest, encode_record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.files.processes import ProcessIdentity
    from grain.queue.files import WholeFiles
    from grain.queue.records import ProcessRecord

SIGN_EVERY = 30.0
"""Seconds between two signs of life of a dispatcher."""

SILENT_AFTER = 300.0
"""Seconds without a sign of life after which a dispatcher that cannot be seen from here is taken
for dead."""

QUIET_AFTER = 100.0
"""Seconds without a sign of life after which a process that watches a dispatcher starts another
one: three signs are missing, or those that came are seen a minute late, as on NFS. The other one
ends if it lives after all."""

ROUSE = signal.SIGCONT
"""The signal by which a dispatcher looks at its queue at once."""

_KEPT = 10  # earlier dispatchers whose files stay


Fate = Literal["runs", "gone", "rebooted", "unknown"]
"""The fate of a process, see `fate_of`."""


def fate_of(process: ProcessRecord, here: ProcessIdentity | None = None) -> Fate:
    """Return what is known here about a process of some host.

    Names of hosts repeat, and containers share a kernel. So only a process of the same namespace is
    looked for by its number; and only a host that has the same name and the same machine id is
    taken for the same host after another boot.

    Args:
        process: the process.
        here: the process that looks; by default this one.

    Returns:
        ``"runs"``; ``"gone"``: it has ended; ``"rebooted"``: it ended with an earlier boot of this
        host; ``"unknown"``: this process cannot know.
    """
    # Without these, another process that has got the number since would pass for it.
    if not (process.boot and process.pid_began):
        return "unknown"
    here = here or this_process()
    if process.boot == here.boot:
        # A container numbers its processes by itself: here, the number is that of another one.
        if process.space != here.space:
            return "unknown"
        if start_time(process.pid) == process.pid_began:
            return "runs"
        # Whoever cannot see itself in /proc cannot see others there.
        return "gone" if start_time(here.pid) == here.start else "unknown"
    same = (process.host, process.machine) == (here.host, here.machine) and here.machine
    return "rebooted" if same else "unknown"


def this_dispatcher(address: str = "") -> Dispatcher:
    """Return this process as a dispatcher, whose scheduler is at an address."""
    me = this_process()
    return Dispatcher(
        host=me.host, machine=me.machine, boot=me.boot, space=me.space, pid=me.pid,
        pid_began=me.start, at=time.time(), address=address,
    )  # fmt: skip


class LiveDispatcher(NamedTuple):
    """A dispatcher that is in charge and runs, as far as can be seen.

    Attributes:
        number: its number.
        dispatcher: its file.
        is_here: True if its process can be seen from here; otherwise it has only given a sign of
            life.
    """

    number: int
    dispatcher: Dispatcher
    is_here: bool

    def rouse(self) -> None:
        """Have it look at the queue at once, and not only with its next look, if it is here.

        To any process the signal means to go on, which it does: one of another version loses
        nothing, and nor does another process that has its pid since.
        """
        if self.is_here:
            with suppress(OSError):  # it has just ended, which the next command sees
                os.kill(self.dispatcher.pid, ROUSE)


class Dispatchers:
    """The dispatchers of a queue."""

    def __init__(self, files: WholeFiles) -> None:
        self._files = files

    def last(self) -> tuple[int, Dispatcher] | None:
        """Return the dispatcher in charge and its number; None if there was none.

        It may not run any more, see `alive`.

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
        content = encode_record(me)
        numbers = self._numbers()
        number = max(numbers, default=0) + 1
        # Whoever links a number last is in charge, so two that begin at once need no lock.
        while not self._files.link_whole(f"dispatchers/{number}", content):
            number += 1
        for earlier in numbers:
            # The last ones stay: one that was stopped looks for its own file when it goes on.
            if earlier < number - _KEPT:
                for name in (
                    f"dispatchers/{earlier}.alive",
                    f"dispatchers/{earlier}.gone",
                    f"dispatchers/{earlier}.asked",
                    f"dispatchers/{earlier}.unmet",
                    f"dispatchers/{earlier}",
                ):
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
        self._mark(f"dispatchers/{number}.alive")

    def ask_for_sign(self, number: int) -> None:
        """Note that a process here relies on a dispatcher of another host, see `has_answered`.

        On a full disk nothing happens.
        """
        self._mark(f"dispatchers/{number}.asked")

    def has_answered(self, number: int) -> bool:
        """Return True if a dispatcher has given a sign of life after it was last asked for one.

        Both times are those of the file server, so clocks of hosts may differ.

        Raises:
            OSError: it cannot be read.
        """
        try:
            asked = self._files.disk.age(f"dispatchers/{number}.asked")
        except FileNotFoundError:
            return True  # it has taken charge since
        return self.silence(number) < asked

    def silence(self, number: int) -> float:
        """Return the seconds since a dispatcher gave a sign of life, by the file server's clock.

        Raises:
            OSError: it has given none, or that cannot be read.
        """
        try:
            return self._files.disk.age(f"dispatchers/{number}.alive")
        except FileNotFoundError:
            return self._files.disk.age(f"dispatchers/{number}")

    def _mark(self, name: str) -> None:
        with suppress(OSError):
            try:
                self._files.disk.touch(name)
            except FileNotFoundError:
                self._files.disk.create(name, b"")

    def say_farewell(self, number: int) -> None:
        """Note that a dispatcher has ended, for hosts that cannot see its process.

        On a full disk nothing happens.
        """
        # It only saves others the wait until the dispatcher counts as silent.
        with suppress(OSError):
            self._files.disk.create(f"dispatchers/{number}.gone", b"")

    def note_unmet(self, number: int, unmet: Iterable[UnmetRequest]) -> None:
        """Note all requests that no worker which is here can meet, for commands that list jobs.

        On a full disk nothing happens.
        """
        with suppress(OSError, QueueError):
            self._files.replace(f"dispatchers/{number}.unmet", msgspec.json.encode(list(unmet)))

    def unmet(self) -> list[UnmetRequest]:
        """Return these requests; none if no dispatcher runs, as workers may have come since.

        Raises:
            OSError: they cannot be read.
        """
        last = self.last()
        content = None if last is None else self._files.read(f"dispatchers/{last[0]}.unmet")
        if content is None or self.alive() is None:
            return []
        try:
            return msgspec.json.decode(content, type=list[UnmetRequest])
        except UNREADABLE:  # of another version
            return []

    def alive(self, *, also_stopped: bool = False) -> LiveDispatcher | None:
        """Return the dispatcher in charge; None if there is none that runs.

        One that was stopped, as by Ctrl-Z, takes no jobs and counts as killed: once another one is
        in charge, it ends when it goes on.

        Args:
            also_stopped: True to return that, too.

        Raises:
            OSError: it cannot be read.
        """
        last = self.last()
        if last is None:
            return None
        number, dispatcher = last
        fate = fate_of(dispatcher)
        if fate == "runs" and not also_stopped and is_stopped(dispatcher.pid):
            return None
        # On another host, only its signs of life tell.
        if fate == "runs" or (fate == "unknown" and self._has_given_sign(number)):
            return LiveDispatcher(number, dispatcher, fate == "runs")
        return None

    def is_missing(self) -> bool:
        """Return True if the dispatcher in charge was killed, as far as can be seen, or none began.

        One that a user has ended, or that had nothing left to do, has said farewell.

        Raises:
            OSError: it cannot be read.
        """
        last = self.last()
        if last is None:  # the process was killed that has submitted the first job
            return True
        if self.alive() is not None:
            return False
        return not self._files.disk.exists(f"dispatchers/{last[0]}.gone")

    def _has_given_sign(self, number: int) -> bool:
        if self._files.disk.exists(f"dispatchers/{number}.gone"):
            return False
        with suppress(OSError):
            return self.silence(number) < SILENT_AFTER
        return False

    def _numbers(self) -> list[int]:
        return [int(name) for name in self._files.disk.list("dispatchers") if name.isdigit()]

    def _read(self, number: int) -> Dispatcher | None:
        content = self._files.read(f"dispatchers/{number}") if number else None
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=Dispatcher)
        except UNREADABLE:
            # It has the number, and so it counts. Another version of Grain may have written it.
            return Dispatcher(host="an unknown host", at=0.0)
