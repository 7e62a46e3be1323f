"""`ProgramCall`: one program, from its arguments to its result or its error."""

from __future__ import annotations

import errno
import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from grain import GVAR
from grain.eventlog.usage import Usage
from grain.files.processes import this_process
from grain.resource import learned
from grain.worker.errors import (
    ExternalError,
    ExternalLostError,
    ExternalMemoryError,
    ExternalStartError,
    ExternalTimeoutError,
    Failure,
    OutputFile,
    command_line,
    explain_start,
    last_lines,
)
from grain.worker.external.arguments import (
    CAPTURE,
    STDOUT,
    Stream,
    argv_text,
    check_memory,
    check_types,
)
from grain.worker.node.cgroup import read_cgroups
from grain.worker.node.shortage import largest
from grain.worker.processes.account import RunAccount, of_call
from grain.worker.processes.environment import USABLE, binding, environment, note_given
from grain.worker.processes.fork_server_client import ForkServerClient, LostError, ProgramResult
from grain.worker.processes.mpi import members
from grain.worker.processes.out_of_memory import evidence_of_memory
from grain.worker.processes.supervisor_client import ProgramExit, StartFailure, StuckError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.worker.external.arguments import StrPath
    from grain.worker.guards.protocol import ProgramRequest
    from grain.worker.processes.mpi import Members, MembersCall

_FEW_LINES = 10  # of stdout, which is the smaller chance to have the reason
ATTEMPTS = 3
"""Fork servers to try: only the next call notices that an idle one was killed."""


