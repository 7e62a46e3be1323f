"""`run_job`: the tasklet that runs one attempt of a job, between its two receipts."""

from __future__ import annotations

import logging
import math
import os
import signal
import time
from contextlib import suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import trio

from grain import GVAR
from grain.eventlog.soft_stops import STOPPED_SOFTLY
from grain.files.processes import this_process
from grain.files.trust import file_at, open_output
from grain.inputs.warning import parse_warning
from grain.queue import patterns
from grain.queue.errors import CannotWrite, NotSynced, QueueError, Unusable
from grain.queue.folder import Queue, read_format
from grain.queue.notes.steps import SCRIPT, StepRecord, note_steps
from grain.queue.records import Begun, Ended
from grain.queue.selectors import plain_number
from grain.resource import SLOTS, THREADS
from grain.worker.auto import batch_id, batch_system
from grain.worker.errors import (
    CodeReplaced,
    ExternalError,
    ExternalTimeoutError,
    explain_start,
    printable,
)
from grain.worker.external import STDOUT, ProgramCall, run_program_call, run_warned
from grain.worker.gang.control import bound, listener_of, new_name, serve
from grain.worker.jobs.program import (
    failure_of_attempt,
    is_success,
    last_line,
    missing_interpreter,
    output_trouble,
    receipt,
    receipt_of_failure,
    with_trouble,
)
from grain.worker.jobs.standby import standing_by
from grain.worker.jobs.variables import (
    Place,
    own_variables,
    ranks_each,
    soft_limits,
    submitted_variables,
    task_variables,
    threads_each,
)
from grain.worker.messages import JobBegins
from grain.worker.processes.account import RunAccount, attempt_of
from grain.worker.processes.environment import allocated
from grain.worker.processes.fork_server_client import ForkServerClient
from grain.worker.processes.mpi import members
from grain.worker.processes.sweep import own_mark
from grain.worker.processes.usage_now import usages_now
from grain.worker.processes.warning import EarlyWarning, send
from grain.worker.runner.runner import signal_behind
from grain.worker.runner.services import (
    end_use,
    job_begins,
    programs_were_told_to_end,
    worker_ends,
)
from grain.worker.steps.desk import DESK, StepDesk
from grain.worker.steps.of_job import shares_of, step_job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grain.eventlog.causes import RunFailure
    from grain.queue.records import Job, Receivers, Wish
    from grain.resource import Member
    from grain.worker.steps.orders import StepJob

GRACE = 30.0
"""Seconds between SIGTERM and SIGKILL for a job that is ended, as ``KillWait`` of Slurm."""

_UNNAMED = "slurm_script"  # as Slurm calls all of them
_LOOK = 5.0  # seconds between two looks for wishes
_TRUSTED = 5.0  # seconds for which the way to a queue is not checked again
_SEND_AGAIN = 0.2  # seconds until a signal that found nothing is sent again
_SENT_FOR = 10.0  # seconds for which it is
_MEASURE = 30.0  # seconds between two looks at what a job uses, at least, as in Slurm
_NOTED_AFTER = 0.2  # seconds until what a step does is noted
_RETRY = 1.0  # seconds until a receipt is tried again, at first
_RETRY_LATER = 60.0  # after some time

_log = logging.getLogger("grain.worker")


class AttemptCall(NamedTuple):
    """An attempt of a job, as plain data that travels to workers.

    Attributes:
        queue: the folder of the queue.
        number: of the job.
        task: of an array; None for a job that is not one.
        attempt: from 1.
        ticket: the number of the call in the queue's mission.
        wishes: the number of the first wish that the dispatcher had not seen.
        mission: the id of the mission of the queue.
        timeout: its time limit in seconds, 0 for none; None for that with which it was submitted.
    """

    queue: str
    number: int
    task: int | None
    attempt: int
    ticket: int
    wishes: int
    mission: str
    timeout: float | None = None

    def __repr__(self) -> str:
        """Return the job and the task as commands name them."""
        return str(self.number) if self.task is None else f"{self.number}_{self.task}"


class JobFunction:
    """`run_job` under the name of a job, by which displays and estimates tell jobs apart.

    Args:
        name: the job's.
    """

    def __init__(self, name: str) -> None:
        self.__qualname__ = name

    async def __call__(self, what: AttemptCall) -> None:
        """Run an attempt; see `run_job`.

        Raises:
            JobError, NotRun: as of `AttemptEnd.check`.
        """
        (await run_job(what)).check()


