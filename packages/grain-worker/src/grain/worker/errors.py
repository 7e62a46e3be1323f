"""Errors of tasks and workers that are not the tasklet's own; tracebacks as users see them.

A traceback that is printed has the user's frames. Grain's own frames say nothing to a user, nor do
frames of the libraries through which Grain and the user's code call each other. So they are left
out of what is printed, and of nothing else: the exceptions themselves stay as they are.
"""

from __future__ import annotations

import functools
import os
import shlex
import signal
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple

import trio
from msgspec.structs import replace

import grain
from grain.edge.version import replaced_code
from grain.eventlog.causes import NO_FAILURE, RunFailure, cut, decisive_line_of
from grain.resource.figures import span

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Generator

    from grain.eventlog.usage import Usage

__all__ = [
    "ExternalError",
    "ExternalLostError",
    "ExternalMemoryError",
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


class RunnerMemoryError(TaskletError, MemoryError):
    """The kernel has killed the process in which a task ran, as memory ran out.

    Only where the task's group learns its memory, and no other task was in that process. Any other
    is a crash, which may be another's fault.

    Attributes:
        memory_request: the GB that the task had.
    """

    def __init__(self, how: str, memory_request: float) -> None:
        super().__init__(how, memory_request)
        self.memory_request = memory_request

    def __str__(self) -> str:
        return f"{self.args[0]}; it asked for {self.memory_request:.3g} GB"


class PayloadError(TaskletError):
    """A function, argument, result or exception cannot travel between processes.

    It concerns only one task. Its message names the object and the reason.
    """


class RunnerUnusable(Exception):
    """No runner can be started on this worker; the message says why."""


class CodeReplaced(RuntimeError):
    """Grain was replaced where it is installed: a helper process would run other code than this.

    Attributes:
        why: as `grain.edge.version.replaced_code`.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"{self.why}, and cannot start its helpers any more: start this program again"

    @classmethod
    def check(cls) -> None:
        """Raise if that is so; to be called before a helper process is started.

        Raises:
            CodeReplaced: with the remedy.
        """
        if why := replaced_code():
            raise cls(why)


class UsageError(Exception):
    """A worker was started with options that make no sense; the message says which do."""


class OutputFile(NamedTuple):
    """The file of an output that was too large to be captured; whoever gets it removes it.

    Attributes:
        size: its bytes.
    """

    path: str
    size: int


@dataclass(frozen=True)
class Failure:
    """The facts of one failed call; every field is plain data and pickles.

    Attributes:
        host: the name of the machine it ran on.
        cwd: its working directory; None for a private one, which has been removed.
        returncode: its exit code, or the negative number of the signal that ended it; None if
            it did not run to an end.
        elapsed: seconds between its start and its end; None if it did not run to an end.
        stdout: what it wrote to stdout; None if that went to a file.
        stderr: the same for stderr.
        overflows: the files of stdout and of stderr, if they were captured and too large.
        stdout_tail: the last lines of stdout, if captured apart from stderr: many programs write
            there why they fail.
        stderr_tail: the last lines of stderr, wherever that went.
        stdout_path: the file that has its stdout, None if captured.
        stderr_path: the file that has its stderr, None if captured.
        reason: what happened, where neither an exit code nor a signal says so.
        errno: the error number of the operating system, 0 if there is none.
        unwatched: True if the process that watched over it was killed, and nothing of it is left.
        usage: what it has used; None if that is not known, or if it did not run.
        memory_request: the GB of memory that its task asked for; None if it asked for none.
        memory_limit: the GB that its control group may have; None without a limit.
        oom_kills: the number of processes of its control group that the kernel has killed while it
            ran, as memory ran out.
        own_group: True if no other program is in that group.
        evidence: by what it is known that it ended for want of memory; empty if it did not.
        exceeded: True if it was ended as it had more memory than it may have.
        member: the number of the member of a gang that it ran on by `run_on_members`.
        warned: before what it was warned: ``"time"`` for a time limit, ``"worker"`` for the end of
            its worker; empty if it was not.
        stopped_softly: True if it has ended by itself after that.
    """

    argv: tuple[str, ...]
    host: str
    cwd: str | None = None
    returncode: int | None = None
    elapsed: float | None = None
    stdout: bytes | None = None
    stderr: bytes | None = None
    overflows: tuple[OutputFile | None, OutputFile | None] = (None, None)
    stdout_tail: str = ""
    stderr_tail: str = ""
    stdout_path: str | None = None
    stderr_path: str | None = None
    reason: str = ""
    errno: int = 0
    unwatched: bool = False
    usage: Usage | None = None
    memory_request: float | None = None
    memory_limit: float | None = None
    oom_kills: int = 0
    own_group: bool = False
    evidence: str = ""
    exceeded: bool = False
    member: int | None = None
    warned: str = ""
    stopped_softly: bool = False


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
        self.overflows = failure.overflows
        self.stdout_tail = failure.stdout_tail
        self.stderr_tail = failure.stderr_tail
        self.stdout_path = failure.stdout_path
        self.stderr_path = failure.stderr_path
        self.usage = failure.usage
        self.signal = signal_name(failure.returncode)

    @property
    def peak_memory(self) -> float | None:
        """The largest memory of all its processes together, in GB; None if it is not known."""
        return None if self.usage is None else self.usage.peak_memory

    def __str__(self) -> str:
        failure = self.failure
        where = "" if failure.member is None else f"member {failure.member}, "
        lines = [f"{command_line(failure.argv)}: {self.reason}", f"  on {where}host {failure.host}"]
        if failure.cwd is not None:
            lines.append(f"  in directory {failure.cwd}")
        if failure.stdout_path is not None:
            lines.append(f"  stdout is in {failure.stdout_path}")
        if failure.stderr_path is not None:
            lines.append(f"  stderr is in {failure.stderr_path}")
        for name, tail in (("stdout", failure.stdout_tail), ("stderr", failure.stderr_tail)):
            if tail:
                lines.append(f"  the last lines of {name}:")
                lines += [f"    {line}" for line in tail.splitlines()]
        # Names of files and the output of programs may be of a stranger's choosing.
        return printable("\n".join(lines))

    @property
    def in_short(self) -> RunFailure:
        """The facts of the failure that logs and displays have, without class and message."""
        failure, memory = self.failure, isinstance(self, MemoryError)
        program = printable(Path(self.argv[0]).name)
        if failure.reason or failure.exceeded or self.returncode is None:
            return RunFailure("", "", program, None, "", memory, self.reason)
        status = None if self.signal else self.returncode
        line = printable(decisive_line_of(failure.stderr_tail, failure.stdout_tail))
        return RunFailure("", "", program, status, self.signal or "", memory, line)

    @property
    def reason(self) -> str:
        """The failure in words, without the command: ``ended by signal SIGSEGV``."""
        if self.failure.reason or self.returncode is None:
            return printable(self.failure.reason)
        if self.signal is not None:
            return f"ended by signal {self.signal}"
        return f"exit code {self.returncode}"


class ExternalStartError(ExternalError):
    """A program could not be started: it, its directory or one of its files is unusable.

    Attributes:
        errno: the error number, as ``errno.ENOENT``.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.errno = failure.errno


class ExternalLostError(ExternalError):
    """It is unknown how a program ended, or the program cannot be ended.

    Either the process which watched over the program was killed, and the program with it, or some
    of the program's processes survive SIGKILL, as they do while a file system does not answer.

    A task on a worker that ends by the first runs again, as after any crash.

    Attributes:
        unwatched: True for the first, if nothing of the program is left.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.unwatched = failure.unwatched


class ExternalMemoryError(ExternalError, MemoryError):
    """A program ended for want of memory, see `grain.worker.processes.out_of_memory`.

    Attributes:
        memory_request: the GB that the task asked for; None if it asked for none.
        memory_limit: the GB that the control group may have; None without a limit.
        oom_kills: the number of processes that the kernel has killed in the control group.
        evidence: by what this is known, as a clause.
        used: the largest memory of all its processes together, in GB.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.evidence = failure.evidence
        self.used = failure.usage.peak_memory if failure.usage is not None else 0.0
        self.memory_request = failure.memory_request
        self.memory_limit = failure.memory_limit
        self.oom_kills = failure.oom_kills

    @property
    def reason(self) -> str:
        """The failure in words, with the evidence for the want of memory."""
        failure = self.failure
        asked, limit = failure.memory_request, failure.memory_limit
        if failure.exceeded:
            return f"used {self.used:.2f} GB of {asked or 0:.3g} and was ended" + (
                f" after {span(failure.elapsed)}" if failure.elapsed is not None else ""
            )
        facts = [
            f"peak memory {self.peak_memory or 0.0:.2f} GB",
            "no Memory asked for" if asked is None else f"{asked:g} GB asked for",
        ]
        if limit is not None:
            facts.append(f"limit of the control group {limit:.2f} GB")
        if failure.oom_kills:
            whose = "its" if failure.own_group else "the worker's"
            facts.append(f"oom_kill {failure.oom_kills} in the events of {whose} control group")
        killed = failure.oom_kills or failure.returncode in (-signal.SIGKILL, 137)
        how = "killed for want of memory: " if killed else "failed for want of memory: "
        return f"{how}{super().reason} ({', '.join(facts)})"


class ExternalTimeoutError(ExternalError, trio.TooSlowError):
    """A program was ended at its time limit, or stopped before it; its output is there.

    ``returncode`` is None if it was ended, and ``elapsed`` the seconds until the last of its
    processes had ended.

    Attributes:
        stopped_softly: True if it has stopped by itself after a warning.
        warned: before what it was warned: ``"time"``, ``"worker"``, or "" if it was not.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.warned = failure.warned
        self.stopped_softly = failure.stopped_softly


RAISED_BY_TEXTS = (Exception, SystemExit, GeneratorExit)
"""The errors of a ``__str__`` or ``__repr__`` of the user's, of which none is to end a process."""


def failure_of(error: BaseException) -> RunFailure:
    """Return why a run failed, with the whole text of its exception, or of a group's only one.

    An exception that knows more of it has a `RunFailure`, without class and message, as
    ``in_short``.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    known, text = None, ""
    with suppress(*RAISED_BY_TEXTS):
        known, text = getattr(error, "in_short", None), str(error).strip()
    message = sendable(text)
    known = known if isinstance(known, RunFailure) else NO_FAILURE
    parts = {"error": type(error).__name__, "program": known.program, "line": known.line}
    return replace(known, message=message, **{name: cut(part) for name, part in parts.items()})


def exceeded_memory(error: BaseException) -> bool:
    """Return True if an exception, or one of a group, says that memory was too little."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(exceeded_memory, error.exceptions))
    return isinstance(error, MemoryError)


def how_failed(error: BaseException) -> Literal["memory", "stopped", "time", "failed"]:
    """Return the way in which an attempt failed, as `grain.worker.messages.PastAttempts` has it."""
    if exceeded_memory(error):
        return "memory"
    behind = [error, *all_behind(error)]
    if any(isinstance(one, ExternalTimeoutError) and one.stopped_softly for one in behind):
        return "stopped"
    return "time" if any(isinstance(one, trio.TooSlowError) for one in behind) else "failed"


def note_memory(error: BaseException, amount: float, *, last: bool = False) -> None:
    """Tell exceptions that say that memory was too little how much it was.

    Args:
        error: one of them, or a group.
        amount: in GB.
        last: as of `Memory`.
    """
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            note_memory(one, amount, last=last)
    elif isinstance(error, MemoryError):
        error.memory_last = last  # type: ignore[attr-defined]
        if not isinstance(error, ExternalMemoryError):
            error.memory_request = amount  # type: ignore[attr-defined]


def noted_last(error: BaseException) -> bool:
    """Return True if the memory that was too little was noted as the most that there is."""
    return getattr(error, "memory_last", False) is True


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
    """Return a command as one would type it, in one line, shortened for a message."""
    line = " ".join(map(_typed, argv))
    return line if len(line) <= 500 else f"{line[:500]}... ({len(argv)} arguments)"


def _typed(word: str) -> str:
    r"""Return a word as one types it in a shell: by bash's quotes if it has ends of lines.

    >>> print(_typed("a b"), _typed("it's\n"))
    'a b' $'it\'s\n'
    """
    if len(word.splitlines()) < 2 and "\n" not in word and "\r" not in word:
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, word))}'"


