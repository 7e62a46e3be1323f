"""Signals and warnings for an attempt that runs, with a program that only takes its time."""

from __future__ import annotations

import errno
import signal
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import trio

from grain.queue.files import LocalDisk
from grain.queue.folder import Queue
from grain.queue.records import Job, Wish
from grain.worker.jobs import run
from grain.worker.jobs.run import AttemptCall, run_job
from grain_testkit.blocking import call_in_place

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

    from grain.worker.external import ProgramCall

USR1, USR2 = signal.SIGUSR1, signal.SIGUSR2


class Attempt:
    """An attempt whose program runs for a while, and gets signals, by a clock that jumps.

    Attributes:
        heard: the time and the number of each signal that was sent, with its receivers.
        reaches: True if a signal finds a process.
        grace: seconds of the program between SIGTERM and SIGKILL.
        limit: its time limit; None for none.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queue = Queue.open(folder / "queue", make=True)
        self.folder = folder
        self.heard: list[tuple[float, int, str]] = []
        self.reaches = True
        self.grace: object = 0.0
        self.limit: float | None = None
        self.seconds = 0.0
        self._monkeypatch = monkeypatch

    async def run(self, seconds: float, **fields: Any) -> None:
        """Run a program that ends by itself after some seconds."""
        began = trio.current_time()

        async def takes_its_time(call: ProgramCall, limit: float | None, **_: object) -> NoReturn:
            self.limit = limit
            self.grace = call.request["grace"]
            await trio.sleep_until(began + seconds)
            raise RuntimeError("it has ended")

        def send(_: object, number: int, to: str) -> bool:
            self.heard.append((round(trio.current_time() - began, 1), number, to))
            assert len(self.heard) < 100, "it is sent without end"
            return self.reaches

        self._monkeypatch.setattr(run, "run_program_call", takes_its_time)
        self._monkeypatch.setattr(run, "send", send)
        self._monkeypatch.setattr(trio.to_thread, "run_sync", call_in_place)
        directory = str(self.folder)
        job = Job(
            name="x", at=0.0, host="h", user="me", directory=directory, command=("x",), **fields
        )
        number = self.queue.submit(job)
        what = AttemptCall(
            str(self.queue.folder), number, None, 1, ticket=1, wishes=1, mission=self.queue.mission
        )
        await run_job(what)


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_allocation: None) -> Attempt:
    return Attempt(tmp_path, monkeypatch)


async def test_a_signal_is_sent_once(attempt: Attempt, autojump_clock: MockClock) -> None:
    async def ask() -> None:
        await trio.sleep(7.0)
        for number, to in ((USR1, "script"), (USR2, "all")):
            wish = Wish(what="signal", jobs=((1, 1),), signal=number, signal_to=to)  # type: ignore[arg-type]
            attempt.queue.wish(wish)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(attempt.run, 100.0)
    assert [(10.0, USR1, "script"), (10.0, USR2, "all")] == attempt.heard


async def test_a_warning_is_sent_once_and_in_time(
    attempt: Attempt, autojump_clock: MockClock
) -> None:
    await attempt.run(590.0, timeout=600.0, signal=USR2, signal_before=33.0, signal_to="script")
    assert [(567.0, USR2, "script")] == attempt.heard
    assert 30.0 == attempt.grace  # as KillWait of Slurm


async def test_a_signal_that_finds_nothing_is_sent_again_for_ten_seconds(
    attempt: Attempt, autojump_clock: MockClock
) -> None:
    attempt.reaches = False
    await attempt.run(100.0, timeout=60.0, signal=USR2, signal_before=40.0)
    times = [time for time, _, _ in attempt.heard]
    assert [20.0, 20.2] == times[:2]
    assert 29.9 < times[-1] < 30.3


@pytest.mark.parametrize(("given", "least", "most"), [(0.0, 0.9e6, 1e6), (3600.0, 3600.0, 3600.0)])
async def test_a_job_without_a_limit_has_the_time_until_its_deadline(
    attempt: Attempt, autojump_clock: MockClock, given: float, least: float, most: float
) -> None:
    await attempt.run(1.0, deadline=time.time() + 1e6, timeout=given)
    assert attempt.limit is not None
    assert least <= attempt.limit <= most


async def test_what_a_job_uses_is_looked_at_ever_more_rarely(
    attempt: Attempt, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = list[float]()
    began = trio.current_time()

    def look(_: object) -> list[None]:
        times.append(trio.current_time() - began)
        return []

    monkeypatch.setattr(run, "usages_now", look)
    await attempt.run(14400.0)
    assert [30.0, 60.0, 90.0] == pytest.approx(times[:3])
    assert 600 < times[-1] - times[-2] < 720  # a twentieth of four hours
    assert len(times) < 100


async def test_an_end_that_cannot_be_noted_is_tried_again_ever_more_rarely(
    attempt: Attempt, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    note, times = LocalDisk.note, list[float]()

    def fails(disk: LocalDisk, text: bytes, name: str) -> None:
        if name.endswith(".ended"):
            times.append(trio.current_time())
            if len(times) < 10:
                raise OSError(errno.ENOSPC, "No space left on device")
        note(disk, text, name)

    monkeypatch.setattr(LocalDisk, "note", fails)
    await attempt.run(1.0)
    pauses = [after - before for before, after in pairwise(times)]
    assert [1, 2, 4, 8, 16, 32, 60, 60, 60] == pytest.approx(pauses)