class JobError(Exception):
    """The end of an attempt that did not succeed, as ``opt.sh: exit code 3: no convergence``."""

    def __str__(self) -> str:
        return self.in_short.message

    @property
    def in_short(self) -> RunFailure:
        """The end of the attempt, for logs and displays."""
        failure: RunFailure = self.args[0]
        return failure


class JobMemoryError(JobError, MemoryError):
    """The end of an attempt that needed more memory than it had, as the scheduler learns it."""


class NotRun(Exception):
    """The end of a call that has not run its attempt to an end: another call may.

    Attributes:
        what, why, passing: as of `AttemptEnd`.
    """

    def __init__(self, what: str, why: str = "", passing: bool = False) -> None:
        super().__init__(what, why, passing)
        self.what = what
        self.why = why
        self.passing = passing

    def __str__(self) -> str:
        """Return the reason in words."""
        if self.what == "taken":
            return "another worker has begun it"
        return self.why or "its worker hands it back"


class _Recalled(Exception):
    """The error of an attempt that may not begin as it was handed out; the text says why."""


class AttemptEnd(NamedTuple):
    """The end of a call of `run_job`.

    Attributes:
        what: ``"ended"``: the attempt has its receipts; ``"returned"``: it has them, and its worker
            hands it back; ``"taken"``: it has begun elsewhere, or never will; ``"not begun"``: it
            can be tried again.
        why: why it has not begun.
        passing: True if that may pass, as a full disk does.
        failure: how it ended, if it did not succeed.
        amount: as of `grain.queue.records.Ended`.
    """

    what: Literal["ended", "returned", "taken", "not begun"]
    why: str = ""
    passing: bool = False
    failure: RunFailure | None = None
    amount: float = 0.0

    def check(self) -> None:
        """Raise unless the job has succeeded.

        Displays, logs and reports count the calls that raise, and that return: a job is done once,
        though workers that died, or have seen it late, have had calls for it, too.

        Raises:
            JobError: the attempt did not succeed. Its receipt says so, too.
            JobMemoryError: it needed more memory than it had, and its group learns that.
            NotRun: the attempt is another call's, or comes again.
        """
        if self.failure is not None:
            raise (JobMemoryError if self.amount else JobError)(self.failure)
        if self.what != "ended":
            raise NotRun(self.what, self.why, self.passing)


async def run_job(what: AttemptCall) -> AttemptEnd:
    """Run an attempt of a job on this worker.

    The receipt of its begin is linked before the program starts, and that of its end when its
    last process is gone. On cancellation the program is ended, and the receipt says whether a user
    has cancelled the job or the worker hands it back.

    It raises nothing of its own: all that can go wrong is in what it returns, or in the receipt.
    """
    opened = _OPENED.get(None)
    runner = _Runner(what, opened)
    ended: Ended | None = None
    runner.announce()
    try:
        if not await trio.to_thread.run_sync(runner.begin):
            return AttemptEnd("taken")
        if runner.opened is not opened:  # to set it takes a fiftieth of a brief attempt
            _OPENED.set(runner.opened)
    except _Recalled as error:
        return AttemptEnd("not begun", str(error), passing=True)
    except NotSynced:
        # It has begun for all others, and must not run: the host may forget that in a crash.
        await runner.end(runner.returned())
        return AttemptEnd("returned")
    except (QueueError, OSError) as error:
        passing = isinstance(error, OSError) or (isinstance(error, CannotWrite) and error.passing)
        return AttemptEnd("not begun", str(error), passing)
    try:
        ended = await runner.run()
        if is_success(ended):
            # The next run need not wait for this receipt. Few pile up on a disk that is full, as
            # the next run needs a receipt of its begin.
            end_use()
    finally:
        # Cancellation comes here, too: the program is gone by now.
        noted = await runner.end(ended)
    if noted.how == "returned":
        return AttemptEnd("returned")
    failure = failure_of_attempt(noted, runner.program)
    return AttemptEnd("ended", failure=failure, amount=noted.amount)


class _Opened(NamedTuple):
    """A queue, and the job in it of which an attempt ran last: arrays come task by task.

    Attributes:
        at: when the way to its directory was last checked, in seconds of the monotonic clock.
    """

    queue: Queue
    known: _KnownJob | None
    at: float


