"""The cost of a job of ``grain map``, against xargs, and memory as the number of jobs grows.

Prints one JSON line per quantity. Run it by ``python -m tools.bench map``.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from tools.bench import say

JOBS = 2000
ROUNDS = 3
LINES = 1_000_000
TRUE = shutil.which("true") or "/bin/true"
XARGS = ["xargs", "-P", "2", "-n", "1", TRUE]


def main() -> None:
    """Print what is measured."""
    one, many, theirs, ratios = [], [], [], []
    for _ in range(ROUNDS):
        one.append(measured(grain_map("-j", "2", TRUE), 1)[0])
        theirs.append(measured(XARGS, JOBS)[0] / JOBS)
        seconds, memory = measured(grain_map("-j", "2", "-k", TRUE), JOBS)
        many.append((seconds - one[-1]) / (JOBS - 1))
        ratios.append(many[-1] / theirs[-1])
    say("map_start", statistics.median(one) * 1e3, "ms")
    say("map_true_two_at_a_time", statistics.median(many) * 1e6, "us")
    say("map_over_xargs", statistics.median(ratios), "ratio")
    say("map_memory", memory, "MB", jobs=JOBS)
    say("map_memory_long", measured(grain_map("-j", "2", "-k", TRUE), 5 * JOBS)[1], "MB")
    seconds, memory = measured(grain_map("--dry-run", TRUE), LINES)
    say("map_dry_run", seconds / LINES * 1e6, "us")
    say("map_dry_run_memory", memory, "MB", lines=LINES)


def grain_map(*words: str) -> list[str]:
    """Return the command line of a call."""
    return [sys.executable, "-m", "grain.cli", "map", *words]


def measured(words: list[str], lines: int) -> tuple[float, float]:
    """Return the seconds, and the MB at most resident, of a command that reads so many lines."""
    with tempfile.TemporaryFile() as given:
        # In no memory of this process, which would count as that of its child.
        given.writelines(b"%d\n" % i for i in range(lines))
        given.seek(0)
        began = time.perf_counter()
        process = subprocess.Popen(
            words, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{words} ended with {process.returncode}")
    return time.perf_counter() - began, usage.ru_maxrss * 1024 / 1e6
