"""The use of programs while they run."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from grain.worker.processes import usage_now
from grain.worker.processes.usage_now import usages_now

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """
import os, sys, time
kept = b"x" * 50_000_000
ready, grown = os.pipe()
child = os.fork() if "alone" not in sys.argv else os.write(grown, b"g")
if child:
    while time.process_time() < 0.3:
        pass
    os.read(ready, 1)
    print(flush=True)
else:
    mine = b"y" * 30_000_000
    os.write(grown, b"g")
sys.stdin.read()
"""


@pytest.fixture
def supervised(request: pytest.FixtureRequest) -> Iterator[int]:
    """Yield the pid of a process that has a program below it, which has computed for 0.3 s."""
    argv = f"[sys.executable, '-c', {PROGRAM!r}, *sys.argv[1:]]"
    above = f"import subprocess, sys; subprocess.run({argv})"
    with subprocess.Popen(
        [sys.executable, "-c", above, *getattr(request, "param", ())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as top:
        assert top.stdout is not None
        top.stdout.readline()
        yield top.pid
        top.communicate()


@pytest.mark.parametrize("supervised", [["alone"]], indirect=True)
def test_cpu_time_and_memory_of_a_program_are_seen_while_it_runs(supervised: int) -> None:
    [usage] = usages_now([supervised])
    assert usage is not None
    assert 0.25 <= usage.cpu <= 2
    assert 0.05 <= usage.memory <= 0.09


def test_all_processes_of_the_tree_count(supervised: int) -> None:
    [usage] = usages_now([supervised])
    assert usage is not None
    assert 0.08 <= usage.memory <= 0.16


def test_a_program_that_has_ended_or_is_not_begun_has_no_usage() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    assert [None, None] == usages_now([None, ended.pid])


def test_a_look_has_an_end(supervised: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is behind the first processes is unknown, rather than too small."""
    monkeypatch.setattr(usage_now, "MOST", 3)
    first, second = usages_now([supervised, supervised])
    assert first is not None
    assert second is None


def test_the_memory_that_processes_share_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        (1, "stat"): b"1 (a b) c) R" + b" 0" * 10 + b" 100 50 25 25" + b" 0" * 20,
        (2, "stat"): b"2 (b) S" + b" 0" * 10 + b" 100 0 0 0" + b" 0" * 20,
        (1, "status"): b"Name:\ta\nVmRSS:\t 600 kB\nRssAnon:\t 100 kB\n",
        (2, "status"): b"Name:\tb\nVmRSS:\t 900 kB\nRssAnon:\t 200 kB\n",
        (3, "stat"): b"",
    }
    monkeypatch.setattr(usage_now, "of_process", lambda pid, name: files[pid, name])
    usage = usage_now.usage_of([1, 2, 3])
    assert usage is not None
    assert 300 / os.sysconf("SC_CLK_TCK") == usage.cpu
    assert (100 + 200 + 700) * 1024 / 1e9 == usage.memory
    assert usage_now.usage_of([3]) is None
