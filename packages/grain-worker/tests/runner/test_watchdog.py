"""The report of a tasklet that blocks the event loop, with the line that it is in."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time

from grain.worker.runner.watchdog import Watchdog


class Output(io.StringIO):
    """The output of the watchdog, and an event that is set once there is some."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def flush(self) -> None:
        self.written.set()


def blocked_here(event: threading.Event, seconds: float) -> bool:
    return event.wait(seconds)


def test_the_line_that_blocks_is_printed_once() -> None:
    """With the stack of the thread."""
    out = Output()
    with Watchdog(0.5, out) as dog:
        assert blocked_here(out.written, 120)
        while "in blocked_here" not in out.getvalue():  # it took us longer to get there
            out.written.clear()
            out.seek(0)
            out.truncate()
            dog.feed()
            assert blocked_here(out.written, 120)
        blocked_here(threading.Event(), 1.5)

    output = out.getvalue()
    assert output.startswith("The event loop has been blocked for 0.5 s.\nThread ")
    assert "Thread MainThread (most recent call last):\n" in output
    assert ", in blocked_here\n    return event.wait(seconds)\n" in output
    assert 1 == output.count("has been blocked")


def test_every_blocking_is_reported_after_the_loop_was_free_again() -> None:
    out = Output()
    with Watchdog(0.05, out) as dog:
        assert blocked_here(out.written, 120)
        out.truncate(0)
        out.written.clear()
        dog.feed()
        assert blocked_here(out.written, 120)

    assert "has been blocked" in out.getvalue()


def test_a_loop_that_is_not_blocked_is_not_reported() -> None:
    """And leaving ends the thread."""
    out = io.StringIO()
    before = set(threading.enumerate())  # some of which may end meanwhile
    with Watchdog(60.0, out) as dog:
        for _ in range(20):
            dog.feed()
            time.sleep(0.01)
        (thread,) = set(threading.enumerate()) - before

    assert "" == out.getvalue()
    assert not thread.is_alive()
    assert set(threading.enumerate()) <= before


BUSY = """
import sys, threading, time
from grain.worker.runner.watchdog import Watchdog

class Output:
    written = threading.Event()
    def write(self, text): sys.stderr.write(text)
    def flush(self): sys.stderr.flush(); self.written.set()

def deep(n):
    return deep(n - 1) if n else [str(i) for i in range(50)]

with Watchdog(0.02, Output()) as dog:
    print("ready", flush=True)
    while time.process_time() < 3:  # which does not pass while it is stopped
        dog.feed()
        for _ in range(2000):
            deep(50)
    assert Output.written.wait(120)  # on a machine of any speed
"""


def test_a_process_survives_that_its_stacks_are_printed_while_it_runs() -> None:
    """Also after it was stopped."""
    busy = subprocess.Popen(
        [sys.executable, "-c", BUSY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert busy.stdout is not None
    assert busy.stdout.readline() == "ready\n"
    os.kill(busy.pid, signal.SIGSTOP)
    time.sleep(1.2)
    os.kill(busy.pid, signal.SIGCONT)
    _, output = busy.communicate(timeout=300)

    assert 0 == busy.returncode
    assert "has been blocked" in output
    assert "Thread MainThread" in output
