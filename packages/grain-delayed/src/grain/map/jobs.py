"""Jobs that run: submitted as leaves, awaited, retried, and written down when they end.

A job is one leaf, `grain.worker.external.run_external` itself, so a worker needs nothing of this
package. Its end is written to the result log in the same step in which it arrives.
"""

from __future__ import annotations

import errno
import heapq
import math
import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from grain.delayed import Delayed, delayed
from grain.map.errors import with_options
from grain.map.failures import job_text, shortened
from grain.map.job_log.entries import UNKNOWN, JobLogEntry
from grain.map.output import tagged
from grain.map.overflow import LargeOutput, Output
from grain.resource.figures import signal_name
from grain.worker.external import (
    CAPTURE,
    Completed,
    ExternalError,
    ExternalMemoryError,
    ExternalStartError,
    ExternalTimeoutError,
    run_external,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.delayed import Mission
    from grain.map.halting import Tally
    from grain.map.job_log.file import JobLog
    from grain.map.job_log.table import ResultTable
    from grain.map.output import OutputPrinter
    from grain.map.plan import MapOptions
    from grain.map.results import Files
    from grain.worker.errors import OutputFile

# The most jobs that are submitted and do not run: enough that no worker waits for the next one.
WAITING = 1000
# Seconds between two looks at the number of jobs that run, as no event reports a start.
_LOOK_AGAIN = 0.2
_LOOK_AGAIN_SOON = 0.02
_INSTEAD = "With --results DIR, jobs write their outputs to files of your choice"


@dataclass(frozen=True)
class MapJob:
    """A job: its number, its command in both forms, where it runs and where its output goes.

    Attributes:
        command: its command as the result log has it.
        files: the files for its outputs; None to capture them.
        slot: the number that no other job has while this one runs; None if it needs none.
    """

    seq: int
    argv: list[str]
    command: str
    directory: Path
    files: Files | None
    values: Sequence[str] = ()
    tag: bytes = b""
    slot: int | None = None


@dataclass(frozen=True)
class JobEnd:
    """The end of a job; `remark` is a sentence on what no exit code says."""

    host: str
    runtime: float
    exitval: int
    signal: int = 0
    out: Output = b""
    err: Output = b""
    remark: str = ""
    timed_out: bool = False
    out_of_memory: bool = False

    @property
    def failed(self) -> bool:
        """True if it did not succeed."""
        return bool(self.exitval or self.signal)

    @property
    def verdict(self) -> str:
        """The end as part of a sentence."""
        if self.timed_out:
            return "was ended at its time limit"
        if self.out_of_memory:
            return "had too little memory"
        if self.signal:
            return f"was ended by {signal_name(self.signal)}"
        if self.exitval == UNKNOWN:
            return "failed without an exit status"
        return f"failed with exit status {self.exitval}" if self.exitval else "succeeded"

    @property
    def kind(self) -> str:
        """The end in a word or two, by which failures are grouped."""
        if self.timed_out:
            return "time limit"
        if self.out_of_memory:
            return "too little memory"
        if self.signal:
            return signal_name(self.signal)
        return "no exit status" if self.exitval == UNKNOWN else f"exit {self.exitval}"


class Jobs:
    """The jobs that were started and have not ended.

    Args:
        nursery: the nursery of the tasks that await the ends; cancelling it leaves the leaves to
            the mission.
        slots: True if every job has a slot: then no more jobs are made than run at a time.
        overflow: the directory for outputs that are too large for memory; None to have all there.

    Attributes:
        feeding: the scope around the making of jobs; it is cancelled to make no more.
        error: the error of the log or the output that ended everything; None if there is none.
    """

    def __init__(
        self,
        plan: MapOptions,
        mission: Mission,
        nursery: trio.Nursery,
        tally: Tally,
        log: JobLog | None,
        output: OutputPrinter,
        table: ResultTable | None = None,
        *,
        slots: bool = False,
        overflow: Path | None = None,
    ) -> None:
        self.feeding = trio.CancelScope()
        self.error: OSError | None = None
        self._tries = plan.tries
        self._timeout = plan.timeout
        self._warn = plan.warn
        self._warn_before = None if plan.warn is None else plan.warn_before
        self._delay = plan.delay
        self._env = plan.env
        self._leaf = delayed(run_external) @ plan.request
        self._statistics = mission.executor.statistics
        self._nursery = nursery
        self._tally = tally
        self._log = log
        self._output = output
        self._table = table
        self._rows = trio.Lock()
        self._overflow = None if overflow is None else str(overflow)
        # Jobs that wait when the policy says soon run all the same, so hardly any may wait.
        self._careful = plan.halt.when == "soon" or bool(plan.delay)
        few = (self._careful or slots) and plan.at_once is not None
        self._most = plan.at_once if few and plan.at_once is not None else math.inf
        self._free_slots = list(range(1, plan.at_once + 1)) if slots and plan.at_once else []
        self._count = 0
        # The last time at which a job was submitted, or waited for resources.
        self._last_waiting = -math.inf
        self._one_ended = trio.Event()

    async def wait_for_room(self) -> None:
        """Wait until few enough jobs wait for resources."""
        waiting = 1 if self._careful else WAITING
        while self._count >= self._most or self._count - self._statistics().running >= waiting:
            self._last_waiting = trio.current_time()
            self._one_ended = trio.Event()
            with trio.move_on_after(_LOOK_AGAIN_SOON if self._careful else _LOOK_AGAIN):
                await self._one_ended.wait()
        if self._delay:
            await trio.sleep_until(self._last_waiting + self._delay)

    def take_slot(self) -> int | None:
        """Return the slot of the next job, once there is room for it; None if jobs have none.

        It is free again when the job has ended.
        """
        return heapq.heappop(self._free_slots) if self._free_slots else None

    def start(self, job: MapJob) -> None:
        """Submit a job, and start to await its end.

        Raises:
            grain.resource.Infeasible: no worker can ever run it.
            OSError: there can be no directory for it or for its output.
        """
        first = self._submit(job)
        self._count += 1
        self._last_waiting = trio.current_time()
        self._nursery.start_soon(self._await_end, job, first)

    def _submit(self, job: MapJob, attempt: int = 1) -> Delayed[Completed]:
        for folder in (job.directory, *(file.parent for file in job.files or ())):
            folder.mkdir(parents=True, exist_ok=True)
        out, err = job.files or (CAPTURE, CAPTURE)
        return self._leaf(
            job.argv,
            cwd=str(job.directory),
            # That of a task counts within it, and each attempt here is a task of its own.
            env=self._env if attempt == 1 else {**(self._env or {}), "GRAIN_ATTEMPT": str(attempt)},
            stdout=out,
            stderr=err,
            timeout=self._timeout,
            warn=self._warn,
            warn_before=self._warn_before,
            overflow=None if job.files else self._overflow,
        )

    async def _await_end(self, job: MapJob, submitted: Delayed[Completed]) -> None:
        try:
            began = time.time()
            ended = await _end_of(job, submitted, began)
            for attempt in range(2, self._tries + 1):
                if not ended.failed or self._tally.halted:
                    break
                for output in (ended.out, ended.err):
                    if isinstance(output, LargeOutput):
                        output.remove()
                began = time.time()
                ended = await _end_of(job, self._submit(job, attempt), began)
            out, err = await self._write_down(job, ended)
            if ended.remark:
                err.append(os.fsencode(f"grain map: job {job.seq}: {ended.remark}\n"))
            await self._output.put(job.seq, out, err)
        except OSError as error:  # of the log or the output, which all jobs share
            self.error = self.error or error
            self._nursery.cancel_scope.cancel()
        finally:
            self._count -= 1
            if job.slot is not None:
                heapq.heappush(self._free_slots, job.slot)
            self._one_ended.set()
        if self._tally.halted:
            self.feeding.cancel()
            if self._tally.halt.when == "now":
                self._nursery.cancel_scope.cancel()

    async def _write_down(
        self, job: MapJob, ended: JobEnd
    ) -> tuple[Sequence[Output], list[Output]]:
        """Write down the end of a job; return what is to be printed on both streams."""
        out: Sequence[Output] = [tagged(ended.out, job.tag)]
        err = [tagged(ended.err, job.tag)]
        if self._log is not None or self._table is not None:
            entry = JobLogEntry(
                seq=job.seq,
                host=ended.host,
                start=time.time() - ended.runtime,
                runtime=ended.runtime,
                received=len(ended.out),
                exitval=ended.exitval,
                signal=ended.signal,
                command=job.command,
            )
            if self._table is not None:
                out, err = await self._add_row(self._table, entry, job, ended), []
            if self._log is not None:
                self._log.append(entry)
        description = ""
        if self._tally.halt.when != "never":
            description = f"{job_text(job.seq, shortened(job.values))} {ended.verdict}"
        if ended.failed:
            self._tally.failures.add(ended.kind, job.seq, job.values)
        self._tally.add(ended.exitval, ended.signal, description)
        return out, err

    async def _add_row(
        self, table: ResultTable, entry: JobLogEntry, job: MapJob, ended: JobEnd
    ) -> Sequence[Output]:
        """Add a row to the table of results; return the parts that are to be printed."""
        row = entry, job.values, ended.out, ended.err
        # Cancelled neither before a row nor within one: a job that has ended is written down.
        printed: Sequence[Output] = ()
        with trio.CancelScope(shield=True):
            async with self._rows:
                if isinstance(ended.out, bytes) and isinstance(ended.err, bytes):
                    printed = table.add(*row)
                else:  # in a thread, as it may take minutes
                    printed = await trio.to_thread.run_sync(table.add, *row)
        return printed


async def _end_of(job: MapJob, waiting: Delayed[Completed], began: float) -> JobEnd:
    """Return how a job ended, whatever happened to it."""
    ended = await _reported_end(job, waiting, began)
    for output in (ended.out, ended.err):
        if isinstance(output, LargeOutput) and (why := output.missing()):
            remark = f"its output is not here, as {why}. {_INSTEAD}"
            exitval = ended.exitval or UNKNOWN
            return replace(ended, exitval=exitval, out=b"", err=b"", remark=remark)
    return ended


async def _reported_end(job: MapJob, waiting: Delayed[Completed], began: float) -> JobEnd:
    """Return how a job ended, as its worker says."""
    try:
        done = await waiting
    except ExternalStartError as error:
        # The exit codes of a shell that cannot run a program (POSIX.1-2017, 2.8.2).
        code = 127 if error.errno == errno.ENOENT else 126
        return JobEnd(error.host, 0.0, code, remark=str(error))
    except ExternalTimeoutError as error:
        remark = f"{error.reason}: {job.command}"
        runtime = error.elapsed or time.time() - began
        out, err = _outputs(error)
        return JobEnd(error.host, runtime, UNKNOWN, signal.SIGTERM, out, err, remark, True)
    except ExternalError as error:
        ended_by = error.returncode
        out, err = _outputs(error)
        runtime = error.elapsed or 0.0
        if ended_by is None:
            lost = f"{error.reason}. {_INSTEAD}" if error.failure.errno else ""
            return JobEnd(error.host, runtime, UNKNOWN, 0, out, err, lost or str(error))
        of_memory = isinstance(error, ExternalMemoryError)
        remark = _why_memory(error) if of_memory else ""
        return JobEnd(
            error.host, runtime, max(ended_by, 0), max(-ended_by, 0), out, err, remark,
            out_of_memory=of_memory,
        )  # fmt: skip
    except trio.TooSlowError:  # of the WTime that was asked for
        remark = f"ended at its time limit: {job.command}"
        runtime = time.time() - began
        return JobEnd("?", runtime, UNKNOWN, signal.SIGTERM, remark=remark, timed_out=True)
    except Exception as error:  # the other jobs go on
        name = type(error).__name__
        return JobEnd("?", time.time() - began, UNKNOWN, remark=f"{name}: {error}")
    return JobEnd(done.host, done.elapsed, 0, 0, *_outputs(done))


def _why_memory(error: ExternalError) -> str:
    """Return in a line that memory was too little, and why there was no attempt with more."""
    lines = [str(error), *getattr(error, "__notes__", ())]
    return ". ".join(with_options(line.splitlines()[0]).rstrip(".") for line in lines)


def _outputs(end: Completed | ExternalError) -> tuple[Output, Output]:
    """Return what a job has written to both streams."""
    out, err = end.overflows
    return _output(end.stdout, out), _output(end.stderr, err)


def _output(captured: bytes | None, file: OutputFile | None) -> Output:
    return captured or b"" if file is None else LargeOutput(Path(file.path), file.size)
