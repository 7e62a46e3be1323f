"""Real processes on a real directory, killed at random moments."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from grain.queue.folder import Queue

if TYPE_CHECKING:
    from pathlib import Path

SUBMITTER = """
import sys
from pathlib import Path
from grain.queue.folder import Queue
from grain.queue.records import Job

queue = Queue.open(Path(sys.argv[1]), make=True)
count = 0
while True:
    count += 1
    name = f"{sys.argv[2]}.{count}"
    job = Job(name=name, at=1.0, host="h", user="u", directory="/", command=("true",) * 500)
    print(queue.submit(job), name, flush=True)
"""


def submit_until_killed(folder: Path, name: str, lines: int) -> list[tuple[int, str]]:
    """Start a submitter, kill it after it has printed some lines, and return all of them."""
    command = [sys.executable, "-c", SUBMITTER, str(folder), name]
    printed: list[tuple[int, str]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            number, of = line.split()
            printed.append((int(number), of))
            if len(printed) == lines:
                process.send_signal(signal.SIGKILL)
    return printed


def kill_submitters(folder: Path, rounds: int) -> int:
    """Kill submitters, four at once; return the number of jobs."""
    chance = random.Random(1)
    printed: list[tuple[int, str]] = []

    def one(name: str) -> None:
        for again in range(rounds):
            printed.extend(submit_until_killed(folder, f"{name}{again}", chance.randint(1, 20)))

    threads = [threading.Thread(target=one, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue = Queue.open(folder)
    jobs = {number: job.name for number, job in queue.jobs_from(1)}

    assert len(printed) == len({number for number, _ in printed})
    assert list(range(1, queue.jobs.end())) == list(jobs)
    assert all(jobs[number] == name for number, name in printed)
    assert len(jobs) == len(set(jobs.values()))
    assert len(jobs) <= len(printed) + 4 * rounds  # at most one each was made and not printed
    return len(jobs)


def test_numbers_that_killed_submitters_have_printed_are_jobs(tmp_path: Path) -> None:
    assert kill_submitters(tmp_path / "queue", 1) >= 4


@pytest.mark.nightly
def test_numbers_that_many_killed_submitters_have_printed_are_jobs(tmp_path: Path) -> None:
    assert kill_submitters(tmp_path / "queue", 50) > 1000
