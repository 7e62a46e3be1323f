"""A mission that is killed at any moment computes, started again, only what is missing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from grain_testkit.programs import run, start

if TYPE_CHECKING:
    from pathlib import Path

TASKS = 60

# Each line of `computed` and of `seen` is one write: whole, or not there. The last task waits, so
# that a mission cannot end before it was killed once, however long the killer is kept from it.
PROGRAM = f"""
import os
import numpy as np
import trio
from grain.delayed import delayed, run
from grain.resource import Cores

def note(file, text):
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{{text}}\\n".encode())
    os.close(fd)

@delayed(cache_hfn="args")
async def compute(i):
    await trio.sleep(0.005)
    while i == {TASKS - 1} and not os.path.exists("go"):
        await trio.sleep(0.005)
    note("computed", i)
    return i, np.full(20_000, float(i))

async def one(i):
    number, array = await (compute @ Cores(1))(i)
    assert number == i and (array == i).all()
    note("seen", i)

async def main():
    async with trio.open_nursery() as nursery:
        for i in range({TASKS}):
            nursery.start_soon(one, i)

run(main, Cores(4), config_file=False, progress=False)
note("ended", "well")
"""


def numbers(file: Path) -> list[int]:
    """Return the numbers that the program has noted."""
    return [int(line) for line in file.read_text().split()] if file.exists() else []


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_program_computes_no_result_twice(tmp_path: Path, seed: int) -> None:
    """A result seen is never computed again, whenever SIGKILL comes; the program ends well."""
    source = random.Random(seed)
    (tmp_path / "program.py").write_text(PROGRAM)
    kept: set[int] = set()
    kills = 0
    while not (tmp_path / "ended").exists():
        assert kills < 100
        (tmp_path / "computed").unlink(missing_ok=True)
        with start(
            "program.py", cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE
        ) as mission:
            # By what it has done, so that it gets on each time, however slow the machine is.
            wanted = source.randint(1, TASKS // 2)
            while len(numbers(tmp_path / "computed")) < wanted and mission.poll() is None:
                time.sleep(0.001)
            time.sleep(source.uniform(0, 0.02))
            if mission.poll() is None:
                os.killpg(mission.pid, signal.SIGKILL)
                kills += 1
                (tmp_path / "go").touch()
            assert mission.stderr is not None
            errors = mission.stderr.read().decode()
        assert "Traceback" not in errors, errors
        computed = numbers(tmp_path / "computed")
        assert not kept & set(computed)
        assert len(set(computed)) == len(computed)
        kept |= set(numbers(tmp_path / "seen"))

    assert kept == set(range(TASKS))
    assert kills


def test_a_program_whose_results_are_all_cached_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "go").touch()
    for _ in range(2):
        run("program.py", cwd=tmp_path, timeout=120).check_returncode()

    assert sorted(numbers(tmp_path / "computed")) == list(range(TASKS))