def _escaped(character: str) -> str:
    if short := _ESCAPES.get(character):
        return short
    return character if character.isprintable() else f"\\u{ord(character):04x}"


_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


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
    if step == "link":
        return (
            f"cannot write to {path}: another user has made this link, and it could lead to a file "
            "of yours: remove it, or choose another name"
        )
    if step == "input":
        return f"cannot write to {path}: the program reads it, and that would empty it"
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


TAIL = 16384
"""Bytes at the end of an output that messages may show."""


def last_lines(output: bytes, most: int = 20) -> str:
    """Return the last lines of what a program has written, as text."""
    lines = output[-TAIL:].decode(errors="replace").splitlines()
    return "\n".join(line[:1000] for line in lines[-most:])


# Controls, marks that turn the direction of writing, bytes that are not text, ends of lines and
# paragraphs.
_CONTROL = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str) -> str:
    r"""Replace every character that controls a terminal by a question mark.

    Lines and tabs stay.

    >>> printable("a\x1b[2Jb")
    'a?[2Jb'
    """
    if text.isprintable():
        return text
    import unicodedata

    return "".join(
        "?" if one not in "\n\t" and unicodedata.category(one) in _CONTROL else one for one in text
    )


def sendable(text: str) -> str:
    r"""Return a text that messages and logs can carry, with escapes for halves of characters.

    Names of files have these for bytes that are not UTF-8.

    >>> print(sendable("no file caf\udce9"))
    no file caf\udce9
    """
    return text.encode(errors="backslashreplace").decode()


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


