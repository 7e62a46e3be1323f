"""Ctrl-C while programs have their grace: what is said, and what a second one does."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import trio

from grain.delayed.missions.ending import InterruptHandler
from grain.worker import external

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from trio.testing import MockClock

PROGRAM = """
import sys
from grain.delayed import delayed, each, run
from grain.resource import Cores
from grain.worker.external import run_external

async def stubborn(number):
    await run_external(
        ["sh", "-c", f"trap '' TERM; touch begun{number}; while :; do sleep 1000 & wait; done"],
        grace=1000, bind=False,
    )

async def main():
    calls = [(delayed(stubborn) @ Cores(1))(n) for n in range(2)]
    await each(calls)

run(main, Cores(2), config_file=False)
"""


def test_a_second_ctrl_c_kills_the_programs_that_the_first_one_waits_for(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, "program.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            while not all((tmp_path / f"begun{n}").exists() for n in range(2)):
                assert process.poll() is None
                threading.Event().wait(0.01)
            process.send_signal(signal.SIGINT)
            said = []
            for line in process.stderr:
                said.append(line)
                if line.startswith("stopping "):
                    break
            assert "stopping 2 programs (1000 s; Ctrl-C again to kill them now)\n" == said[-1]
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
            assert -signal.SIGINT == process.wait(120)
            assert "interrupted: 0 tasks ended, 2 stopped; nothing is left running" in rest
        finally:
            process.kill()


async def test_programs_that_are_told_to_end_late_are_counted_as_well(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, none is told within a moment, and then one after the other."""
    begun = trio.current_time()

    def ending_programs() -> list[float]:
        return [10.0] * min(3, int((trio.current_time() - begun) / 0.09 - 10))

    monkeypatch.setattr(external, "ending_programs", ending_programs)
    said: list[str] = []
    handler = InterruptHandler(said.append, lambda *_: None, trio.lowlevel.current_trio_token())
    handler(signal.SIGINT, None)
    await trio.sleep(60)
    assert ["stopping 3 programs (10 s; Ctrl-C again to kill them now)"] == said


async def test_without_programs_a_first_ctrl_c_says_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "ending_programs", list)
    said: list[str] = []
    handler = InterruptHandler(said.append, lambda *_: None, trio.lowlevel.current_trio_token())
    handler(signal.SIGINT, None)
    await trio.sleep(60)
    assert [] == said
