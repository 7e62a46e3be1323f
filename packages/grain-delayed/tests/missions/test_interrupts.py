"""Ctrl-C while programs have their grace: what is said, and what a second one does."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

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
