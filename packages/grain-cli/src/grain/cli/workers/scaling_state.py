"""The present state of `grain scale --auto`, in a file for `grain ls`."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from grain.eventlog.files import read_plain
from grain.files.trust import check_private, private_folder
from grain.files.whole import write_whole

if TYPE_CHECKING:
    from pathlib import Path

FRESH = 180.0
"""Seconds for which a note holds: a batch system may take minutes to answer."""

_LINES = 5


def mark_of(address: str) -> str:
    """Return the part of a file's name that stands for an address."""
    return hashlib.sha256(address.encode()).hexdigest()[:16]


class ScalingState:
    """The file of one `grain scale --auto`."""

    def __init__(self, folder: Path, address: str) -> None:
        private_folder(folder)
        self._path = folder / f"scale-{mark_of(address)}.json"
        self._lines: deque[list[Any]] = deque(maxlen=_LINES)

    def note(self, line: str) -> None:
        """Remember a line for the next `write`."""
        self._lines.append([time.time(), line])

    def write(self, state: dict[str, Any]) -> None:
        """Write the state of a `Scaler`; a disk that is full is not a reason to end."""
        here = {"time": time.time(), "pid": os.getpid(), "host": socket.gethostname()}
        text = json.dumps({**here, **state, "lines": list(self._lines)})
        with suppress(OSError):
            write_whole(self._path, text)

    def remove(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self._path.unlink()


def read_state(folder: Path, address: str) -> dict[str, Any] | None:
    """Return the last state of a `grain scale --auto` that runs; None if there is none.

    What another user may have written counts as none.
    """
    try:
        check_private(folder)
        text = read_plain(folder / f"scale-{mark_of(address)}.json").decode()
        state = json.loads(text)
        fresh = time.time() - state["time"] < FRESH
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(state) if fresh else None
