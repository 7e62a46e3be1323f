"""Programs in Python, started as users start them: by this interpreter, in a new process."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    Process: TypeAlias = subprocess.Popen[Any]
    StrPath: TypeAlias = str | os.PathLike[str]


def start(*words: StrPath, **options: Any) -> Process:
    """Start ``python WORDS``, with further options of `subprocess.Popen`."""
    return subprocess.Popen([sys.executable, *words], **options)


def run(*words: StrPath, input: str = "", **options: Any) -> subprocess.CompletedProcess[str]:  # noqa: A002
    """Run ``python WORDS`` to its end, with further options of `subprocess.run`.

    Returns:
        Its status, whatever that is, and its output, as text.
    """
    return subprocess.run(
        [sys.executable, *words],
        input=input,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


@contextmanager
def killed(process: Process) -> Iterator[Process]:
    """Kill a process at the end of the block, and read the rest of its pipes."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def terminated(process: Process) -> Iterator[Process]:
    """Terminate a process at the end of the block, and wait for it; kill it if it does not end."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until(true: Callable[[], object]) -> None:
    """Wait for something that processes do, for three minutes at most."""
    deadline = time.monotonic() + 180
    while not true():
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.02)
