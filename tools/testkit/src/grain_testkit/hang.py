"""Reports of a test that hangs: its name, its stacks, its tasks of trio and asyncio, its children.

A test is reported after `hang_report` seconds (ini option, 100) and goes on, since a busy machine
is slow and not broken; after `hang_limit` seconds (900) it is reported again and fails. The alarm
is a signal, and not a thread: a process with a second thread may not fork on recent Pythons without
a warning. It is heard while the main thread waits for a lock, a file or a child, but not in a call
of C code that never looks for signals.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pytest
import trio

from grain_testkit.local_processes import descendants

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import FrameType

    from trio.lowlevel import Task


class HangReporter:
    """A pytest plugin that reports each test that takes long, and fails a test that takes too long.

    Args:
        after: seconds from the begin of a test to its report.
        limit: seconds from the begin of a test to its failure.
        output: where reports go: the terminal, and not what pytest captures.
    """

    def __init__(self, after: float, limit: float, output: TextIO) -> None:
        self._after = after
        self._limit = limit
        self._output = output
        self._test = ""
        self._reported = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Set the alarm for one test with its fixtures."""
        self._test, self._reported = item.nodeid, False
        before = signal.signal(signal.SIGALRM, self._on_alarm)
        signal.setitimer(signal.ITIMER_REAL, self._after)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _on_alarm(self, _number: int, frame: FrameType | None) -> None:
        seconds = self._limit if self._reported else self._after
        write = self._output.write
        write(f"\n==== {self._test} has not ended after {seconds:g} s\n")
        write("".join(f"{line}\n" for line in _tasks()))
        write("---- the main thread\n")
        write("".join(traceback.format_stack(frame)))
        write("---- all threads\n")
        self._output.flush()
        faulthandler.dump_traceback(self._output, all_threads=True)
        write("".join(f"{line}\n" for line in _children()))
        write(f"==== {self._test}\n")
        self._output.flush()
        if self._reported:
            pytest.fail(f"not ended after {seconds:g} s; its tasks and stacks are on the terminal")
        self._reported = True
        signal.setitimer(signal.ITIMER_REAL, self._limit - self._after)

    def pytest_unconfigure(self) -> None:
        """Close the duplicate of the terminal."""
        self._output.close()


def on_terminal() -> TextIO:
    """Return the standard error of this process, before pytest captures it; the caller closes."""
    return os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")


def _tasks() -> Iterator[str]:
    """Yield a line for each task and each of its frames, of the loop that runs in this thread."""
    with suppress(RuntimeError):  # trio does not run here
        root = trio.lowlevel.current_root_task()
        if root is not None:
            yield "---- tasks of trio"
            yield from _tree(root, "")
    with suppress(RuntimeError):  # nor asyncio
        for task in asyncio.all_tasks(asyncio.get_running_loop()):
            yield f"---- task of asyncio: {task.get_name()}"
            for frame in task.get_stack():
                yield _place(frame, frame.f_lineno)


def _tree(task: Task, indent: str) -> Iterator[str]:
    yield f"{indent}{task.name}"
    for frame, line in task.iter_await_frames():
        yield f"{indent}  {_place(frame, line)}"
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _tree(child, f"{indent}    ")


def _place(frame: FrameType, line: int) -> str:
    code = frame.f_code
    return f"{code.co_filename}:{line} in {code.co_name}"


def _children() -> Iterator[str]:
    """Yield a line for each descendant of this process: its id, state, parent and command."""
    yield "---- child processes"
    for pid in descendants():
        with suppress(OSError):  # gone meanwhile
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            command = words.decode(errors="replace").strip() or "(no arguments)"
            yield f"{pid} {stat[0]} child of {stat[1]}: {command}"
