"""Errors of tasks and workers that are not a tasklet's own exceptions."""

from __future__ import annotations

import os
import shlex
import signal
from dataclasses import dataclass

import trio

__all__ = [
    "ExternalError",
    "ExternalLostError",
    "ExternalStartError",
    "ExternalTimeoutError",
    "Failure",
    "PayloadError",
    "RunnerUnusable",
    "TaskletAborted",
    "TaskletError",
    "UsageError",
]


class TaskletError(Exception):
    """Base of the errors of tasks that come neither from the tasklet nor from a program."""


class TaskletAborted(TaskletError):
    """A tasklet raised an exception that would end the whole process, such as `SystemExit`."""


class PayloadError(TaskletError):
    """A function, argument, result or exception cannot travel between processes.

    It concerns one task alone. Its message names the object and the reason.
    """


class RunnerUnusable(Exception):
    """No runner can be started on this worker; the message says why."""


class UsageError(Exception):
    """A worker was started with options that make no sense; the message says which do."""


@dataclass(frozen=True)
class Failure:
    """The facts of one failed call; every field is plain data and pickles.

    Attributes:
        argv: The command.
        host: The name of the machine it ran on.
        cwd: Its working directory; None for a private one, which has been removed.
        returncode: Its exit code, or the negative number of the signal that ended it; None if
            it did not run to an end.
        elapsed: Seconds between its start and its end; None if it did not run to an end.
        stdout: What it wrote to stdout; None if that went to a file.
        stderr: The same for stderr.
        stderr_tail: The last lines of stderr, wherever that went.
        stdout_path: The file that has its stdout, None if captured.
        stderr_path: The file that has its stderr, None if captured.
        reason: What happened, where neither an exit code nor a signal says so.
        errno: The error number of the operating system, 0 if there is none.
    """

    argv: tuple[str, ...]
    host: str
    cwd: str | None = None
    returncode: int | None = None
    elapsed: float | None = None
    stdout: bytes | None = None
    stderr: bytes | None = None
    stderr_tail: str = ""
    stdout_path: str | None = None
    stderr_path: str | None = None
    reason: str = ""
    errno: int = 0


class ExternalError(Exception):
    """An external program failed.

    Its attributes are those of its `Failure`; ``signal`` is the name of the signal that ended the
    program (``SIGSEGV``), or None. It pickles.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)  # what pickle calls the class with again
        self.failure = failure
        self.argv = failure.argv
        self.host = failure.host
        self.cwd = failure.cwd
        self.returncode = failure.returncode
        self.elapsed = failure.elapsed
        self.stdout = failure.stdout
        self.stderr = failure.stderr
        self.stderr_tail = failure.stderr_tail
        self.stdout_path = failure.stdout_path
        self.stderr_path = failure.stderr_path
        self.signal = signal_name(failure.returncode)

    def __str__(self) -> str:
        failure = self.failure
        lines = [f"{command_line(failure.argv)}: {self._reason()}", f"  on host {failure.host}"]
        if failure.cwd is not None:
            lines.append(f"  in directory {failure.cwd}")
        if failure.stdout_path is not None:
            lines.append(f"  stdout is in {failure.stdout_path}")
        if failure.stderr_path is not None:
            lines.append(f"  stderr is in {failure.stderr_path}")
        if failure.stderr_tail:
            lines.append("  the last lines of stderr:")
            lines += [f"    {line}" for line in failure.stderr_tail.splitlines()]
        return "\n".join(lines)

    def _reason(self) -> str:
        if self.failure.reason or self.returncode is None:
            return self.failure.reason
        if self.signal is not None:
            return f"ended by signal {self.signal}"
        return f"exit code {self.returncode}"


class ExternalStartError(ExternalError):
    """A program could not be started: it, its directory or one of its files is unusable.

    Attributes:
        errno: The error number, as ``errno.ENOENT``.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.errno = failure.errno


class ExternalLostError(ExternalError):
    """It is unknown how a program ended, or the program cannot be ended.

    Either the process which watched over the program was killed, and the program with it, or some
    of the program's processes survive SIGKILL, as they do while a file system does not answer.
    """


class ExternalTimeoutError(ExternalError, trio.TooSlowError):
    """A program was ended at its time limit; its output until then is there.

    ``returncode`` is None, and ``elapsed`` the seconds until the last of its processes had ended.
    """


def signal_name(returncode: int | None) -> str | None:
    """Return the name of the signal behind a negative return code; None for an exit code.

    >>> signal_name(-11)
    'SIGSEGV'
    """
    if returncode is None or returncode >= 0:
        return None
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"SIG{-returncode}"  # a real-time signal


def command_line(argv: tuple[str, ...]) -> str:
    """Return a command as one would type it, shortened for a message."""
    line = shlex.join(argv)
    return line if len(line) <= 500 else f"{line[:500]}... ({len(argv)} arguments)"


def explain_start(step: str, path: str, code: int) -> str:
    """Return a sentence on a start that failed: the step, the path, and why.

    >>> import errno
    >>> explain_start("find", "xtb", errno.ENOENT)
    'program not found on PATH: xtb'
    """
    why = os.strerror(code)
    if step == "find" and code == 2:
        return f"program not found: {path}" if "/" in path else f"program not found on PATH: {path}"
    if step == "exec" and code == 2:
        return f"cannot run {path}: the interpreter that its first line or header names is missing"
    if step in ("find", "exec") and code == 13:
        return f"not an executable file: {path}"
    if step == "exec" and code == 8:
        return f"cannot run {path}: {why} (a script without a #! line, or another architecture?)"
    what = {
        "exec": "run",
        "bind": "bind it to the CPUs",
        "cwd": "use the working directory",
        "scratch": "make a scratch directory in",
        "stdin": "read stdin from",
        "stdout": "write stdout to",
        "stderr": "write stderr to",
    }
    return f"cannot {what.get(step, step)} {path}: {why}"


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an exception (PEP 678), on Python 3.10 where nothing prints it, too."""
    try:
        if hasattr(error, "add_note"):
            error.add_note(note)
        else:
            notes = [*getattr(error, "__notes__", ()), note]
            error.__notes__ = notes  # type: ignore[attr-defined,unused-ignore]
    except Exception:  # noqa: S110 - a class that wants no attributes does without
        pass


def add_note_once(error: BaseException, note: str) -> None:
    """Add a note to an exception that does not have it yet."""
    if note not in getattr(error, "__notes__", ()):
        add_note(error, note)