class _KnownJob:
    """A job, and what is the same for all of its attempts.

    Attributes:
        script: the file of its script, if that can be run; None as long as none was.
    """

    def __init__(self, number: int, job: Job) -> None:
        self.number = number
        self.job = job
        self.script: Path | None = None
        # With the attempt and the place for which they were made.
        self._of_tasks: tuple[tuple[int, Place], dict[str, str], dict[bytes, bytes]] | None = None

    @cached_property
    def shared(self) -> tuple[bool, bool]:
        """True for its output, and for its errors, if other tasks write to the same file."""
        job = self.job
        return (
            patterns.is_shared(job.stdout, job),
            patterns.is_shared(job.stderr or job.stdout, job),
        )

    @cached_property
    def variables(self) -> dict[str, str]:
        """The variables of its submission."""
        return submitted_variables(self.job)

    @cached_property
    def raw(self) -> dict[bytes, bytes]:
        """The same, as programs get them."""
        return _encoded(self.variables)

    def of_tasks(
        self, what: AttemptCall, place: Place
    ) -> tuple[dict[str, str], dict[bytes, bytes]]:
        """Return all variables of an attempt, but those of another task in place of its own.

        They are as text, and as programs get them.
        """
        at = what.attempt, place
        if self._of_tasks is None or self._of_tasks[0] != at:
            own = own_variables(
                self.job, what.number, what.task, what.attempt, place, self.variables
            )
            self._of_tasks = at, self.variables | own, self.raw | _encoded(own)
        return self._of_tasks[1:]


_OPENED: trio.lowlevel.RunVar[_Opened | None] = trio.lowlevel.RunVar("the queue opened last")


