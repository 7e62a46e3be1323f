"""Who blocks the event loop is told of, with the line that it is in."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time

from grain.worker._watchdog import Watchdog


def blocked_here(seconds: float) -> None:
    time.sleep(seconds)


def wait_for(out: io.StringIO) -> None:
    until = time.monotonic() + 30
    while not out.getvalue() and time.monotonic() < until:
        blocked_here(0.01)


def test_the_blocking_line_is_told() -> None:
    """With the stack of the thread; and once for each time."""
    out = io.StringIO()
    with Watchdog(0.05, out):
        wait_for(out)
        blocked_here(0.3)

    told = out.getvalue()
    assert told.startswith("The event loop has been blocked for 0.05 s.\nThread ")
    assert "Thread MainThread (most recent call last):\n" in told
    assert ", in blocked_here\n    time.sleep(seconds)\n" in told
    assert 1 == told.count("has been blocked")


def test_each_time_is_told() -> None:
    """Also after it was fed again."""
    out = io.StringIO()
    with Watchdog(0.05, out) as dog:
        wait_for(out)
        out.truncate(0)
        dog.feed()
        wait_for(out)

    assert "has been blocked" in out.getvalue()


def test_who_feeds_it_hears_nothing() -> None:
    """And leaving ends the thread."""
    out = io.StringIO()
    before = threading.active_count()
    with Watchdog(30.0, out) as dog:
        for _ in range(20):
            dog.feed()
            blocked_here(0.01)
        assert before + 1 == threading.active_count()

    assert "" == out.getvalue()
    assert before == threading.active_count()


BUSY = """
import time
from grain.worker._watchdog import Watchdog

def deep(n):
    return deep(n - 1) if n else [str(i) for i in range(50)]

print("ready", flush=True)
end = time.monotonic() + 4
with Watchdog(0.02) as dog:
    while time.monotonic() < end:
        dog.feed()
        for _ in range(2000):
            deep(50)
"""


def test_a_process_that_runs_meanwhile_survives() -> None:
    """Stacks are taken while the thread that is told of goes on, and of one that was stopped."""
    busy = subprocess.Popen(
        [sys.executable, "-c", BUSY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert busy.stdout is not None
    assert busy.stdout.readline() == "ready\n"
    os.kill(busy.pid, signal.SIGSTOP)
    time.sleep(1.2)
    os.kill(busy.pid, signal.SIGCONT)
    _, told = busy.communicate(timeout=60)

    assert 0 == busy.returncode
    assert "has been blocked" in told
    assert "Thread MainThread" in told
