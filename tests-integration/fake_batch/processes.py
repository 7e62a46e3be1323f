"""The processes of jobs: started in sessions of their own, found by a mark in their environment."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MARK = "FAKE_BATCH_MARK"
PR_SET_CHILD_SUBREAPER = 36


class Processes:
    """All processes that a controller started, and what became of them.

    Args:
        folder: The controller's; a part of the mark, so that two controllers do not mix.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ended: dict[int, int] = {}
        self._pids: dict[str, int] = {}
        # What a script leaves behind comes to the controller, which reaps it.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def start(
        self, key: str, script: str, env: Mapping[str, str], cwd: str, output: Path, *, append: bool
    ) -> int:
        """Run a script; its pid.

        Args:
            key: Names the job and which of its runs this is.
            script: Its text; the first line says what runs it.
            env: Its environment.
            cwd: Where it starts.
            output: Both of its streams.
            append: Whether to add to the output.

        Raises:
            OSError: It cannot be started so.
        """
        path = self._folder / f"{key}.sh"
        path.write_text(script)
        path.chmod(0o700)
        if not append:
            output.write_bytes(b"")
        with output.open("ab") as out:
            process = subprocess.Popen(
                [path],
                env={**env, MARK: self._mark(key)},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        # `reap` waits for it, with all others.
        process.returncode = 0
        self._ended.pop(process.pid, None)  # of one that had this number before
        self._pids[key] = process.pid
        return process.pid

    def _mark(self, key: str) -> str:
        return f"{self._folder}:{key}"

    def reap(self) -> None:
        """Collect whatever ended."""
        with contextlib.suppress(ChildProcessError):
            while (results := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                self._ended[results[0]] = results[1]

    def ended(self, pid: int) -> int | None:
        """The wait status of a process; None while it runs."""
        return self._ended.get(pid)

    def of(self, key: str) -> list[int]:
        """The living processes of one run of a job."""
        first = self._pids[key]
        return living(f"{MARK}={self._mark(key)}", 0 if first in self._ended else first)

    def end(self, key: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Send SIGTERM or SIGKILL to all processes of one run of a job."""
        end_all_of(lambda: self.of(key), number)

    def all(self) -> list[int]:
        """The living processes of all jobs."""
        start = f"{MARK}={self._folder}:".encode()
        return [pid for pid, marks in _environments() if any(m.startswith(start) for m in marks)]

    def end_all(self) -> None:
        """Kill and collect whatever there still is."""
        # All of them are children, or become some when their parents end. Some of them may be
        # without a mark for a moment: those that are just starting a program.
        with contextlib.suppress(ChildProcessError):
            while True:
                send({*self.all(), *_children()}, signal.SIGKILL)
                os.waitpid(-1, 0)


def _children() -> list[int]:
    results = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(pid) for pid in results.split()]


def living(mark: str, first: int = 0) -> list[int]:
    """Return the living processes with a mark, and those that are just starting a program.

    Args:
        mark: A variable and its value.
        first: One of them, that may have no mark yet; 0 for none.
    """
    results, bare = [first] if first else [], []
    for pid, marks in _environments():
        if mark.encode() in marks:
            results.append(pid)
        elif not marks:
            bare.append(pid)
    # While the kernel loads its program a process has no environment to be seen yet.
    results += [pid for pid in bare if _parent(pid) in results]
    return list(dict.fromkeys(results))


def end_all_of(look: Callable[[], Iterable[int]], number: signal.Signals) -> None:
    """Send a signal that ends processes to all of some, also to one that is being forked.

    Args:
        look: Returns those that live now.
        number: SIGTERM or SIGKILL.
    """
    # Without a stop, a script could fork between the look and the signal that ends it: its child
    # would go on, and no process would come back for it.
    stopped: set[int] = set()
    while more := set(look()) - stopped:
        send(more, signal.SIGSTOP)
        stopped |= more
    send(stopped, number, signal.SIGCONT)


def _environments() -> Iterable[tuple[int, list[bytes]]]:
    """Yield each process with its variables; of a zombie and at an exec there are none."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                results = (entry / "environ").read_bytes()
                yield int(entry.name), results.split(b"\0") if results else []


def _parent(pid: int) -> int | None:
    """Return the parent of a process; None of a zombie, and of one that is gone."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(parent)


def send(pids: Iterable[int], *signals: signal.Signals) -> None:
    """Send signals to processes that may be gone by now."""
    for pid in pids:
        for one in signals:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, one)


def resident(pids: Iterable[int]) -> float:
    """Resident memory of processes together, in MiB."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
