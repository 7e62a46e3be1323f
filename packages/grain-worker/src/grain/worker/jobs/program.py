"""The program of a job: its interpreter, its output, and how it ended."""

from __future__ import annotations

import os
import signal
import stat
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import msgspec

from grain import GVAR
from grain.eventlog.causes import RunFailure
from grain.files.whole import FULL
from grain.queue.records import Ended
from grain.resource import learned
from grain.resource.figures import signal_name
from grain.worker.errors import (
    ExternalError,
    ExternalMemoryError,
    ExternalStartError,
    ExternalTimeoutError,
    printable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.queue.records import How
    from grain.worker.external import Completed

_PROBE = 4096  # bytes for which a disk must have room
_LONGEST_LINE = 4096  # bytes of the first line of a script


def missing_interpreter(script: Path) -> str:
    """Return the interpreter that the first line of a script names, if it is not there; or "".

    The kernel and the shell would say that the script is not there.

    Raises:
        OSError: the script cannot be read.
    """
    with script.open("rb") as file:
        mark, *words = file.readline(_LONGEST_LINE).replace(b"#!", b"#! ", 1).split() or [b""]
    if mark != b"#!" or not words or Path(os.fsdecode(words[0])).exists():
        return ""
    return os.fsdecode(words[0])


def receipt(done: Completed, at: float) -> Ended:
    """Return the receipt of a program that has succeeded, perhaps after a warning."""
    message = "warned before its time limit, so it may not be complete" if done.warned else ""
    return Ended(how="exit", at=at, elapsed=done.elapsed, usage=done.usage, message=message)


def is_success(ended: Ended) -> bool:
    """Return True if a program has ended with exit code 0."""
    return ended.how == "exit" and not ended.status


def failure_of_attempt(ended: Ended, program: str) -> RunFailure | None:
    """Return how an attempt ended, in the words of `ExternalError`; None if it succeeded.

    Args:
        program: the name of the program.
    """
    if is_success(ended):
        return None
    if ended.how == "exit" or (ended.how == "signal" and not ended.message):
        line = ended.line or ended.message.replace(f"exit status {ended.status}; ", "", 1)
        signal = signal_name(ended.signal) if ended.how == "signal" else ""
        how = f"ended by signal {signal}" if signal else f"exit code {ended.status}"
        return RunFailure(
            message=": ".join(filter(None, (program, how, line))),
            program=program,
            status=None if signal else ended.status,
            signal=signal,
            line=line,
        )
    if ended.how == "cancelled":
        why = f", {ended.message}" if ended.message else ""
        return RunFailure(message=f"cancelled by {ended.by}{why}")
    return RunFailure(message=ended.message or ended.how)


def end_text(ended: Ended) -> str:
    """Return how a program that ran has ended, without its name; "" for a plain success."""
    if ended.how == "exit":
        return ended.message or (f"exit status {ended.status}" if ended.status else "")
    return ended.message or signal_name(ended.signal)


def with_trouble(ended: Ended, trouble: str) -> Ended:
    """Return the receipt of an attempt, which also says what is wrong with its output."""
    if not trouble or ended.how not in ("exit", "signal", "timeout", "memory"):
        return ended
    text = "; ".join(filter(None, (end_text(ended), trouble)))
    return msgspec.structs.replace(ended, message=text)


def output_trouble(outputs: Iterable[Path], *, failed: bool) -> str:
    """Return that a disk has no room for what was printed, as a sentence; "" if it has.

    Whoever writes learns of it, and a program may not say it, or only into that very file.

    Args:
        failed: True if the program did. Then a quota is looked for, too, by a file that is made
            and removed.
    """
    for path in outputs:
        with suppress(OSError):
            if not stat.S_ISREG(path.stat().st_mode):
                continue
            room = os.statvfs(path)
            blocks = room.f_bavail if os.geteuid() else room.f_bfree
            if room.f_blocks and blocks * room.f_frsize < _PROBE:
                return f"the disk of its output {printable(str(path))} is full"
            if failed:
                try:
                    with TemporaryFile(dir=path.parent, buffering=0) as file:
                        file.write(bytes(_PROBE))
                        os.fsync(file.fileno())
                except OSError as error:
                    if error.errno in FULL:
                        what = printable(str(path))
                        return f"there is no room for its output {what}: {error.strerror}"
    return ""


def last_line(ended: Ended, number: int, host: str, *, again: bool = False) -> str:
    """Return the end of the output of an attempt that says that it was ended, or never began.

    It is "" if neither is so.

    Some tools look for its last line, in the words of Slurm (for memory, those of 23.02 and later).

    Args:
        number: that no other job or task has.
        host: its name.
        again: True if it was ended to run again.
    """
    if ended.how == "memory":
        step = f"StepId={number}.batch"
        # Before the words of Slurm, which has no others: Grain may have ended it, not the kernel.
        why = f"grain: error: {printable(ended.message)}\n" if ended.message else ""
        return (
            f"{why}grain: error: Detected 1 oom_kill event in {step}. Some of the step tasks have "
            "been OOM Killed.\n"
        )
    if ended.how == "start" and ended.message:
        return f"grain: error: {printable(ended.message)}\n"
    if ended.how not in ("timeout", "cancelled"):
        return ""
    at = datetime.fromtimestamp(ended.at).isoformat(timespec="seconds")
    why = " DUE TO JOB REQUEUE" if again else ""
    if ended.how == "timeout":
        why = " DUE TO TIME LIMIT"
    return f"grain: error: *** JOB {number} ON {host} CANCELLED AT {at}{why} ***\n"


def receipt_of_failure(error: ExternalError, limit: float, at: float) -> Ended:
    """Return the receipt of a program that failed, could not start, or was ended.

    Args:
        limit: its time limit in seconds.
        at: Unix seconds.
    """
    how: How = "signal"
    amount, last = 0.0, False
    # Without the command, which every list of jobs shows beside it.
    status, number, message = 0, int(signal.SIGKILL), error.reason.partition("\n")[0]
    if isinstance(error, ExternalTimeoutError) and error.stopped_softly:
        how, status, number = "exit", max(error.returncode or 0, 1), 0
    elif isinstance(error, ExternalTimeoutError):
        how, number = "timeout", int(signal.SIGTERM)
        if not error.warned:
            _, *trouble = message.split("; ", 1)  # with the warning, if there was to be one
            message = "; ".join([f"ended at its time limit of {limit:g} s", *trouble])
    elif isinstance(error, ExternalMemoryError):
        how = "memory"
        if (memory := learned(GVAR.res)) is not None:
            amount, last = error.memory_request or 0.0, memory.last
    elif isinstance(error, ExternalStartError):
        # The exit code of a shell that cannot find a program (POSIX.1-2017, 2.8.2).
        how, status, number = "start", 127, 0
    elif error.returncode is not None and error.returncode >= 0:
        how, status, number, message = "exit", error.returncode, 0, ""
    elif error.returncode is not None:
        number, message = -error.returncode, ""
    return Ended(
        how=how,
        at=at,
        status=status,
        signal=number,
        elapsed=error.elapsed or 0.0,
        message=message,
        line="" if message else error.in_short.line,
        usage=error.usage,
        amount=amount,
        last=last,
    )
