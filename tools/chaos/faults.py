"""Faults, carried out: each takes a `Fault` of the schedule and returns the `Event` that it was."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import trio

from tools.chaos.judge import Event
from tools.chaos.processes import Marked, marked, program_below

if TYPE_CHECKING:
    from pathlib import Path

    from tools.chaos.places import Place
    from tools.chaos.schedule import Fault

_SIGNALS = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "stop": signal.SIGSTOP}


class Faults:
    """The faults of one run.

    Args:
        folder: of the run.
        place: where it takes place.

    Attributes:
        events: the faults that have happened.
        missed: how many had no victim at their time.
        bridge_is_back: set while the server of the bridge may be started again.
    """

    def __init__(self, folder: Path, place: Place) -> None:
        self._folder = folder
        self._place = place
        self._stopped: set[int] = set()
        self._cut: set[str] = set()
        self.events: list[Event] = []
        self.missed = 0
        self.bridge_is_back = trio.Event()
        self.bridge_is_back.set()

    async def strike(self, fault: Fault) -> None:
        """Carry out a fault, and undo it when its time is over."""
        if fault.kind in _SIGNALS:
            await self._signal(fault)
        elif fault.kind == "cut":
            await self._cut_off(fault)
        elif fault.kind == "reset":
            at = time.monotonic()
            await trio.to_thread.run_sync(self._place.reset, fault.target)
            self._enter(fault, "", None, at)
        elif fault.kind == "fill":
            await self._fill(fault)
        elif fault.kind == "away":
            await self._away(fault)
        elif fault.kind == "busy":
            await self._busy(fault)
        else:
            at = time.monotonic()
            await trio.to_thread.run_sync(self._purge)
            self._enter(fault, "", None, at)

    def enter(self, event: Event, planned: float) -> None:
        """Note what has happened.

        Args:
            event: that.
            planned: seconds after the beginning at which it was to happen.
        """
        self.events.append(event)
        with (self._folder / "faults").open("a") as log:
            log.write(json.dumps({"planned": planned, **vars(event)}) + "\n")

    def _enter(self, fault: Fault, owner: str, task: tuple[str, int] | None, at: float) -> None:
        event = Event(fault.kind, fault.target, owner, task, at, time.monotonic())
        self.enter(event, fault.at)

    async def _signal(self, fault: Fault) -> None:
        there = await trio.to_thread.run_sync(marked, str(self._folder))
        victims = [
            one
            for one in there
            if one.role == fault.target
            and (fault.kind != "stop" or one.process.pid not in self._stopped)
            # A guard that serves no program at the moment is not a loss.
            and (fault.target != "supervisor" or one.task)
        ]
        if not victims:
            self.missed += 1
            return
        victim = victims[int(fault.choice * len(victims))]
        task = victim.task
        if fault.target == "supervisor":
            # The search took its time, and supervisors run one program after another.
            task = program_below(victim.process)
        at = time.monotonic()
        try:
            victim.process.send_signal(_SIGNALS[fault.kind])
        except psutil.Error:
            self.missed += 1
            return
        try:
            if fault.kind == "stop":
                await self._until_continued(victim, fault.seconds)
        finally:
            self._enter(fault, victim.owner, task, at)

    async def _until_continued(self, victim: Marked, seconds: float) -> None:
        pid = victim.process.pid
        self._stopped.add(pid)
        try:
            await trio.sleep(seconds)
        finally:
            self._stopped.discard(pid)
            with suppress(psutil.Error):
                _continue(victim)

    async def _away(self, fault: Fault) -> None:
        """Kill the server of the bridge, and start it again after a while."""
        if not self.bridge_is_back.is_set():
            self.missed += 1
            return
        at = time.monotonic()
        self.bridge_is_back = trio.Event()
        back = self.bridge_is_back
        try:
            for one in await trio.to_thread.run_sync(marked, str(self._folder)):
                if one.role == "bridge":
                    with suppress(psutil.Error):
                        one.process.kill()
            await trio.sleep(fault.seconds)
        finally:
            back.set()
            self._enter(fault, "", None, at)

    async def _busy(self, fault: Fault) -> None:
        """Let Gnaw run for a third of the time, as where others have the processor."""
        there = await trio.to_thread.run_sync(marked, str(self._folder))
        victims = [one for one in there if one.role == fault.target]
        if not victims:
            self.missed += 1
            return
        at, end = time.monotonic(), trio.current_time() + fault.seconds
        with suppress(psutil.Error):
            while trio.current_time() < end:
                # A process that a fault has stopped meanwhile stays stopped.
                if (pid := victims[0].process.pid) not in self._stopped:
                    try:
                        victims[0].process.send_signal(signal.SIGSTOP)
                        await trio.sleep(0.2)
                    finally:
                        if pid not in self._stopped:
                            _continue(victims[0])
                await trio.sleep(0.1)
        self._enter(fault, "", None, at)

    async def _cut_off(self, fault: Fault) -> None:
        if fault.target in self._cut:
            self.missed += 1
            return
        at = time.monotonic()
        self._cut.add(fault.target)
        await trio.to_thread.run_sync(self._place.cut, fault.target)
        try:
            await trio.sleep(fault.seconds)
        finally:
            self._place.mend(fault.target)
            self._cut.discard(fault.target)
            self._enter(fault, "", None, at)

    async def _fill(self, fault: Fault) -> None:
        ballast = self._folder / "shared/ballast"
        if ballast.exists():
            self.missed += 1
            return
        at = time.monotonic()
        try:
            await trio.to_thread.run_sync(_write_until_full, ballast)
            end = trio.current_time() + fault.seconds
            while trio.current_time() < end:
                await trio.sleep(0.2)
                # What others have freed meanwhile is taken, too.
                await trio.to_thread.run_sync(_write_until_full, ballast)
        finally:
            ballast.unlink(missing_ok=True)
            self._enter(fault, "", None, at)

    def _purge(self) -> None:
        """Remove what no process has, as a site's nightly purge does."""
        for one in (self._folder / "shared").glob("meeting.d"):
            shutil.rmtree(one, ignore_errors=True)


def _continue(victim: Marked) -> None:
    """Let a process go on.

    Raises:
        psutil.Error: it has ended.
    """
    victim.process.send_signal(signal.SIGCONT)
    # A process that enters a host's namespaces stops with the one that it waits for.
    doorway = victim.process.parent()
    if doorway is not None and doorway.name() == "nsenter":
        doorway.send_signal(signal.SIGCONT)


def _write_until_full(path: Path) -> None:
    with suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            os.write(file.fileno(), bytes(1 << 16))
