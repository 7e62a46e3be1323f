"""Run an external program: the one call by which a tasklet uses a binary.

::

    from grain.worker.external import run_external

    async def energy(path):
        done = await run_external(["xtb", path, "--gfn2"], timeout=3600)
        return parse(done.stdout_text)

It differs from `trio.run_process` in that the program gets the CPUs and GPUs that Grain allocated
to the task (``GVAR.res``), and in that no process survives the call, whatever happens. It works
in any trio program on Linux; without an allocation nothing is bound.

The call is named `run_external`, not ``run``, because a tasklet's module usually has
``grain.delayed.run`` in sight.

The room `processes` has what it consists of: an allocation becomes variables and CPU ids, and the
launcher of an MPI program; small processes start the programs and end them (`guards`).
"""

from __future__ import annotations

import errno
import json
import math
import os
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from grain import GVAR
from grain.eventlog.usage import Usage
from grain.files.processes import this_process
from grain.resource import learned
from grain.worker.call import program_listener
from grain.worker.errors import (
    ExternalError,
    ExternalLostError,
    ExternalMemoryError,
    ExternalStartError,
    ExternalTimeoutError,
    Failure,
    command_line,
    explain_start,
    last_lines,
)
from grain.worker.node.cgroup import read_cgroups
from grain.worker.node.shortage import largest
from grain.worker.processes.account import RunAccount, of_call
from grain.worker.processes.environment import USABLE, binding, environment, note_given
from grain.worker.processes.fork_server_client import ForkServerClient, LostError, ProgramResult
from grain.worker.processes.mpi import members, mpi_prefix
from grain.worker.processes.out_of_memory import evidence_of_memory
from grain.worker.processes.supervisor_client import ProgramExit, StartFailure, StuckError
from grain.worker.processes.warning import BEFORE, EarlyWarning, UnusableWarning, Warn

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from grain.worker.guards.protocol import ProgramRequest
    from grain.worker.processes.mpi import Members, MembersCall

    StrPath = str | os.PathLike[str]

__all__ = [
    "CAPTURE",
    "STDOUT",
    "Completed",
    "ExternalError",
    "ExternalLostError",
    "ExternalMemoryError",
    "ExternalStartError",
    "ExternalTimeoutError",
    "mpi_prefix",
    "run_external",
    "run_on_members",
]

_FEW_LINES = 10  # of stdout, which is the smaller chance to have the reason
ATTEMPTS = 3
"""Fork servers to try: only the next call notices that an idle one was killed."""


class _Stream(Enum):
    CAPTURE = "CAPTURE"
    STDOUT = "STDOUT"


CAPTURE: Final = _Stream.CAPTURE
"""The default of ``stdout=`` and ``stderr=``: into the `Completed`."""

STDOUT: Final = _Stream.STDOUT
"""For ``stderr=``: the same place as stdout, in the order of writing."""