class _Runner:
    """The steps of an attempt; those without ``async`` block, and are for a thread.

    Args:
        opened: that of an attempt before.

    Attributes:
        opened: its own, when it has begun.
    """

    _queue: Queue
    _known: _KnownJob
    _job: Job
    _script: Path | None
    _prepared: tuple[ProgramCall, Callable[[], StepJob]] | Exception

    def __init__(self, what: AttemptCall, opened: _Opened | None = None) -> None:
        self._what = what
        self.opened = opened
        self._desk = new_name()
        self._run = attempt_of(trio.lowlevel.current_task().context)
        self._next_wish = what.wishes
        self._cancelled: Wish | None = None
        # Of the wishes since the attempt was handed out: those for a signal that were not sent, and
        # the one that has it come again if its program has not begun.
        self._signals: list[Wish] = []
        self._recall: Wish | None = None
        self._program_began = False
        self._outputs: list[Path] = []
        self._trouble: str | None = None  # of these, when the program had ended
        self._stderr: Path | None = None
        self._own_end: Ended | None = None
        self._began = time.time()

    @property
    def _key(self) -> tuple[int, int | None, int]:
        return self._what.number, self._what.task, self._what.attempt

    @property
    def _facts(self) -> patterns.Facts:
        job, what = self._job, self._what
        return patterns.Facts(what.number, what.task, job.name, job.user, this_process().host)

    @property
    def program(self) -> str:
        """The name of the program: for a script that of the job, as the file has a digest."""
        job = self._job
        return job.name if self._script is not None else job.command[0].rpartition("/")[2]

    def announce(self) -> None:
        """Tell the agent what it is to note if this process dies with the attempt.

        The dispatcher learns of such a death from the scheduler. It may die before it has noted
        that, and so may the scheduler, and then no other host can see that this process is gone.
        """
        if self._run is not None:
            what = self._what
            job_begins(JobBegins(self._run, what.queue, what.number, what.task, what.attempt))

    def begin(self) -> bool:
        """Make the receipt of the begin; errors as of `Queue.open` and `Queue.begin`.

        Raises:
            _Recalled: it has not begun, and may not as it was handed out.
        """
        self._open()
        self._timeout = self._job.timeout if self._what.timeout is None else self._what.timeout
        self._look()
        if self._recall is not None:
            raise _Recalled("it was held or updated meanwhile")
        if self._job.deadline:
            now = time.time()
            if msgspec.structs.replace(self._job, timeout=self._timeout).latest_begin <= now:
                raise _Recalled("it could not end in time")
            self._timeout = min(self._timeout or math.inf, self._job.deadline - now)
        # Before the receipt: if it cannot be written now, the attempt has not begun.
        self._script = self._known.script or self._queue.script(self._job)
        me = this_process()
        begun = self._queue.begin(
            *self._key,
            Begun(
                at=time.time(),
                host=me.host,
                machine=me.machine,
                boot=me.boot,
                space=me.space,
                pid=me.pid,
                pid_began=me.start,
                worker=GVAR.instance,
                batch_system=batch_system(os.environ),
                batch_job=batch_id(os.environ),
                ticket=self._what.ticket,
                run=self._run or (0, 0),
                others=tuple(node.host for node in _others()),
                cpus=len(allocated(GVAR.res)) + sum(len(node.c) for node in _others()),
                mark=own_mark(),
            ),
            settled=True,  # by the dispatcher
        )
        if begun:
            # Once more: whoever has asked before the receipt was made knows of no begin.
            with suppress(OSError, QueueError):
                self._look()
            try:
                self._prepared = self._call()
            except Exception as error:  # whatever is wrong, another attempt ends the same way
                self._prepared = error
        return begun

    def _open(self) -> None:
        """Open the queue, and read the job; what an attempt just before has found, holds."""
        folder, number, known = Path(self._what.queue), self._what.number, self.opened
        now = time.monotonic()
        if (
            known is None
            or known.queue.folder != folder
            or now > known.at + _TRUSTED
            # It may have been removed, and made again.
            or read_format(known.queue.files, str(folder)) != known.queue.format
        ):
            known = _Opened(Queue.open(folder), None, now)
        if known.queue.mission != self._what.mission:
            raise Unusable(
                f"{folder} on {this_process().host} is another queue, so this host does "
                "not share that directory with the one where the job was submitted"
            )
        job = known.known
        if job is None or job.number != number:
            job = _KnownJob(number, known.queue.job(number))
            known = known._replace(known=job)
        self.opened, self._queue, self._known, self._job = known, known.queue, job, job.job

    async def run(self) -> Ended:
        """Run the program to its end; raise `trio.Cancelled` when it is gone on cancellation."""
        job = self._job
        if self._recall is not None:
            return self.returned()
        self._program_began = True
        if isinstance(self._prepared, Exception):
            return _not_started(self._prepared)
        call, steps = self._prepared
        warning = None
        if job.warn:
            try:
                warning = self._warning()
            except Exception as error:
                return _not_started(error)
        scope, start = trio.CancelScope(), trio.current_time()
        listening = bound(self._desk)
        with listening:
            async with trio.open_nursery() as nursery:
                note = _Notes(self._note_steps, nursery).add

                @cache
                def desk() -> StepDesk:
                    its = steps()
                    return StepDesk(shares_of(its, GVAR.res), its, note)

                def serve_steps() -> None:
                    nursery.start_soon(serve, listener_of(listening), desk().admit)

                def watch() -> None:
                    nursery.start_soon(self._watch, call, desk(), nursery, scope, start)
                    nursery.start_soon(self._measure, call, desk(), note, start)

                warn_at = self._warning_time(start) or math.inf
                with standing_by(listening, serve_steps, watch, min(start + _LOOK, warn_at)):
                    # Kept, as a run that was cancelled meanwhile returns nothing.
                    self._own_end = await self._run_program(call, warning, scope)
                nursery.cancel_scope.cancel()
                return self._own_end
        # A wish has cancelled the nursery before the program ended.
        return self._ended_on_request()

    def _warning(self) -> EarlyWarning:
        """Return the warning of the program; errors as of `parse_warning` and `EarlyWarning`."""
        job, told, owner = self._job, parse_warning(self._job.warn), ""
        if isinstance(told, tuple):
            name, text = told
            told = str(patterns.path(name, self._facts, job.directory)), text
            owner = f"{self._queue.name}:{self._what}"
        timeout = self._timeout or None
        return EarlyWarning(told, job.warn_before, timeout, job.directory, owner=owner)

    async def _run_program(
        self, call: ProgramCall, warning: EarlyWarning | None, scope: trio.CancelScope
    ) -> Ended:
        timeout, began = self._timeout or None, time.time()
        try:
            if warning is None:
                done = await run_program_call(call, timeout, check=True, scope=scope)
            else:
                done = await run_warned(call, timeout, warning, check=True, scope=scope)
        except ExternalError as error:
            ended = receipt_of_failure(error, self._timeout, _end_at(began, error.elapsed))
            if ended.amount and not self._job.requeue:
                ended = with_trouble(ended, "with --no-requeue it does not run again with more")
            own = ended.how not in ("exit", "signal")  # it says itself what was wrong
            if isinstance(error, ExternalTimeoutError) and error.warned == "worker":
                return self.returned(softly=True)
            if not own and await worker_ends(signal_behind(error)):
                return self.returned()
            return ended
        except Exception as error:
            return await self._on_no_start(error)
        if await programs_were_told_to_end():
            return self.returned()
        return receipt(done, _end_at(began, done.elapsed))

    async def _on_no_start(self, error: Exception) -> Ended:
        """Return the receipt of a program that could not be started, here or anywhere."""
        if isinstance(error, CodeReplaced) and await worker_ends(0, error.why):
            return self.returned()
        return _not_started(error)

    async def end(self, ended: Ended | None) -> Ended:
        """Make the receipt of the end, and go on trying while that is not possible.

        Args:
            ended: None for a run that was cancelled.

        Returns:
            What the receipt says, unless the attempt had one already.
        """
        noted: Ended | None = None
        with trio.CancelScope(shield=True):
            pause = _RETRY
            while noted is None:
                try:
                    noted = await trio.to_thread.run_sync(self._end, ended)
                except (QueueError, OSError) as error:
                    _log.warning(
                        "job %d has ended, and that cannot be noted: %s", self._what.number, error
                    )
                    await trio.sleep(pause)
                    pause = min(2 * pause, _RETRY_LATER)
        assert noted is not None
        return noted

    def _end(self, ended: Ended | None) -> Ended:
        ended = ended or self._own_end
        if ended is None:
            self._look()
            ended = self._cut_off() if self._cancelled is None else self._ended_on_request()
        self._write_last_line(ended)
        if self._trouble is None:
            # Once: the disk of the output may be that of the queue, so that this receipt is made
            # only when there is room again, and the trouble could not be seen any more.
            self._trouble = output_trouble(self._outputs, failed=not is_success(ended))
        ended = with_trouble(ended, self._trouble)
        self._queue.end(*self._key, ended)
        return ended

    def _write_last_line(self, ended: Ended) -> None:
        """Have the output say, once, that the program was ended."""
        path, self._stderr = self._stderr, None
        number = plain_number(self._what.number, self._what.task)
        host = this_process().host.partition(".")[0]
        again = self._cancelled is not None and self._cancelled.what == "again"
        if path is not None and (line := last_line(ended, number, host, again=again)):
            # Not to wait for the reader of a named pipe.
            flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK
            flags |= os.O_CREAT if ended.how == "start" else 0
            with suppress(OSError), os.fdopen(open_output(str(path), flags), "ab") as file:
                file.write(line.encode())

    def _ended_on_request(self) -> Ended:
        assert self._cancelled is not None  # by which the run was ended
        return Ended(
            how="cancelled",
            at=time.time(),
            elapsed=time.time() - self._began,
            by=self._cancelled.by,
            message=self._cancelled.why,
        )

    def _cut_off(self) -> Ended:
        """Return the receipt of a run that was cancelled, but not by a user."""
        account = GVAR.account
        if not isinstance(account, RunAccount) or not account.short:
            return self.returned()
        # It may run again as often as one whose worker dies.
        elapsed = time.time() - self._began
        return Ended(
            how="lost", at=time.time(), elapsed=elapsed, message=account.short, interruption="short"
        )

    def returned(self, *, softly: bool = False) -> Ended:
        """Return the receipt of a run that the worker hands back, for a reason of its own."""
        elapsed = time.time() - self._began if self._program_began else 0.0
        return Ended(
            how="returned",
            at=time.time(),
            elapsed=elapsed,
            message=STOPPED_SOFTLY if softly else "",
            interruption="stopped" if softly else "",
        )

    def _call(self) -> tuple[ProgramCall, Callable[[], StepJob]]:
        """Return the call of the program, and what returns what steps need to know of the job.

        Raises:
            OSError: the script is gone.
            QueueError: the directory of the job, the interpreter of its script, or the input of
                the task is not there; or what it reads is an output, too.
        """
        job, known, what = self._job, self._known, self._what
        host, facts = this_process().host, self._facts
        out = patterns.path(job.stdout, facts, job.directory)
        err = patterns.path(job.stderr, facts, job.directory) if job.stderr else None
        if not Path(job.directory).is_dir():  # it is not made again if it was removed
            where = printable(job.directory)
            raise QueueError(f"its directory {where} is not there on {host}")
        stdin = self._queue.stdin(job, facts)
        source = None if stdin is None or job.append else file_at(stdin)
        changed = [one for one in (out, err) if one and source and source == file_at(one)]
        # No line about it goes into the input, either.
        self._stderr = None if (err or out) in changed else err or out
        if changed:  # by a further attempt, or one that shares the file, too, which append
            raise QueueError(explain_start("input", printable(str(changed[0])), 0))
        self._outputs = [out] if err is None else [out, err]
        cores = len(allocated(GVAR.res))
        others = tuple((node.host, len(node.c) or 1) for node in _others())
        place = Place(
            host, cores or 1, self._queue.name, others, tuple(getattr(GVAR.res, "g", ())),
            getattr(GVAR.res, "M", 0), (os.getuid(), os.getgid()), os.nice(0),
        )  # fmt: skip
        gang = members.get()
        if others and gang is not None:
            gang.allow(ranks_each(job, place))
        variables, raw = known.of_tasks(what, place)
        own = task_variables(job, what.number, what.task, what.attempt, place)
        own[DESK] = self._desk
        command = job.command
        filled = self._queue.input(job, what.task)
        if filled is not None:
            own["GRAIN_ENTRY"] = filled.entry
            command = filled.command
        if self._script is not None and self._script != known.script:
            if missing := missing_interpreter(self._script):
                raise QueueError(f"its interpreter {missing} is not there on {host}")
            known.script = self._script
        variables = variables | own
        again = job.append or what.attempt > 1
        words = [*([] if self._script is None else [str(self._script)]), *command]
        call = ProgramCall(
            words,
            job.directory,
            # As the user has set them for this job; all else is as allocated.
            {name: variables[name] for name in THREADS if name in variables}
            | dict.fromkeys(SLOTS, str(ranks_each(job, place)[0])),
            stdin,
            out,
            STDOUT if err is None else err,
            GRACE,
            bind=True,
            threads=threads_each(job, place) if cores else None,
            scratch=job.scratch,
            inherited=raw | _encoded(own),
            warned=True,
            append=(again or known.shared[0], again or known.shared[1]),
            of_shell=(job.umask, soft_limits(job)),
            name=None if self._script is None else Path(job.script_name).name or _UNNAMED,
        )
        request = call.request
        return call, partial(
            step_job, variables, request["env"], place.hosts, GVAR.res,
            bound=request["cpus"] is not None, worker=os.environ,
            address="127.0.0.1" if gang is None else gang.address or host,
        )  # fmt: skip

    def _note_steps(self, steps: list[StepRecord]) -> None:
        """Note steps, for display; without effect if that is not possible."""
        with suppress(OSError):
            note_steps(self._queue, *self._key, steps)

    async def _measure(
        self,
        call: ProgramCall,
        desk: StepDesk,
        note: Callable[[StepRecord], object],
        began: float,
    ) -> None:
        """Note now and then what the script and its steps use, ever more rarely."""
        wake, most = began + _MEASURE, 0.0
        host, cpus = this_process().host.partition(".")[0], len(allocated(GVAR.res))
        while True:
            await trio.sleep_until(wake)
            # Each time is a line in a file.
            wake = trio.current_time() + max(_MEASURE, (trio.current_time() - began) / 20)
            programs = ForkServerClient.programs_of_this_run()
            pids = [one.supervisor.pid for one in programs if one.request is call.request]
            for usage in await trio.to_thread.run_sync(usages_now, pids):
                if usage is not None:
                    most = max(most, usage.memory)
                    note(
                        StepRecord(
                            SCRIPT, "batch", 1, cpus, (host,), self._began, cpu=usage.cpu,
                            memory=most,
                        )
                    )  # fmt: skip
            await desk.measure()

    def _warning_time(self, began: float) -> float | None:
        """Return when the program gets its warning, by trio's clock; None for no warning."""
        job, timeout = self._job, self._timeout
        return began + timeout - job.signal_before if job.signal and timeout else None

    async def _watch(
        self,
        call: ProgramCall,
        desk: StepDesk,
        nursery: trio.Nursery,
        scope: trio.CancelScope,
        began: float,
    ) -> None:
        """Send the warning and the signals that users ask for; end the program on request.

        Args:
            scope: that of the program, whose deadline comes forward with its time limit.
            began: when the program began, by trio's clock.
        """
        job, timeout = self._job, self._timeout
        warn_at, wake = self._warning_time(began), began + _LOOK
        # Signals, to whom, and when each is given up. A busy machine takes its time to start a
        # program, and a script to start its step, so a signal that finds nothing is sent again. A
        # step that begins long after it gets none.
        unsent: list[tuple[int, Receivers, float]] = []
        while True:
            await trio.sleep_until(wake if warn_at is None else min(wake, warn_at))
            if warn_at is not None and trio.current_time() >= warn_at:
                unsent.append((job.signal, job.signal_to, trio.current_time() + _SENT_FOR))
                warn_at = None
            # If the queue cannot be read for now, the program goes on.
            with suppress(OSError, QueueError):
                await trio.to_thread.run_sync(self._look)
                signals, self._signals = self._signals, []
                for wish in signals:
                    if wish.step is not None:
                        if wish.signal == signal.SIGKILL:
                            nursery.start_soon(desk.end_step, wish.step, "CANCELLED")
                        else:
                            desk.signal(wish.step, wish.signal)
                        continue
                    until = trio.current_time() + _SENT_FOR
                    unsent.append((wish.signal, wish.signal_to, until))
            if self._timeout != timeout:
                warned = timeout and warn_at is None
                timeout, scope.deadline = self._timeout, began + self._timeout
                warn_at = None if warned else self._warning_time(began)
            unsent = [
                (number, to, until)
                for number, to, until in unsent
                if not send(call.request, number, to) and trio.current_time() < until
            ]
            if self._cancelled is not None:
                nursery.cancel_scope.cancel()
            wake = trio.current_time() + (_SEND_AGAIN if unsent else _LOOK)

    def _look(self) -> None:
        """Read new wishes, and note what they ask of the run."""
        own = self._what.number, self._what.task
        for number, wish in self._queue.wishes_from(self._next_wish):
            self._next_wish = number + 1
            if wish.what == "signal" and wish.concerns(*own):
                self._signals.append(wish)
            elif wish.ends(*self._key):
                self._cancelled = wish
            elif wish.recalls(*own):
                self._recall = wish
                shorter = wish.update.timeout if wish.update is not None else None
                # The worker's own limit of the run is that which it had at first.
                if shorter and (not self._timeout or shorter < self._timeout):
                    self._timeout = shorter