@dataclass(frozen=True)
class Completed:
    """A program that has ended: exit code, output, costs.

    Attributes:
        returncode: its exit code, or the negative number of the signal that ended it.
        stdout: what it wrote to stdout; None if that went to a file.
        stderr: the same for stderr; None also if it went to stdout.
        overflows: the files of stdout and of stderr that were too large, see `run_external`.
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
    overflows: tuple[OutputFile | None, OutputFile | None] = (None, None)

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
    began = trio.current_time()
    if timeout is not None:
        scope = scope or trio.CancelScope()
        scope.deadline = began + timeout
    try:
        if scope is None:  # entering one would cost a fiftieth of a brief call
            return call.completed(await call.run(), check)
        with scope:
            return call.completed(await call.run(), check)
    except BaseException as error:
        if not isinstance(error, ExternalError):  # which names the files of its output
            call.discard_output()
        raise
    late = call.cancelled_result
    if late is not None and isinstance(late.report, ProgramExit) and late.report.by_itself:
        return call.completed(late, check)  # only what it left behind took so long
    raise call.timed_out(f"ended after its time limit of {scope.deadline - began:g} s")


def bound_of(memory: float | None) -> float | None:
    """Return the KiB from which on a program that asked for so many GB is ended; None for never.

    Never for 0 GB: batch systems take these for all the memory that there is.
    """
    return largest(memory) * 1e9 / 1024 if memory else None


def bound_of_run() -> float | None:
    """Return the KiB that the running task is held to, as of `bound_of`; None for no limit."""
    return bound_of(getattr(GVAR.res, "M", None)) if enforces() else None


def enforces() -> bool:
    """Return True if programs of the running task are held to its memory unless a call says no."""
    of_worker = getattr(GVAR.surroundings, "enforce", False)
    return (of_worker and hasattr(GVAR.res, "M")) or learned(GVAR.res) is not None


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
        enforce, memory_signs, overflow: as of `run_external`.
        memory: the GB of memory that its task asked for; by default those of ``GVAR.res``.
        counted: False for a process of Grain's own, whose use is not that of the run.
    """

    def __init__(
        self,
        argv: Sequence[StrPath],
        cwd: StrPath | None,
        env: Mapping[str, str | None],
        stdin: bytes | StrPath | None,
        stdout: StrPath | Stream,
        stderr: StrPath | Stream,
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
        overflow: StrPath | None = None,
    ) -> None:
        if isinstance(argv, (str, bytes)) or not argv:
            raise ValueError(argv_text(argv))
        check_memory(enforce, memory_signs)
        check_types(argv, cwd, env, stdin, stdout, stderr, grace, threads)
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
        self.stdout = None if isinstance(stdout, Stream) else os.fspath(stdout)
        self.stderr = None if isinstance(stderr, Stream) else os.fspath(stderr)
        # The same file twice: opened once, or one stream would overwrite the other.
        self.merged = stderr is STDOUT or (stderr is not CAPTURE and self.stderr == self.stdout)
        self.cancelled_result: ProgramResult | None = None
        self._used: tuple[ProgramExit, Usage] | None = None
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
            "overflow": None if overflow is None else os.fsencode(Path(GVAR.cwd, overflow)),
            "append": append,
            "grace": float(grace),
            "scratch": _temporary(variables) if scratch else None,
            "warned": warned,
            "most": bound_of(self.memory) if enforce else None,
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
            if account.end is not None and isinstance(result.report, ProgramExit):
                await account.end.after_signals(result.report.elapsed)
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

    def discard_output(self) -> None:
        """Remove the files of captured output of a cancelled call."""
        if self.cancelled_result is not None:
            for file in filter(None, _overflows(self.cancelled_result.report)):
                Path(file.path).unlink(missing_ok=True)

    def used_until_cancelled(self) -> Usage | None:
        """Return what the program of a cancelled call has used; None if that is not known."""
        result = self.cancelled_result
        if result is None or isinstance(result.report, StartFailure):
            return None
        return self.usage(result.report)

    def _captured(self, result: ProgramResult) -> tuple[bytes | None, bytes | None]:
        """Return stdout and stderr; None for a stream that went elsewhere."""
        out, err = _overflows(result.report)
        return (
            None if self.stdout or out else result.stdout,
            None if self.stderr or self.merged or err else result.stderr,
        )

    def _tails(self, result: ProgramResult, tail: bytes) -> dict[str, str]:
        """Return the last lines of stdout and stderr, as fields of a `Failure`.

        Args:
            tail: the bytes at the end of the file of stderr.
        """
        stdout, stderr = self._captured(result)
        captured = stdout if self.merged else stderr
        if isinstance(result.report, ProgramExit) and result.report.out_file:
            stdout = result.report.stdout_tail
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
        if result.report.lost:
            reason = f"{reason}; {self._lost(result.report)}"
        return ExternalTimeoutError(
            self.failure(
                reason=reason,
                elapsed=result.report.elapsed,
                usage=self.usage(result.report),
                stdout=stdout,
                stderr=stderr,
                overflows=_overflows(result.report),
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
        overflows = _overflows(report)
        if report.lost:
            raise ExternalError(
                self.failure(
                    reason=self._lost(report),
                    errno=report.lost,
                    elapsed=report.elapsed,
                    usage=self.usage(report),
                    stdout=stdout,
                    stderr=stderr,
                    overflows=overflows,
                )
            )
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
            overflows=overflows,
        )

    def _lost(self, report: ProgramExit) -> str:
        """Return the sentence on captured output that is lost."""
        folder = os.fsdecode(self.request["overflow"] or b"")
        return f"its output could not be stored in {folder}: {os.strerror(report.lost)}"

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
        last = "\n".join((*tails.values(), last_lines(report.stdout_tail)))
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
            overflows=_overflows(report),
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
        if self._used is None or self._used[0] is not report:
            self._used = report, self._own_usage(report)
        own = self._used[1]
        if self._gang is None or self._call is None or self._call.used is None:
            return own
        return of_call(own, self._call.used, len(self._gang.cpus))

    def _own_usage(self, report: ProgramExit) -> Usage:
        """Return what the program itself has used, without what it ran on other members."""
        # Without a directory of its own it ran in a private one, which is removed.
        paths = (self.stdout, self.stderr)
        kept = [path for path in paths if path and (self.cwd or path.startswith("/"))]
        return Usage(
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


def _overflows(
    report: ProgramExit | StartFailure,
) -> tuple[OutputFile | None, OutputFile | None]:
    """Return the files of stdout and of stderr that were too large to be captured."""
    if isinstance(report, StartFailure):
        return None, None
    out, err = report.out_file, report.err_file
    return (
        None if out is None else OutputFile(os.fsdecode(out[0]), out[1]),
        None if err is None else OutputFile(os.fsdecode(err[0]), err[1]),
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