# ---- tracebacks

# Libraries whose frames say nothing to a user where they adjoin frames of Grain; so do those of
# the standard library.
_BETWEEN = ("trio", "outcome", "exceptiongroup", "dill", "msgspec", "cryptography")
# The exceptions of others that Grain raises on purpose.
_DELIBERATE = (TypeError, ValueError, RuntimeError, OSError, trio.TooSlowError)


def shows_all_frames() -> bool:
    """Return True if the user wants to see Grain's frames: ``GRAIN_TRACEBACK=full``."""
    return os.environ.get("GRAIN_TRACEBACK", "") == "full"


def users_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return a traceback without Grain's frames; the given one does not change.

    Frames of the standard library and of Grain's dependencies go as well where they adjoin frames
    of Grain. Others stay, as those of a library that the user's code calls.
    """
    folders = _Folders.now()
    kept: list[TracebackType] = []
    adjoining: list[TracebackType] = []
    with_grain = False
    while frames is not None:
        kind = folders.kind(frames)
        if kind is _Kind.USER:
            kept += [*([] if with_grain else adjoining), frames]
            adjoining, with_grain = [], False
        else:
            adjoining.append(frames)
            with_grain |= kind is _Kind.GRAIN
        frames = frames.tb_next
    kept += [] if with_grain else adjoining
    result: TracebackType | None = None
    for one in reversed(kept):
        result = TracebackType(result, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return result


@contextmanager
def short_tracebacks(error: BaseException) -> Generator[None]:
    """Give an exception a traceback of the user's frames during the block, which prints it.

    So have its causes and the members of groups. A cause that arose within Grain, and was handled
    there, is hidden. An exception that Grain did not mean to raise, as it has a bug, stays whole,
    and so does everything if `shows_all_frames`.
    """
    before = [] if shows_all_frames() else [_Whole.of(one) for one in all_behind(error)]
    bugs = {id(one.error) for one in before if _is_bug(one.error)}
    short = {id(one.error): users_frames(one.frames) for one in before}
    hidden = {
        id(one.error)
        for one in before
        if one.frames is not None and short[id(one.error)] is None and id(one.error) not in bugs
    }
    try:
        for one in before:
            if id(one.error) in bugs:
                continue
            cause = None if id(one.cause) in hidden else one.cause
            context = None if id(one.context) in hidden else one.context
            one._replace(frames=short[id(one.error)], cause=cause, context=context).apply()
        yield
    finally:
        for one in before:
            one.apply()


class _Kind(Enum):
    """The owner of a frame."""

    USER = "user"
    GRAIN = "grain"
    LIBRARY = "library"


class _Whole(NamedTuple):
    """The parts of an exception that `short_tracebacks` changes and restores."""

    error: BaseException
    frames: TracebackType | None
    cause: BaseException | None
    context: BaseException | None
    suppressed: bool

    @classmethod
    def of(cls, error: BaseException) -> _Whole:
        """Return those of an exception."""
        suppressed = error.__suppress_context__
        return cls(error, error.__traceback__, error.__cause__, error.__context__, suppressed)

    def apply(self) -> None:
        """Give them to the exception, even if its class refuses attributes."""
        put = functools.partial(BaseException.__setattr__, self.error)
        put("__traceback__", self.frames)
        put("__cause__", self.cause)
        put("__context__", self.context)
        put("__suppress_context__", self.suppressed)  # last: a new cause sets it


def all_behind(error: BaseException) -> list[BaseException]:
    """Return an exception, the members of groups, and their causes and contexts, each once."""
    seen: dict[int, BaseException] = {}
    stack: list[BaseException | None] = [error]
    while stack:
        one = stack.pop()
        if one is None or id(one) in seen:
            continue
        seen[id(one)] = one
        stack += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            stack += one.exceptions
    return list(seen.values())


def _is_bug(error: BaseException) -> bool:
    """Return True for an exception that Grain raised, and did not mean to.

    A frame of Grain's that only passes on what others raise has ``__tracebackhide__``, by which
    pytest and IPython hide it, too.
    """
    frames = error.__traceback__
    if (
        frames is None
        or not isinstance(error, Exception)
        or isinstance(error, (*_DELIBERATE, BaseExceptionGroup))
        or type(error).__module__.partition(".")[0] == "grain"
    ):
        return False
    folders = _Folders.now()
    last = None  # the frame of Grain below which there are none but of libraries
    while frames is not None:
        kind = folders.kind(frames)
        if kind is _Kind.GRAIN:
            last = frames.tb_frame
        elif kind is _Kind.USER:
            last = None
        frames = frames.tb_next
    return last is not None and not last.f_locals.get("__tracebackhide__", False)


class _Folders(NamedTuple):
    """The folders by which frames are told apart."""

    grain: tuple[str, ...]
    libraries: tuple[str, ...]
    standard: str

    @classmethod
    def now(cls) -> _Folders:
        """Return the folders of what is imported."""
        modules = [sys.modules[name].__file__ for name in _BETWEEN if name in sys.modules]
        return cls(
            tuple(f"{path}{os.sep}" for path in grain.__path__),
            (*(f"{Path(file).parent}{os.sep}" for file in modules if file), "<frozen "),
            f"{Path(os.__file__).parent}{os.sep}",
        )

    def kind(self, frames: TracebackType) -> _Kind:
        """Return whose the first frame of a traceback is."""
        name = frames.tb_frame.f_code.co_filename
        if name.startswith(self.grain):
            return _Kind.GRAIN
        if name.startswith(self.libraries):
            return _Kind.LIBRARY
        # Most often, the packages that are installed are in a folder of the standard library.
        if name.startswith(self.standard) and "-packages" not in name[len(self.standard) :]:
            return _Kind.LIBRARY
        return _Kind.USER


class MemberLost(Exception):
    """A member is lost, and with it the run.

    Attributes:
        index: of the member: 0 for the root, whose process has ended.
        joined: True if all members had joined; False if nothing has run yet.
        worker: the name of its worker; empty for the root.
        why: the reason, in a clause.
        ends: True if that is being ended, by a batch system or a person.
    """

    def __init__(
        self,
        index: int,
        name: str,
        why: str,
        *,
        joined: bool,
        worker: str = "",
        ends: bool = False,
    ) -> None:
        super().__init__(f"{name} {'is lost' if joined else 'has not joined'}: {why}")
        self.index = index
        self.why = why
        self.joined = joined
        self.worker = worker
        self.ends = ends
