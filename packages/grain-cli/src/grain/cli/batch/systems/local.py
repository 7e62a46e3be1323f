"""Plain processes on this machine in place of jobs: for a laptop, or for a node of an allocation.

Each process runs the same script as a job would, in its own session, and outlives the command.
Its id is ``host:pid:start``, with the start in clock ticks since boot, as the kernel reuses pids.
Workers share the CPUs: two that both own all of them would run twice as many tasks as there are
CPUs.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from grain.cli.batch.base import JobPhase, JobState, SubmittedJob
from grain.cli.batch.errors import BatchError
from grain.cli.batch.scripts.shell import own_file
from grain.cli.batch.systems.ssh import free_words
from grain.cli.streams import file_trouble
from grain.edge.machine.cpu_locks import taken_cpus
from grain.files.processes import PeerProcess, start_time
from grain.files.trust import open_appended, private_folder
from grain.files.whole import write_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from grain.cli.batch.base import BatchJob


class Local:
    """Processes of this machine.

    Args:
        folder: the directory of the scripts; made if it is missing.
        taken: the id and the CPU ids of each process that was started earlier.
    """

    def __init__(self, folder: Path, taken: Iterable[tuple[str, tuple[int, ...]]] = ()) -> None:
        self._folder = folder
        self._taken = list(taken)

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first process."""
        return own_file(job.members(n)[0])

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Start ``n`` processes.

        Raises:
            BatchError: there are not enough CPUs, or the script cannot be written or run.
        """
        if job.extra_args:
            raise BatchError(
                "processes on this machine take no further options",
                " ".join(job.extra_args),
                "Leave them away, or set `system` in the configuration.",
            )
        shares = divide(self._free(n * (job.script.cores or 1)), n, job.script.cores)
        for member, cpus in zip(job.members(n), shares, strict=True):
            yield self.start(member, cpus)

    def start(self, job: BatchJob, cpus: tuple[int, ...] = ()) -> SubmittedJob:
        """Start one process; without CPUs it is not confined, and takes none from workers.

        Raises:
            BatchError: the script cannot be written or run.
        """
        try:
            return SubmittedJob(self._start(job, cpus), job.name, job.log_file, cpus)
        except OSError as error:
            raise BatchError(f"{job.name} cannot be started", file_trouble(error)) from None

    def _free(self, wanted: int) -> list[int]:
        """Return the CPUs that no worker was given; without those of missions if enough remain."""
        states = self.states(one for one, _ in self._taken)
        taken = {
            cpu
            for one, cpus in self._taken
            if states[one].phase is JobPhase.RUNNING
            for cpu in cpus
        }
        free = os.sched_getaffinity(0) - taken
        unused = free - taken_cpus(free)
        return sorted(unused if len(unused) >= wanted else free)

    def _start(self, job: BatchJob, cpus: tuple[int, ...]) -> str:
        private_folder(self._folder)
        path = self._folder / f"{job.name}-{os.getpid()}.sh"
        write_script(path, own_file(job))
        with os.fdopen(open_appended(job.log_file or os.devnull), "ab") as log:
            process = subprocess.Popen(  # noqa: S603 - the user's script
                [path],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # This command has one thread, so nothing is locked at the fork.
                preexec_fn=(lambda: os.sched_setaffinity(0, cpus)) if cpus else None,
            )
        # It outlives this command, which does not wait for it.
        process.returncode = 0
        return f"{socket.gethostname()}:{process.pid}:{start_time(process.pid) or 0}"

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Check which processes are alive; those of other hosts are unknown."""
        return {one: self._state(one) for one in ids}

    def _state(self, process: str) -> JobState:
        host, pid, start = process.rsplit(":", 2)
        if host != socket.gethostname():
            return JobState(JobPhase.UNKNOWN, f"it was started on {host}", host)
        if PeerProcess(int(pid), int(start)).alive:
            return JobState(JobPhase.RUNNING, node=host)
        return JobState(JobPhase.GONE)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Return nothing: a process is started or not, and never in doubt."""
        return {name: [] for name in names}

    def cancel(self, ids: Iterable[str]) -> None:
        """Send SIGTERM, upon which a worker ends its tasks and leaves."""
        for one in ids:
            state = self._state(one)
            if state.phase is JobPhase.UNKNOWN:
                raise BatchError(f"{one} cannot be ended: {state.reason}", remedy="Go there.")
            if state.phase is JobPhase.RUNNING:
                with suppress(ProcessLookupError):  # it has ended since
                    os.kill(int(one.rsplit(":", 2)[1]), signal.SIGTERM)


def divide(free: list[int], n: int, cores: int | None) -> list[tuple[int, ...]]:
    """Give each of n workers its own CPUs: as many as asked for, or equal shares of all."""
    each = cores or len(free) // n
    if not each or each * n > len(free):
        raise BatchError(
            f"{free_words(len(free), 'this machine')}, too few for {_workers(n, cores)}",
            remedy="Start fewer, lower script.cores, or end the workers that have the others.",
        )
    return [tuple(free[i * each : (i + 1) * each]) for i in range(n)]


def _workers(n: int, cores: int | None) -> str:
    workers = "a worker" if n == 1 else f"{n} workers"
    return workers if not cores else f"{workers} with {cores}{'' if n == 1 else ' each'}"
