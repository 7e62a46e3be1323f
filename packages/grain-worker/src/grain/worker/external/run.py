"""`run_external`: one program on the CPUs of its task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain import GVAR
from grain.worker.call import program_listener
from grain.worker.external.arguments import CAPTURE, check_timeout
from grain.worker.external.program import ProgramCall, run_program_call
from grain.worker.external.warned import run_warned, warning_of
from grain.worker.processes.fork_server_client import ForkServerClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from grain.worker.external.arguments import Stream, StrPath
    from grain.worker.external.program import Completed
    from grain.worker.processes.warning import Warn


async def run_external(
    argv: Sequence[StrPath],
    *,
    cwd: StrPath | None = None,
    env: Mapping[str, str | None] | None = None,
    stdin: bytes | StrPath | None = None,
    stdout: StrPath | Stream = CAPTURE,
    stderr: StrPath | Stream = CAPTURE,
    timeout: float | None = None,
    grace: float = 1.0,
    check: bool = True,
    bind: bool = True,
    threads: int | None = None,
    scratch: bool = False,
    here: bool = False,
    enforce: bool | None = None,
    memory_signs: Sequence[str] = (),
    overflow: StrPath | None = None,
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
        overflow: a directory for captured output of more than 1 MiB, from ``GVAR.cwd`` if it is
            relative, and made where it is missing. Each such stream goes to a file of its own
            there, which ``overflows`` of the result or of the error names, and is None itself.
            Remove the file. By default all captured output is in memory.
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
            and the last lines of stderr. Also if `overflow` cannot take its output, with `errno` in
            its ``failure``; then the program gets SIGPIPE.
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
    check_timeout(timeout)
    call = ProgramCall(
        argv, cwd, env or {}, stdin, stdout, stderr, grace, bind, threads, scratch,
        enforce=enforce, memory_signs=memory_signs, overflow=overflow,
    )  # fmt: skip
    listener = program_listener.get()
    if listener is not None and not here and not GVAR.res.parts():
        listener(argv)
    if GVAR.attempt > 1:
        call.request["env"].setdefault(b"GRAIN_ATTEMPT", b"%d" % GVAR.attempt)
    warning = warning_of(warn, warn_before, timeout, call.cwd)
    if warning is None:
        return await run_program_call(call, timeout, check=check)
    return await run_warned(call, timeout, warning, check=check)


def ending_programs() -> list[float]:
    """Return the grace, in seconds, of each program of this trio run that was told to end."""
    programs = ForkServerClient.programs_of_this_run()
    return [program.request["grace"] for program in programs if program.supervisor.ending]


def kill_ending_programs() -> None:
    """End the programs of this trio run that were told to end, without any more grace."""
    for program in ForkServerClient.programs_of_this_run():
        if program.supervisor.ending:
            program.supervisor.cancel_now()
