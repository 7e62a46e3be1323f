"""Processes of this machine in place of jobs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grain.cli.batch import (
    BatchError,
    BatchJob,
    JobPhase,
    JobRecord,
    JobRecords,
    JobState,
    SubmittedJob,
    mark_of,
    open_local,
)
from grain.cli.batch.systems.local import Local, divide
from grain.edge.machine.cpu_locks import taking_cpus
from grain.files.processes import start_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HERE = socket.gethostname()
MAIN = "sh -c 'trap \"echo term; exit 0\" TERM; taskset -pc $$; while :; do sleep 0.05; done'"


@pytest.fixture
def started() -> Iterator[list[SubmittedJob]]:
    """Collect the processes that a test starts, and end them afterwards."""
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    jobs: list[SubmittedJob] = []
    yield jobs
    for one in jobs:
        pid = int(one.id.split(":")[1])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-pid, 0)  # all of its group, whose orphans come here
    # Or the orphans of all later tests would come here, and stay.
    libc.prctl(36, 0, 0, 0, 0)


def until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + 180
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def job(job_of: Callable[..., BatchJob], tmp_path: Path) -> BatchJob:
    job = job_of("[script]\ncores = 1\nsetup_cleanup = ['defer echo clean']")
    return replace(job, log_file=str(tmp_path / "w.log"), main=MAIN)


def test_process_lives_and_is_ended(
    job: BatchJob, tmp_path: Path, started: list[SubmittedJob]
) -> None:
    """A process has a session and CPUs of its own, is known, and ends upon TERM, cleaning up."""
    system = Local(tmp_path / "scripts")
    started += system.submit(job, 1)
    one = started[0]
    pid = int(one.id.split(":")[1])
    log = tmp_path / "w.log"
    until(lambda: log.exists() and "affinity" in log.read_text())

    assert {one.id: JobState(JobPhase.RUNNING, "", HERE)} == system.states([one.id])
    assert pid == os.getsid(pid)
    assert [] == list((tmp_path / "scripts").iterdir())
    assert 1 == len(one.cpus)
    assert log.read_text().split()[-1] == str(one.cpus[0])

    system.cancel([one.id])
    until(lambda: system.states([one.id])[one.id].phase is JobPhase.GONE)

    assert "term\nclean\n" == log.read_text().split("\n", 1)[1]
    system.cancel([one.id])


def test_only_the_owner_may_read_the_output_of_a_process_from_its_start(
    job: BatchJob, tmp_path: Path, started: list[SubmittedJob]
) -> None:
    """Not only when its script has begun.

    Tried: Read the output of workers.
    Result: mode 0600 from its start.
    """
    before = os.umask(0)
    try:
        started += Local(tmp_path / "scripts").submit(replace(job, main="exit"), 1)
    finally:
        os.umask(before)

    assert 0o600 == (tmp_path / "w.log").stat().st_mode & 0o777


def test_cpus_of_missions_are_given_to_workers_only_where_there_are_no_others(
    job: BatchJob, tmp_path: Path, started: list[SubmittedJob]
) -> None:
    usable = sorted(os.sched_getaffinity(0))
    folder = tmp_path / "scripts"
    with taking_cpus(usable[:1]):
        started += Local(folder).submit(job, 1)
        started += Local(folder).submit(job, len(usable))

    assert (usable[1] if len(usable) > 1 else usable[0],) == started[0].cpus
    assert usable == sorted(cpu for one in started[1:] for cpu in one.cpus)


def test_cpus_of_living_workers_are_taken(
    job: BatchJob, tmp_path: Path, started: list[SubmittedJob]
) -> None:
    """A second worker gets other CPUs, or none; those of one that ended are free again."""
    everything = len(os.sched_getaffinity(0))
    folder = tmp_path / "scripts"
    started += Local(folder).submit(job, everything)
    taken = [(one.id, one.cpus) for one in started]

    with pytest.raises(BatchError, match="no CPU of this machine is free"):
        list(Local(folder, taken).submit(job, 1))

    assert everything == len({one.cpus for one in started})
    Local(folder).cancel([started[0].id])
    until(lambda: Local(folder).states([started[0].id])[started[0].id].phase is JobPhase.GONE)
    again = list(Local(folder, taken).submit(job, 1))
    started += again
    assert started[0].cpus == again[0].cpus


def test_a_worker_whose_command_was_killed_before_it_started_takes_no_cpus(
    job: BatchJob, started: list[SubmittedJob], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of that is a record with a mark, which stands for no process."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    records = JobRecords(tmp_path / "grain/jobs")
    left = JobRecord(mark_of("w-0"), "local", "w-0", "", "edge:///x", "", time.time())
    records.add(records.new_file(), left)

    started += open_local().submit(job, len(os.sched_getaffinity(0)))

    assert len(os.sched_getaffinity(0)) == len({one.cpus for one in started})


@pytest.mark.parametrize(
    ("free", "n", "cores", "shares"),
    [
        ([0, 1, 2, 3], 1, None, [(0, 1, 2, 3)]),
        ([0, 1, 2, 3], 2, None, [(0, 1), (2, 3)]),
        ([1, 3, 5], 2, None, [(1,), (3,)]),
        ([0, 1, 2, 3], 2, 1, [(0,), (1,)]),
    ],
)
def test_cpus_are_divided_as_asked_or_in_equal_shares(
    free: list[int], n: int, cores: int | None, shares: list[tuple[int, ...]]
) -> None:
    """As many as asked for, or equal shares."""
    assert shares == divide(free, n, cores)


@pytest.mark.parametrize(
    ("n", "cores", "asked"),
    [(3, None, "3 workers"), (1, 3, "a worker with 3"), (2, 2, "2 workers with 2 each")],
)
def test_too_few_cpus(n: int, cores: int | None, asked: str) -> None:
    """The error says how many there are and what to do."""
    with pytest.raises(BatchError) as info:
        divide([0, 1], n, cores)

    assert (
        f"2 CPUs of this machine are free, too few for {asked}\n"
        "Start fewer, lower script.cores, or end the workers that have the others."
    ) == str(info.value)


def test_pids_are_used_again(tmp_path: Path) -> None:
    """A process with the pid of a worker, but another start, is not the worker."""
    system = Local(tmp_path)
    own, other = (f"{HERE}:{os.getpid()}:{start}" for start in (start_time(os.getpid()), "1"))

    assert {own: JobPhase.RUNNING, other: JobPhase.GONE} == {
        one: state.phase for one, state in system.states([own, other]).items()
    }
    system.cancel([other])


def test_processes_of_another_host_are_unknown_and_not_ended(tmp_path: Path) -> None:
    """Processes on another login node have an unknown state, and cancelling them is an error."""
    system = Local(tmp_path)

    assert {
        "there:1:2": JobState(JobPhase.UNKNOWN, "it was started on there", "there")
    } == system.states(["there:1:2"])
    with pytest.raises(BatchError, match="it was started on there"):
        system.cancel(["there:1:2"])


def test_options_are_refused(job: BatchJob, tmp_path: Path) -> None:
    """There is no batch system that could take them."""
    with pytest.raises(BatchError, match="take no further options"):
        list(Local(tmp_path).submit(replace(job, extra_args=("-A",)), 1))


def test_an_unwritable_log_is_named(job: BatchJob, tmp_path: Path) -> None:
    """A log that cannot be written is reported, with its name."""
    with pytest.raises(BatchError) as info:
        list(Local(tmp_path).submit(replace(job, log_file="/nonexistent/w.log"), 1))

    assert "w093015 cannot be started:\n  /nonexistent/w.log: No such file or directory" == str(
        info.value
    )
