"""Functions that are called: by executors as they are; Grain has tasklets that do the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

TRUE = shutil.which("true") or "/bin/true"
OPEN = "open"


def nothing() -> None:
    """Do nothing."""


def true() -> None:
    """Run a program that does nothing."""
    subprocess.run([TRUE], check=True)


def produce(size: int) -> bytes:
    """Return so many bytes."""
    return b"x" * size


def take(data: bytes) -> int:
    """Return the length of the argument."""
    return len(data)


def hold(folder: str) -> None:
    """Make a file in a folder, and keep the core until there is one of the name `OPEN`."""
    os.close(tempfile.mkstemp(dir=folder)[0])
    while not Path(folder, OPEN).exists():
        time.sleep(0.05)
