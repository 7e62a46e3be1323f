"""The keeper: the process above the program of a mission, which writes what becomes of it.

    python -m grain.cli.missions.keeper FOLDER DESCRIPTOR

It writes "" or an error to the descriptor, once the program has begun or cannot begin, and closes
it. It hands SIGTERM, SIGINT and SIGHUP on to the program; a mission ends its tasks then. In a
terminal the program gets the last two from there.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grain.cli.mission_records import End, MissionStart, Process, load, reserve, write
from grain.files.processes import start_time, this_process
from grain.files.trust import open_appended

if TYPE_CHECKING:
    from collections.abc import Callable

PULSE = 30.0
"""Seconds between two signs of life."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def keep(
    folder: Path,
    start: MissionStart,
    begun: Callable[[], object],
    *,
    terminal: bool,
    **options: Any,
) -> int:
    """Run the program of a start to its end; return its exit status, or minus its signal.

    Args:
        terminal: True if both share a terminal, which sends SIGINT and SIGHUP to either.

    Raises:
        OSError: the program cannot be run, or its folder cannot be written; nothing runs.
    """
    # A process that ignores SIGCHLD gets no exit status, and a parent may have set that.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Until the program is there, signals wait for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        program = subprocess.Popen(  # noqa: S603 - the user's program
            start.command,
            cwd=start.directory,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS),
            **options,
        )
        try:
            write(folder, "process.json", _process(program.pid))
            reserve(folder, "end.json")
        except OSError:
            program.kill()
            program.wait()
            raise

        def forward(number: int, _: object) -> None:
            if number == signal.SIGTERM or not terminal:
                program.send_signal(number)

        for number in _SIGNALS:
            signal.signal(number, forward)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    begun()
    status = _wait(program, folder / "alive")
    # It has room also on a disk that has become full. Where it fails all the same, the state is
    # that of a program which was killed.
    with suppress(OSError):
        write(folder, "end.json", End(status=status, at=time.time()))
    return status


def _wait(program: subprocess.Popen[Any], pulse: Path) -> int:
    """Wait for the end of a program, with a sign of life now and then; return its status."""
    pidfd = _pidfd(program.pid)
    try:
        while (status := program.poll()) is None:
            with suppress(OSError):
                pulse.touch(mode=0o600)
            if pidfd is not None:
                select.select([pidfd], [], [], PULSE)
            else:
                # This looks twenty times a second.
                with suppress(subprocess.TimeoutExpired):
                    program.wait(PULSE)
        return status
    finally:
        if pidfd is not None:
            os.close(pidfd)


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that is readable when a process has ended; None before Linux 5.3."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _process(pid: int) -> Process:
    me = this_process()
    began = start_time(pid) or 0
    return Process(
        host=me.host, kernel=me.kernel, pid=pid, began=began, keeper=me.pid, keeper_began=me.start
    )


def main(folder: Path, descriptor: int) -> None:
    """Run the program of a folder without a terminal."""

    def report(error: str = "") -> None:
        os.write(descriptor, error.encode(errors="replace"))
        os.close(descriptor)

    try:
        start = load(folder / "start.json", MissionStart)
        with os.fdopen(open_appended(str(folder / "output")), "ab") as output:
            keep(
                folder, start, report, terminal=False,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
    except OSError as error:
        report(f"{error.filename or start.command[0]}: {error.strerror}")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