class _Notes:
    """Notes of steps; those of a moment are written at once, in a thread.

    Args:
        write: writes steps; it blocks.
        nursery: of the attempt. All is written when it ends, also by cancellation.
    """

    def __init__(self, write: Callable[[list[StepRecord]], object], nursery: trio.Nursery) -> None:
        self._write = write
        self._nursery = nursery
        self._steps: list[StepRecord] = []
        self._writing = trio.Lock()

    def add(self, step: StepRecord) -> None:
        """Note a step."""
        self._steps.append(step)
        if len(self._steps) == 1:
            self._nursery.start_soon(self._write_all)

    async def _write_all(self) -> None:
        try:
            await trio.sleep(_NOTED_AFTER)  # short steps come in crowds
        finally:
            with trio.CancelScope(shield=True):
                async with self._writing:
                    now, self._steps = self._steps, []
                    await trio.to_thread.run_sync(self._write, now)


def _encoded(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}


def _others() -> Sequence[Member]:
    """Return the workers of this run, without this one."""
    nodes: Sequence[Member] = getattr(GVAR.res, "nodes", ())
    return nodes[1:]


def _end_at(began: float, elapsed: float | None) -> float:
    """Return when a program itself ended, in Unix seconds: what it left behind may end later."""
    return time.time() if elapsed is None else min(began + elapsed, time.time())


def _not_started(error: Exception) -> Ended:
    """Return the receipt of a program that could not be started."""
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, QueueError):
        message = str(error)
    else:
        message = f"it cannot be run: {str(error) or type(error).__name__}"
    return Ended(how="start", at=time.time(), status=127, message=message)
