"""The cores on which the processes below this one compute."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from trio.testing import wait_all_tasks_blocked

from grain.worker.processes import computing
from grain.worker.processes.computing import Computing, cpu_below, keep_looking

if TYPE_CHECKING:
    import pytest

COMPUTE = """
import subprocess, sys, time
def compute(seconds):
    while time.process_time() < seconds:
        pass
if len(sys.argv) > 1:
    compute(0.1)
else:
    subprocess.run([sys.executable, __file__, "below"])
    compute(0.15)
    print(flush=True)
    sys.stdin.read()
"""


def test_processes_count_while_they_run_and_when_they_have_been_reaped(tmp_path: Path) -> None:
    program = tmp_path / "compute.py"
    program.write_text(COMPUTE)
    look = Computing()
    look.look(0.0)
    assert look.cores is None
    with subprocess.Popen(
        [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        cores = look.look(0.25)
        assert cores is not None
        assert cores > 0.8  # 0.25 s of the two of them in a quarter of a second
        process.communicate()
    after = look.look(1.25)
    assert after is not None
    assert after < 0.2  # it has ended, and its time does not count again


def test_this_process_counts_where_tasks_run_in_it() -> None:
    while time.process_time() < 0.1:
        pass
    others, own = cpu_below(), cpu_below(with_self=True)

    assert others is not None
    assert own is not None
    assert own - others >= 0.1


def test_what_a_launcher_has_others_start_is_not_known(tmp_path: Path) -> None:
    launcher = tmp_path / "srun"
    shutil.copy(shutil.which("sleep") or "", launcher)
    with subprocess.Popen([launcher, "1000"]) as process:
        while Path(f"/proc/{process.pid}/exe").readlink() != launcher:
            pass
        assert cpu_below() is None
        process.kill()
    assert cpu_below() is not None


def test_of_too_many_processes_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "MOST", 0)
    with subprocess.Popen(["sleep", "1000"]) as process:
        assert cpu_below() is None
        process.kill()


class Counted(Computing):
    """A look that looks at nothing."""

    looks = 0

    def look(self, now: float) -> float | None:
        """Count."""
        self.looks += 1
        self.due = now + computing.PAUSE
        return float(self.looks)


async def test_looks_come_again_and_again_while_something_runs(
    mock_clock: trio.testing.MockClock,
) -> None:
    reported: list[float | None] = []
    runs = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_looking, Counted(), lambda: runs, reported.append)
        await wait_all_tasks_blocked()
        assert [None] == reported
        runs = True
        for count in (2, 3):
            mock_clock.jump(computing.PAUSE)
            while len(reported) < count:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    assert [None, 1.0, 2.0] == reported