@dataclass(frozen=True)
class Completed:
    """A program that has ended: exit code, output, costs.

    Attributes:
        returncode: its exit code, or the negative number of the signal that ended it.
        stdout: what it wrote to stdout; None if that went to a file.
        stderr: the same for stderr; None also if it went to stdout.
        elapsed: seconds between its start and its end.
        user: seconds of CPU time in user mode, of the program and all that it started.
        system: the same in the kernel.
        max_rss: the largest resident set of any one of these processes, in GB (1e9 bytes). At least
            0.01 or so, as Linux counts in the small process that starts the program.
        host: the name of the machine it ran on.
        usage: what it has used, in the same units as a whole run's: see ``GVAR.usage``.
        warned: ``"time"`` if it was warned of a time limit before it ended; else empty.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes | None
    stderr: bytes | None
    elapsed: float
    user: float
    system: float
    max_rss: float
    host: str
    usage: Usage = field(default_factory=Usage)
    warned: str = ""

    @property
    def peak_memory(self) -> float:
        """The largest memory of all its processes together, in GB: what to ask for."""
        return self.usage.peak_memory

    @property
    def stdout_text(self) -> str:
        """Stdout as text, with bytes that are not UTF-8 replaced; empty if it went to a file."""
        return (self.stdout or b"").decode(errors="replace")

    @property
    def stderr_text(self) -> str:
        """Stderr as text, with bytes that are not UTF-8 replaced; empty if it went elsewhere."""
        return (self.stderr or b"").decode(errors="replace")


async def run_external(
    argv: Sequence[StrPath],
    *,
    cwd: StrPath | None = None,
    env: Mapping[str, str | None] | None = None,
    stdin: bytes | StrPath | None = None,
    stdout: StrPath | _Stream = CAPTURE,
    stderr: StrPath | _Stream = CAPTURE,
    timeout: float | None = None,  # noqa: ASYNC109 (it bounds the program, not the waiting)
    grace: float = 1.0,
    check: bool = True,
    bind: bool = True,
    threads: int | None = None,
    scratch: bool = False,
    here: bool = False,
    enforce: bool | None = None,
    memory_signs: Sequence[str] = (),
    warn: Warn | Callable[[], Awaitable[object]] | None = None,
    warn_before: float | None = None,
) -> Completed:
    """Run a program to its end, and to the end of everything it started.

    The program has a session of its own, so Ctrl-C at the terminal reaches only Python. It
    inherits the environment, its umask and limits (those of the first call in this trio run),
    and no open files but its three streams.

    Args:
        argv: the program and its arguments; no shell is involved. A name without a slash is
            searched for on the program's PATH, a relative path starts at `cwd`.
        cwd: the directory to run in, from ``GVAR.cwd`` if it is relative; by default that one
            (the mission's directory, where the worker has it), or the scratch directory.
        env: changes to the inherited environment. They win over the mission's (``GVAR.env``), and
            these over the allocation's; None as a value removes a variable.
        stdin: what the program reads: bytes, or the path of a file, relative to `cwd`; nothing by
            default.
        stdout: `CAPTURE`, or the path of a file to write, relative to `cwd`.
        stderr: the same, or `STDOUT`.
        timeout: seconds after which the program is ended and `ExternalTimeoutError` raised. The
            end of what it left behind does not count.
        grace: seconds between SIGTERM and SIGKILL wherever processes have to be ended.
        check: raise if the exit code is not 0, or a signal ended the program.
        bind: set the CPU affinity to the allocated CPUs (sched_setaffinity(2)).
        threads: the value for OMP_NUM_THREADS and its siblings instead of the number of
            allocated CPUs; 1 for a program that uses processes instead.
        scratch: make a private directory below $TMPDIR, or /tmp, which is the program's TMPDIR
            and, without `cwd`, its working directory. It is removed when the tree is gone, and
            also when the calling process was killed.
        here: set it for a program that a mission's own process is meant to run, without cores of
            its own. A mission warns of others once: they mostly lack an ``@ Cores(1)``.
        enforce: True to end the program if it has more memory than its task asked for: by 2 %, and
            50 MB at least, in two looks. By default only where the amount is learned, as of
            ``Memory(32, group="opt")``, or where the worker does so (``worker.enforce``). Programs
            of one task are each held to the whole amount, and so are its ranks on each member of a
            gang.
        memory_signs: texts in the last lines of its output by which a program that fails says that
            memory was too little.
        warn: what asks the program to stop by itself, so that it can be continued: the name of a
            file to make in `cwd`, or a pair of its name and its text; a signal to the program, as
            ``signal.SIGTERM`` or ``"SIGTERM"``; an async function. A file of this name is removed
            at the start and at the end.
        warn_before: so many seconds, 60 by default, before the first of `timeout`, the time limit
            of the task and the end of the worker; at once if the worker is to leave. If the worker
            has less than twice as many left at the start, or a time limit that was estimated, after
            half of that.

    Raises:
        ExternalError: the program failed, and `check` is set. The message has the reason, the host
            and the last lines of stderr.
        ExternalMemoryError: the program ended for want of memory, and `check` is set; without it,
            too, if it was ended as it had more than its amount.
        ExternalStartError: the program, `cwd` or a file cannot be used.
        ExternalLostError: it is unknown how the program ended, or it cannot be ended.
        ExternalTimeoutError: at the time limit, when the whole tree is gone. It has what the
            program wrote until then, and is a `trio.TooSlowError`, too. Also, with
            ``stopped_softly``, if the program failed after a warning of a time limit, and `check`
            is set; and if it ended, in whatever way, after one of the end of its worker. Let that
            one pass: then the task runs again elsewhere, where ``GVAR.last`` says so.
        OSError: this process has too many open files.
        ValueError, TypeError: for arguments that no program can have.

    On cancellation, and on Ctrl-C, the whole tree of processes is ended before the exception
    goes on: SIGTERM to all, SIGKILL after `grace`, including processes that have left the
    session, were orphaned, or have changed their environment. When a program ends normally, what
    it left running in the background is ended likewise, and a cancellation meanwhile does not
    take its result away. When the calling process is killed, so are the programs.
    """
    _check_timeout(timeout)
    call = ProgramCall(
        argv, cwd, env or {}, stdin, stdout, stderr, grace, bind, threads, scratch,
        enforce=enforce, memory_signs=memory_signs,
    )  # fmt: skip
    listener = program_listener.get()
    if listener is not None and not here and not GVAR.res.parts():
        listener(argv)
    if GVAR.attempt > 1:
        call.request["env"].setdefault(b"GRAIN_ATTEMPT", b"%d" % GVAR.attempt)
    warning = _warning(warn, warn_before, timeout, call.cwd)
    if warning is None:
        return await run_program_call(call, timeout, check=check)
    return await run_warned(call, timeout, warning, check=check)


async def run_on_members(
    argv: Sequence[StrPath] | Callable[[int], Sequence[StrPath]],
    *,
    cwd: StrPath | None = None,
    env: Mapping[str, str | None] | None = None,
    output: Callable[[int], StrPath] | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 (it bounds the programs, not the waiting)
    grace: float = 1.0,
    threads: int | None = None,
    enforce: bool | None = None,
    memory_signs: Sequence[str] = (),
    warn: Warn | Callable[[], Awaitable[object]] | None = None,
    warn_before: float | None = None,
) -> list[Completed]:
    """Run a program on each member of the task's gang at the same time, and wait for all ends.

    It is for programs that find each other by themselves, without MPI::

        host = GVAR.res.nodes[0].address
        await run_on_members(
            lambda number: ["torchrun", "--nnodes=4", f"--node-rank={number}",
                            f"--master-addr={host}", "--master-port=29500", "train.py"]
        )

    Each program has the CPUs, GPUs and threads of its member, and the environment of this process
    but for what is a member's own, such as TMPDIR. A task on one worker runs one program.

    The first program that fails ends all others. When the call returns, raises or is cancelled,
    nothing of the programs is left on any member, as with `run_external`.

    Args:
        argv: the program and its arguments, or a function that returns them for the number of a
            member: 0 is the one where the task runs. Look at ``GVAR.res.nodes[number]``.
        cwd: the directory to run in, as in `run_external`; each member needs it.
        env: changes to the environment, which win over what is the member's own.
        output: a function that returns the file for what a member's program writes to stdout and
            stderr, relative to `cwd`. By default, the last 64 kB are in the result.
        timeout: seconds after which all are ended, and `ExternalTimeoutError` is raised.
        grace, threads, enforce, memory_signs, warn_before: as in `run_external`, for each program.
        warn: likewise. All are warned at the same time, and one that stops softly does not end the
            others. A file is made on each member, and removed here when all have ended; elsewhere,
            where the directory is not shared, at the next start. A function is called once, here.

    Returns:
        How the programs have ended, one for each member, in order.

    Raises:
        ExternalError: one has failed. The message has member and host, and the last lines of its
            output. Subclasses as of `run_external`.
        ValueError, TypeError: for arguments that no program can have.
    """
    _check_timeout(timeout)
    if output is not None and not callable(output):
        raise TypeError(
            f"output={output!r}: write a function of the member's number, as members may share "
            'the directory: output=lambda number: f"out.{number}"'
        )
    gang = members.get()
    programs = [
        ProgramCall(
            argv(number) if callable(argv) else argv,
            cwd, env or {}, None, CAPTURE if output is None else output(number), STDOUT, grace,
            True, threads, False, enforce=enforce, memory_signs=memory_signs,
        )
        for number in range(1 if gang is None else len(gang.cpus))
    ]  # fmt: skip
    warning = _warning(warn, warn_before, timeout, programs[0].cwd)
    if gang is None:
        if warning is None:
            return [await run_program_call(programs[0], timeout, check=True)]
        return [await run_warned(programs[0], timeout, warning, check=True)]
    call = gang.call(enforce, memory_signs, warning)
    return await _run_members(
        call, programs, {**GVAR.env, **(env or {})}, timeout, threads, warning
    )


async def _run_members(
    members_call: AbstractAsyncContextManager[MembersCall],
    programs: Sequence[ProgramCall],
    changes: Mapping[str, str | None],
    timeout: float | None,  # noqa: ASYNC109 (it bounds the programs, not the waiting)
    threads: int | None,
    warning: EarlyWarning | None,
) -> list[Completed]:
    """Run the programs of all members, as `run_on_members`."""
    completed: dict[int, Completed] = {}
    failed: list[ExternalError] = []
    of_warning: list[Exception] = []  # what the user's function has raised

    async def run(number: int) -> None:
        request = programs[number].request
        try:
            completed[number] = await call.run(
                number,
                argv=request["argv"],
                cwd=os.fsencode(programs[number].cwd or ""),
                changes=changes,
                stdout=request["stdout"],
                timeout=timeout,
                grace=request["grace"],
                threads=threads,
            )
        except ExternalError as error:
            failed.append(error)
            if not _is_soft(error):
                nursery.cancel_scope.cancel()

    async def watch(warning: EarlyWarning) -> None:
        try:
            await warning.watch(programs[0].request, call.warn)
        except Exception as error:
            of_warning.append(error)
            nursery.cancel_scope.cancel()

    try:
        async with members_call as call, trio.open_nursery() as watching:
            async with trio.open_nursery() as nursery:
                if warning is not None:
                    watching.start_soon(watch, warning)
                for number in range(len(programs)):
                    nursery.start_soon(run, number)
            watching.cancel_scope.cancel()
    finally:
        if warning is not None:
            await warning.clear()
    if of_warning:
        raise of_warning[0]
    if failed:
        raise failed[0] if warning is None else _of_members(failed, warning)
    if call.refused:
        raise programs[0].refused(call.refused)
    return [completed[number] for number in range(len(programs))]


async def run_program_call(
    call: ProgramCall,
    timeout: float | None,  # noqa: ASYNC109 (it bounds the program, not the waiting)
    *,
    check: bool,
    scope: trio.CancelScope | None = None,
) -> Completed:
    """Run the program of a call to its end; arguments and errors as of `run_external`.

    Args:
        scope: gets the time limit as its deadline, which may come forward meanwhile.
    """
    began, scope = trio.current_time(), scope or trio.CancelScope()
    if timeout is not None:
        scope.deadline = began + timeout
    with scope:
        return call.completed(await call.run(), check)
    late = call.cancelled_result
    if late is not None and isinstance(late.report, ProgramExit) and late.report.by_itself:
        return call.completed(late, check)  # only what it left behind took so long
    raise call.timed_out(f"ended after its time limit of {scope.deadline - began:g} s")


async def run_warned(
    call: ProgramCall,
    timeout: float | None,  # noqa: ASYNC109 (it bounds the program, not the waiting)
    warning: EarlyWarning,
    *,
    check: bool,
    scope: trio.CancelScope | None = None,
) -> Completed:
    """Run the program of a call to its end, and warn it before; as `run_program_call`."""
    try:
        await warning.prepare()
    except UnusableWarning as error:
        raise ExternalStartError(call.failure(reason=str(error), errno=errno.ENOENT)) from None
    ended: Completed | ExternalError | None = None
    failed: list[Exception] = []

    async def watch() -> None:
        try:
            await warning.watch(call.request)
        except Exception as error:  # of the user's function
            failed.append(error)
            nursery.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            try:
                ended = await run_program_call(call, timeout, check=check, scope=scope)
            except ExternalError as error:
                ended = error
            nursery.cancel_scope.cancel()
    finally:
        await warning.clear()
    if failed:
        raise failed[0]
    assert ended is not None  # or an exception has left the nursery
    _note_soft_stop(warning)
    return _after_warning(ended, warning, check=check)


def _warning(
    warn: Warn | Callable[[], Awaitable[object]] | None,
    before: float | None,
    timeout: float | None,
    directory: str | None,
) -> EarlyWarning | None:
    """Return the warning that a call asks for; errors as of `run_external`."""
    if warn is None:
        if before is not None:
            raise ValueError(
                f'warn_before={before!r}: state how to warn it, too, as in warn="EXIT"'
            )
        return None
    return EarlyWarning(warn, BEFORE if before is None else before, timeout, directory)


def _note_soft_stop(warning: EarlyWarning) -> None:
    """Have the task run again, if its program was warned of the end of a worker.

    Whatever the function makes of the error: what it returns is not the result of a program that
    has come to its end.
    """
    if warning.cause == "worker" and isinstance(GVAR.account, RunAccount):
        GVAR.account.stopped = True


def _of_members(failed: Sequence[ExternalError], warning: EarlyWarning) -> ExternalError:
    """Return the error of a call whose programs have failed on some members."""
    _note_soft_stop(warning)
    error = next((one for one in failed if not _is_soft(one)), failed[0])
    return _limited(error, warning) if isinstance(error, ExternalTimeoutError) else error


def _is_soft(error: ExternalError) -> bool:
    return isinstance(error, ExternalTimeoutError) and error.stopped_softly


def _after_warning(
    ended: Completed | ExternalError, warning: EarlyWarning, *, check: bool
) -> Completed:
    """Return the end of a program that was to be warned, or raise its error."""
    if isinstance(ended, ExternalTimeoutError):
        failure = replace(ended.failure, warned=warning.cause)
        if warning.trouble:
            failure = replace(failure, reason=f"{failure.reason}; {warning.trouble}")
        raise _limited(ExternalTimeoutError(failure), warning)
    if isinstance(ended, ExternalError):
        if not warning.cause or type(ended) is not ExternalError:
            raise ended
        failure = ended.failure
    elif not warning.cause:
        return ended
    elif warning.cause == "time" and (ended.returncode == 0 or not check):
        return replace(ended, warned=warning.cause)
    else:
        failure = Failure(
            argv=ended.argv,
            host=ended.host,
            returncode=ended.returncode,
            elapsed=ended.elapsed,
            stdout=ended.stdout,
            stderr=ended.stderr,
            usage=ended.usage,
        )
    before = "its worker's end" if warning.cause == "worker" else "its time limit"
    reason = f"stopped softly before {before}, by {warning.told}: {ExternalError(failure).reason}"
    soft = not warning.signal or failure.returncode != -warning.signal
    if not soft:
        reason = (
            f"ended at once by {warning.told}, {warning.before:g} s before {before}: it does not "
            "handle that signal, so it has stored nothing; state another, or a file"
        )
    failure = replace(failure, reason=reason, warned=warning.cause, stopped_softly=soft)
    raise _limited(ExternalTimeoutError(failure), warning)


def _limited(error: ExternalTimeoutError, warning: EarlyWarning) -> ExternalTimeoutError:
    """Tell an error the hard limit of its task, if that was the reason, for the next attempt."""
    if warning.limit:
        error.limit = warning.limit  # type: ignore[attr-defined]
    return error


def ending_programs() -> list[float]:
    """Return the grace, in seconds, of each program of this trio run that was told to end."""
    programs = ForkServerClient.programs_of_this_run()
    return [program.request["grace"] for program in programs if program.supervisor.ending]


def kill_ending_programs() -> None:
    """End the programs of this trio run that were told to end, without any more grace."""
    for program in ForkServerClient.programs_of_this_run():
        if program.supervisor.ending:
            program.supervisor.cancel_now()


def enforces() -> bool:
    """Return True if programs of the running task are held to its memory unless a call says no."""
    of_worker = getattr(GVAR.surroundings, "enforce", False)
    return (of_worker and hasattr(GVAR.res, "M")) or learned(GVAR.res) is not None


def _argv_text(argv: Sequence[StrPath]) -> str:
    """Return the message for a command that is not a list of words, with the list to write."""
    text = "argv must be a sequence of strings: the program and its arguments"
    line = os.fsdecode(argv) if isinstance(argv, (str, bytes)) else ""
    try:
        words = shlex.split(line)
    except ValueError:  # a quote that is not closed
        words = line.split()
    if not words:
        return f'{text}, as in ["echo", "a"]'
    return f"{text}; write [{', '.join(map(json.dumps, words))}]"


def _check_types(
    argv: object,
    cwd: object,
    env: object,
    stdin: object,
    stdout: object,
    stderr: object,
    grace: object,
    threads: object,
) -> None:
    """Raise an error that names the argument of a wrong type, and what to write."""
    if not isinstance(argv, Sequence):
        raise TypeError(f'argv={argv!r}: write a list of strings, as in ["echo", "a"]')
    for word in argv:
        if not isinstance(word, str | os.PathLike):
            text = os.fsdecode(word) if isinstance(word, bytes) else str(word)
            raise TypeError(f"argv: {word!r} is not a string; write {text!r} instead of it")
    if not isinstance(env, Mapping):
        raise TypeError(f'env={env!r}: write names and values, as in env={{"A": "1"}}')
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str | None):
            right = None if value is None else str(value)
            raise TypeError(
                f"env: {name!r}: {value!r}: a variable has a string as its name and as its value; "
                f"write env={{{str(name)!r}: {right!r}}}, or None to remove it"
            )
    for which, path in ("cwd", cwd), ("stdout", stdout), ("stderr", stderr):
        if not isinstance(path, str | os.PathLike | _Stream) and (path, which) != (None, "cwd"):
            raise TypeError(f'{which}={path!r}: write the path of a file, as in {which}="out"')
    if stdin is not None and not isinstance(stdin, bytes | str | os.PathLike):
        raise TypeError(f"stdin={stdin!r}: write bytes, as in stdin=b'text', or the path of a file")
    if not isinstance(grace, Real):
        raise TypeError(f"grace={grace!r}: write a number of seconds, as in grace=10")
    if threads is not None and not isinstance(threads, Integral):
        raise TypeError(f"threads={threads!r}: write a number, as in threads=1")


def _check_memory(enforce: object, memory_signs: Any) -> None:
    if not isinstance(enforce, bool | None):
        raise TypeError(f"enforce={enforce!r}: write True or False")
    texts = isinstance(memory_signs, Sequence) and not isinstance(memory_signs, str | bytes)
    if not texts or not all(isinstance(sign, str) and sign for sign in memory_signs):
        raise TypeError(
            f"memory_signs={memory_signs!r}: write a list of texts, as in "
            'memory_signs=["not enough memory"]'
        )


def _check_timeout(timeout: object) -> None:
    if timeout is None:
        return
    if not isinstance(timeout, Real):
        raise TypeError(f"timeout={timeout!r}: write a number of seconds, as in timeout=60")
    if not float(timeout) >= 0:  # nor a number at all
        raise ValueError(f"timeout={timeout!r}: write a number of seconds that is not negative")


class ProgramCall:
    """A call: turns its arguments into a request, and the report into a result or an error.

    Args:
        inherited: the environment that the program inherits; by default that of this process.
        warned: True for a program for which SIGUSR1 and SIGUSR2 have their default action: it
            handles warnings by itself, as a batch job does that traps them.
        append: True for `stdout`, and for `stderr`, to append to the file instead of emptying it.
        of_shell: the umask and the soft limits of the shell from which a job was submitted, see
            `grain.worker.guards.protocol.ProgramRequest`; None for those of this process.
        name: of a script, by which it is called; None for that of its file.
        enforce, memory_signs: as of `run_external`.
        memory: the GB of memory that its task asked for; by default those of ``GVAR.res``.
        counted: False for a process of Grain's own, whose use is not that of the run.
    """

    def __init__(
        self,
        argv: Sequence[StrPath],
        cwd: StrPath | None,
        env: Mapping[str, str | None],
        stdin: bytes | StrPath | None,
        stdout: StrPath | _Stream,
        stderr: StrPath | _Stream,
        grace: float,
        bind: bool,
        threads: int | None,
        scratch: bool,
        *,
        inherited: Mapping[bytes, bytes] = os.environb,
        warned: bool = False,
        append: tuple[bool, bool] = (False, False),
        of_shell: tuple[int, dict[int, int]] | None = None,
        name: str | None = None,
        enforce: bool | None = None,
        memory_signs: Sequence[str] = (),
        memory: float | None = None,
        counted: bool = True,
    ) -> None:
        if isinstance(argv, (str, bytes)) or not argv:
            raise ValueError(_argv_text(argv))
        _check_memory(enforce, memory_signs)
        _check_types(argv, cwd, env, stdin, stdout, stderr, grace, threads)
        if stdout is STDOUT:
            raise ValueError("stdout=STDOUT: only stderr can go to the same place as stdout")
        if not 0 <= grace < math.inf:
            raise ValueError(f"grace must be a number of seconds, not {grace}")
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        self.argv = tuple(os.fspath(word) for word in argv)
        res = GVAR.res
        self.memory: float | None = getattr(res, "M", None) if memory is None else memory
        self.memory_signs = tuple(memory_signs)
        self._counted = counted
        self._enforce = enforce
        self._gang: Members | None = None
        self._call: MembersCall | None = None
        if enforce is None:
            enforce = enforces()
        if enforce and self.memory is None:
            raise ValueError(
                "enforce=True: the task asks for no memory, so state it, as in @ Memory(8)"
            )
        changes = {**GVAR.env, **env}
        variables = environment(res, inherited, changes, threads, worker=os.environb)
        if cwd is None:
            self.cwd = None if scratch else GVAR.cwd
        else:
            path = Path(cwd)  # an absolute one does not need a directory that may be gone
            self.cwd = str(path if path.is_absolute() else Path(GVAR.cwd, path))
        self.stdout = None if isinstance(stdout, _Stream) else os.fspath(stdout)
        self.stderr = None if isinstance(stderr, _Stream) else os.fspath(stderr)
        # The same file twice: opened once, or one stream would overwrite the other.
        self.merged = stderr is STDOUT or (stderr is not CAPTURE and self.stderr == self.stdout)
        self.cancelled_result: ProgramResult | None = None
        self._other_killed = False
        self.input = stdin if isinstance(stdin, bytes) else None
        self.request: ProgramRequest = {
            "argv": _encode(self.argv),
            "env": variables,
            "cwd": None if self.cwd is None else os.fsencode(self.cwd),
            "cpus": binding(res, USABLE) if bind else None,
            "stdin": None if stdin is None or self.input is not None else os.fsencode(stdin),
            "stdout": None if self.stdout is None else os.fsencode(self.stdout),
            "stderr": None if self.stderr is None else os.fsencode(self.stderr),
            "merged": self.merged,
            "append": append,
            "grace": float(grace),
            "scratch": _temporary(variables) if scratch else None,
            "warned": warned,
            "most": None
            if not enforce or self.memory is None
            else largest(self.memory) * 1e9 / 1024,
            "shell": of_shell,
            "name": None if name is None else os.fsencode(name),
        }

    # So that no KeyboardInterrupt strikes between two lines that belong together.
    @trio.lowlevel.enable_ki_protection
    async def run(self) -> ProgramResult:
        """Run the program to its end; a cancelled call leaves its result in `cancelled_result`."""
        gang = members.get()
        if gang is None:
            return await self._accounted()
        result: ProgramResult | None = None
        # What it has started on other members ends with it; and only then it has ended.
        async with gang.call(self._enforce) as call:
            self._gang, self._call = gang, call
            own = self.request["env"]
            found = {os.fsencode(name): os.fsencode(v) for name, v in call.variables.items()}
            own |= found
            note_given(own, found)
            result = await self._accounted()
            report = result.report
            call.failed = isinstance(report, StartFailure) or report.status != 0
        if call.refused or result is None:
            raise self.refused(call.refused)
        return result

    async def _accounted(self) -> ProgramResult:
        account = GVAR.account
        if not isinstance(account, RunAccount):
            return await self._attempts()
        account.programs.begin(self, time.monotonic())
        result: ProgramResult | None = None
        try:
            result = await self._attempts()
            return result
        finally:
            result = result or self.cancelled_result
            used = None
            if self._counted and result is not None and isinstance(result.report, ProgramExit):
                used = self.usage(result.report)
            account.programs.end(self, time.monotonic(), used)

    async def _attempts(self) -> ProgramResult:
        for _ in range(ATTEMPTS):
            try:
                client = ForkServerClient.of_this_run()
                result = await client.run(self.request, self.input, self._on_cancelled)
            except BrokenPipeError:
                continue  # it was killed before the program ran
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                raise OSError(
                    error.errno,
                    f"too many programs at once, each takes three open files of this process: "
                    f"raise the limit (`ulimit -n`), or let fewer run, as with Capacity(100) among "
                    f"the worker's resources; not started: {command_line(self.argv)}",
                ) from None
            except LostError as error:
                reason = "the process that watched over it was killed, and the program with it"
                if not error.nothing_left:
                    reason = "the processes that watched over it were killed; some may be left"
                facts = self.failure(reason=reason, unwatched=error.nothing_left)
                raise ExternalLostError(facts) from None
            except StuckError as error:
                pids = ", ".join(map(str, error.pids))
                reason = f"processes survive SIGKILL: {pids}"
                raise ExternalLostError(self.failure(reason=reason)) from error
            report = result.report
            # Without a kill it needs no look at the limits, which are in a dozen files.
            if isinstance(report, ProgramExit) and report.oom_kills and not report.own_group:
                self._other_killed = await client.kills.other(*self._killed(report))
            return result
        reason = f"no process to watch over it could be had in {ATTEMPTS} attempts; it never ran"
        raise ExternalLostError(self.failure(reason=reason))

    def _on_cancelled(self, result: ProgramResult) -> None:
        self.cancelled_result = result

    def used_until_cancelled(self) -> Usage | None:
        """Return what the program of a cancelled call has used; None if that is not known."""
        result = self.cancelled_result
        if result is None or isinstance(result.report, StartFailure):
            return None
        return self.usage(result.report)

    def _captured(self, result: ProgramResult) -> tuple[bytes | None, bytes | None]:
        """Return stdout and stderr; None for a stream that went elsewhere."""
        return (
            None if self.stdout else result.stdout,
            None if self.stderr or self.merged else result.stderr,
        )

    def _tails(self, result: ProgramResult, tail: bytes) -> dict[str, str]:
        """Return the last lines of stdout and stderr, as fields of a `Failure`.

        Args:
            tail: the bytes at the end of the file of stderr.
        """
        stdout, stderr = self._captured(result)
        captured = stdout if self.merged else stderr
        return {
            "stdout_tail": "" if stdout is None or self.merged else last_lines(stdout, _FEW_LINES),
            "stderr_tail": last_lines(tail if captured is None else captured),
        }

    def refused(self, reason: str) -> ExternalStartError:
        """Return the error for a program whose launcher needs what a member lacks."""
        return ExternalStartError(self.failure(reason=reason, errno=errno.ENOENT))

    def timed_out(self, reason: str) -> ExternalTimeoutError:
        """Return the error for a program that was ended at its time limit."""
        result = self.cancelled_result
        if result is None or isinstance(result.report, StartFailure):
            return ExternalTimeoutError(self.failure(reason=reason))
        stdout, stderr = self._captured(result)
        return ExternalTimeoutError(
            self.failure(
                reason=reason,
                elapsed=result.report.elapsed,
                usage=self.usage(result.report),
                stdout=stdout,
                stderr=stderr,
                **self._tails(result, result.report.tail),
            )
        )

    def completed(self, result: ProgramResult, check: bool) -> Completed:
        """Turn a result into what the call returns, or raise its error."""
        report = result.report
        if isinstance(report, StartFailure):
            reason = explain_start(report.step, os.fsdecode(report.path), report.errno)
            raise ExternalStartError(self.failure(reason=reason, errno=report.errno))
        stdout, stderr = self._captured(result)
        returncode = os.waitstatus_to_exitcode(report.status)
        elsewhere = None if self._call is None else self._call.exceeded
        if returncode and elsewhere is not None and (check or elsewhere.failure.exceeded):
            raise elsewhere  # a launcher says only that something has ended
        if report.exceeded or (check and (returncode != 0 or report.oom_kills)):
            failed = self._failed(result, report, returncode)
            if returncode or isinstance(failed, ExternalMemoryError):
                raise failed
        return Completed(
            argv=self.argv,
            returncode=returncode,
            stdout=stdout,
            stderr=stderr,
            elapsed=report.elapsed,
            user=report.user,
            system=report.system,
            max_rss=report.max_rss * 1024 / 1e9,
            host=this_process().host,
            usage=self.usage(report),
        )

    def _killed(
        self, report: ProgramExit
    ) -> tuple[int, int, float, tuple[float | None, float | None]]:
        """Return exit code, kills, peak and bounds, as of `evidence_of_memory`."""
        limit = read_cgroups().memory
        bounds = self.memory, None if limit is None else limit / 1e9
        code = os.waitstatus_to_exitcode(report.status)
        return code, report.oom_kills, report.peak_memory / 1e9, bounds

    def _failed(self, result: ProgramResult, report: ProgramExit, returncode: int) -> ExternalError:
        """Return the error for a program that has ended by itself, or was killed."""
        stdout, stderr = self._captured(result)
        killed = self._killed(report)
        tails = self._tails(result, report.tail)
        last = "\n".join(tails.values())
        evidence = evidence_of_memory(
            *killed,
            other=self._other_killed,
            own_group=report.own_group,
            exceeded=report.exceeded,
            said=next((sign for sign in self.memory_signs if sign in last), ""),
        )
        facts = self.failure(
            returncode=returncode,
            elapsed=report.elapsed,
            usage=self.usage(report),
            stdout=stdout,
            stderr=stderr,
            memory_request=self.memory,
            memory_limit=killed[3][1],
            oom_kills=report.oom_kills,
            own_group=report.own_group,
            evidence=evidence,
            exceeded=report.exceeded,
            **tails,
        )
        return ExternalMemoryError(facts) if evidence else ExternalError(facts)

    def usage(self, report: ProgramExit) -> Usage:
        """Return what the program has used."""
        # Without a directory of its own it ran in a private one, which is removed.
        paths = (self.stdout, self.stderr)
        kept = [path for path in paths if path and (self.cwd or path.startswith("/"))]
        own = Usage(
            user=report.user,
            system=report.system,
            peak_memory=report.peak_memory / 1e9,
            measured_by=report.measured_by,
            cpu_measured_by=report.cpu_measured_by,
            read=report.read / 1e9,
            written=report.written / 1e9,
            programs=1,
            exit_statuses={os.waitstatus_to_exitcode(report.status): 1},
            outputs=tuple(dict.fromkeys(str(Path(self.cwd or "/", path)) for path in kept)),
        )
        if self._gang is None or self._call is None or self._call.used is None:
            return own
        return of_call(own, self._call.used, len(self._gang.cpus))

    def failure(self, **facts: Any) -> Failure:
        """Return the facts of a failure: those of the call, and these."""
        directory = Path(self.cwd or ".")
        return Failure(
            argv=self.argv,
            host=this_process().host,
            cwd=self.cwd,
            stdout_path=self.stdout and str(directory / self.stdout),
            stderr_path=self.stderr and str(directory / self.stderr),
            **facts,
        )


def _temporary(variables: Mapping[bytes, bytes]) -> bytes:
    """Return the directory for temporary files, absolute: the supervisor works elsewhere."""
    base = os.fsdecode(variables.get(b"TMPDIR", b"")) or "/tmp"  # noqa: S108 (environ(7))
    return os.fsencode(Path(base).absolute())


def _encode(argv: tuple[str, ...]) -> list[bytes]:
    """Return the words as bytes, or raise ValueError."""
    encoded = [os.fsencode(word) for word in argv]
    if any(b"\0" in word for word in encoded):
        raise ValueError(f"a null character in the arguments: {command_line(argv)}")
    return encoded
