"""Jobs that run: submitted as leaves, awaited, tried again, and written down when they end.

A job is one leaf, `grain.worker.external.run_external` itself, so a worker needs nothing of this
package. Its end is written to the result log in the same step in which it arrives.
"""

from __future__ import annotations

import errno
import math
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from grain.delayed import Delayed, delayed
from grain.map.job_log.entries import UNKNOWN, Entry
from grain.worker.external import (
    CAPTURE,
    Completed,
    ExternalError,
    ExternalStartError,
    ExternalTimeoutError,
    run_external,
)

if TYPE_CHECKING:
    from pathlib import Path

    from grain.delayed import Mission
    from grain.map.halting import Tally
    from grain.map.job_log.file import JobLog
    from grain.map.output import Output
    from grain.map.plan import Plan
    from grain.map.results import Files

# Jobs that are submitted and do not run. Enough that no worker waits for the next one.
WAITING = 1000
# Seconds until the number of those that run is looked at again: nobody is told when a job starts.
_LOOK_AGAIN = 0.2
_LOOK_AGAIN_SOON = 0.02


@dataclass(frozen=True)
class Job:
    """One job: its number, its command in both forms, where it runs and where its output goes."""

    seq: int
    argv: list[str]
    command: str
    directory: Path
    files: Files | None


@dataclass(frozen=True)
class Ended:
    """How a job ended; `told` is a sentence on what no exit code says."""

    host: str
    runtime: float
    exitval: int
    signal: int = 0
    out: bytes = b""
    err: bytes = b""
    told: str = ""

    @property
    def failed(self) -> bool:
        """Whether it did not succeed."""
        return bool(self.exitval or self.signal)


class Jobs:
    """The jobs that were started and have not ended.

    Args:
        plan: what is asked for.
        made: the mission whose leaves they are.
        nursery: where their ends are awaited; cancelling it leaves the leaves to the mission.
        tally: counts them.
        log: is told of each end; None for none.
        output: prints what they wrote.

    Attributes:
        feeding: around the making of jobs; cancelled when there are to be no more.
        error: what ended everything, if not a job; None if nothing did.
    """

    def __init__(
        self,
        plan: Plan,
        made: Mission,
        nursery: trio.Nursery,
        tally: Tally,
        log: JobLog | None,
        output: Output,
    ) -> None:
        self.feeding = trio.CancelScope()
        self.error: OSError | None = None
        self._tries = plan.tries
        self._timeout = plan.timeout
        self._leaf = delayed(run_external) @ plan.request
        self._statistics = made.executor.statistics
        self._nursery = nursery
        self._tally = tally
        self._log = log
        self._output = output
        # What waits when a policy says soon is run all the same, so next to nothing is to wait.
        self._careful = plan.halt.when == "soon"
        self._most = plan.at_once if self._careful and plan.at_once is not None else math.inf
        self._count = 0
        self._one_ended = trio.Event()

    async def room(self) -> None:
        """Wait until few enough jobs wait."""
        waiting = 1 if self._careful else WAITING
        while self._count >= self._most or self._count - self._statistics().running >= waiting:
            self._one_ended = trio.Event()
            with trio.move_on_after(_LOOK_AGAIN_SOON if self._careful else _LOOK_AGAIN):
                await self._one_ended.wait()

    def start(self, job: Job) -> None:
        """Submit a job, and see to its end.

        Raises:
            grain.resource.Infeasible: no worker can ever run it.
            OSError: there can be no directory for it or for its output.
        """
        first = self._submit(job)
        self._count += 1
        self._nursery.start_soon(self._see_to, job, first)

    def _submit(self, job: Job) -> Delayed[Completed]:
        for folder in (job.directory, *(file.parent for file in job.files or ())):
            folder.mkdir(parents=True, exist_ok=True)
        out, err = job.files or (CAPTURE, CAPTURE)
        return self._leaf(
            job.argv, cwd=str(job.directory), stdout=out, stderr=err, timeout=self._timeout
        )

    async def _see_to(self, job: Job, submitted: Delayed[Completed]) -> None:
        try:
            began = time.time()
            ended = await _ended(job, submitted, began)
            for _ in range(self._tries - 1):
                if not ended.failed or self._tally.halted:
                    break
                began = time.time()
                ended = await _ended(job, self._submit(job), began)
            self._write_down(job, ended)
            err = ended.err
            if ended.told:
                err += os.fsencode(f"grain map: job {job.seq}: {ended.told}\n")
            await self._output.put(job.seq, ended.out, err)
        except OSError as error:  # of the log or the output, which all jobs share
            self.error = self.error or error
            self._nursery.cancel_scope.cancel()
        finally:
            self._count -= 1
            self._one_ended.set()
        if self._tally.halted:
            self.feeding.cancel()
            if self._tally.halt.when == "now":
                self._nursery.cancel_scope.cancel()

    def _write_down(self, job: Job, ended: Ended) -> None:
        if self._log is not None:
            self._log.append(
                Entry(
                    seq=job.seq,
                    host=ended.host,
                    start=time.time() - ended.runtime,
                    runtime=ended.runtime,
                    received=len(ended.out),
                    exitval=ended.exitval,
                    signal=ended.signal,
                    command=job.command,
                )
            )
        self._tally.add(ended.exitval, ended.signal)


async def _ended(job: Job, waiting: Delayed[Completed], began: float) -> Ended:
    """How a job ended, whatever it was."""
    try:
        done = await waiting
    except ExternalStartError as error:
        # The exit codes of a shell that cannot run a program (POSIX.1-2017, 2.8.2).
        code = 127 if error.errno == errno.ENOENT else 126
        return Ended(error.host, 0.0, code, told=str(error))
    except ExternalTimeoutError as error:
        told = f"ended at its time limit: {job.command}"
        runtime = error.elapsed or time.time() - began
        out, err = error.stdout or b"", error.stderr or b""
        return Ended(error.host, runtime, UNKNOWN, signal.SIGTERM, out, err, told)
    except ExternalError as error:
        ended_by = error.returncode
        out, err = error.stdout or b"", error.stderr or b""
        runtime = error.elapsed or 0.0
        if ended_by is None:
            return Ended(error.host, runtime, UNKNOWN, 0, out, err, str(error))
        return Ended(error.host, runtime, max(ended_by, 0), max(-ended_by, 0), out, err)
    except trio.TooSlowError:  # of the WTime that was asked for
        told = f"ended at its time limit: {job.command}"
        return Ended("?", time.time() - began, UNKNOWN, signal.SIGTERM, told=told)
    except Exception as error:  # whatever ends one job, the others go on
        name = type(error).__name__
        return Ended("?", time.time() - began, UNKNOWN, told=f"{name}: {error}")
    return Ended(done.host, done.elapsed, 0, 0, done.stdout or b"", done.stderr or b"")
