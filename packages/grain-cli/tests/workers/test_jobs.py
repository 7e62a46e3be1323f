"""The fate of the jobs that `grain` has submitted."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grain.cli.batch import BatchError, JobPhase, JobRecord, JobRecords, JobState
from grain.cli.workers.jobs import (
    FORGOTTEN,
    KEPT,
    BackgroundQuery,
    OwnJob,
    failed_at_once,
    prune,
    report_ended,
    warning,
)
from grain.config import load
from grain.edge.questions import JobEndedAnswer

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1e9


def job(
    folder: Path, name: str, phase: JobPhase = JobPhase.GONE, *, wrote: float | None = None
) -> OwnJob:
    """A job that was submitted 1000 s ago, and wrote so many seconds later."""
    log = folder / name
    if wrote is not None:
        log.write_text("x")
        os.utime(log, (NOW - 1000 + wrote,) * 2)
    record = JobRecord(name, "slurm", name, str(log), "edge:///x", "", NOW - 1000)
    return OwnJob(record, JobState(phase))


def test_what_failed_at_once(tmp_path: Path) -> None:
    """A job whose output ends seconds after its submission; not one that lives or never wrote."""
    assert failed_at_once(job(tmp_path, "a", wrote=3))
    assert not failed_at_once(job(tmp_path, "b", wrote=300))
    assert not failed_at_once(job(tmp_path, "c", JobPhase.RUNNING, wrote=3))
    assert not failed_at_once(job(tmp_path, "d"))
    refused = job(tmp_path, "e")._replace(
        state=JobState(JobPhase.GONE, "FAILED (JobLaunchFailure)")
    )
    assert failed_at_once(refused)


def test_a_warning_names_the_last_log_if_all_last_jobs_failed(tmp_path: Path) -> None:
    """Told if all of the last jobs failed, with the last log."""
    failed = [job(tmp_path, f"f{i}", wrote=1) for i in range(4)]
    good = job(tmp_path, "good", wrote=500)
    running = job(tmp_path, "running", JobPhase.RUNNING)
    pending = job(tmp_path, "pending", JobPhase.PENDING)

    assert f"3 of the last 3 jobs ended within 10 s: see {tmp_path}/f3" == warning(
        [good, *failed, pending]
    )
    assert f"the last job ended within 10 s: see {tmp_path}/f0" == warning(failed[:1])
    assert ["", "", "", ""] == [
        warning([]),
        warning([*failed, running]),
        warning([*failed, good]),
        warning([good, failed[0]]),
    ]


def test_records_of_ended_jobs_are_removed_in_time_and_others_much_later(tmp_path: Path) -> None:
    """Submissions all of whose jobs are gone are forgotten in time, others much later."""
    kept = JobRecords(tmp_path / "jobs")

    def submission(age: float, *phases: JobPhase) -> list[OwnJob]:
        file = kept.new_file()
        jobs = []
        for number, phase in enumerate(phases):
            record = job(tmp_path, f"{file.name}{number}").record
            record = replace(record, submitted=NOW - age, file=file.name)
            kept.add(file, record)
            jobs.append(OwnJob(record, JobState(phase)))
        return jobs

    stay = [
        *submission(KEPT - 1, JobPhase.GONE),
        *submission(KEPT + 1, JobPhase.GONE, JobPhase.RUNNING),
        *submission(KEPT + 1, JobPhase.UNKNOWN),
    ]
    go = [
        *submission(KEPT + 1, JobPhase.GONE, JobPhase.GONE),
        *submission(FORGOTTEN + 1, JobPhase.RUNNING),
    ]
    submission(KEPT + 1, JobPhase.GONE)  # of another batch system, which was not asked
    prune(kept, [*stay, *go], NOW)

    left = {record.file for record in kept.read()}
    assert {one.record.file for one in stay} <= left
    assert not {one.record.file for one in go} & left
    assert 4 == len(left)


def test_looking_does_not_wait_for_ever() -> None:
    """A batch system that is slow, refuses, or is not there is a remark."""

    def refused() -> list[OwnJob]:
        raise BatchError("squeue failed", "told")

    def unreadable() -> list[OwnJob]:
        raise OSError("disk")

    assert ([], "squeue failed") == BackgroundQuery(refused).wait(60)
    assert ([], "disk") == BackgroundQuery(unreadable).wait(60)
    stuck = threading.Event()

    def slow() -> list[OwnJob]:
        stuck.wait()
        return []

    assert "has not answered" in BackgroundQuery(slow).wait(0.05)[1]
    stuck.set()


def test_the_scheduler_is_told_of_jobs_that_have_ended_and_whose_workers_it_still_has(
    address: str, answering: Any
) -> None:
    """So that it waits for none of them."""
    phases = {"1": JobPhase.GONE, "2": JobPhase.GONE, "3": JobPhase.RUNNING, "4": JobPhase.GONE}
    states = {one: JobState(phase, "OUT_OF_MEMORY") for one, phase in phases.items()}
    names = {"1": "w1", "2": "w2", "3": "w3"}
    with answering(address, ended=JobEndedAnswer(1)) as fake:
        report_ended(load(), states, names, lambda: ["w1", "w3", "w9"])

    said = [(ask.about, ask.pattern, ask.why) for ask in fake.asked]
    assert [("ended", "w1", "OUT_OF_MEMORY")] == said


def test_the_end_of_a_job_of_several_nodes_is_that_of_all_of_its_workers(
    address: str, answering: Any
) -> None:
    states = {"1": JobState(JobPhase.GONE)}
    with answering(address, ended=JobEndedAnswer(1)) as fake:
        report_ended(load(), states, {"1": "w1"}, lambda: ["w1.0", "w1.1", "w10.0", "w2.1"])

    assert ["w1.0", "w1.1"] == [ask.pattern for ask in fake.asked]


def test_where_no_job_has_ended_no_scheduler_is_asked_for_workers(address: str) -> None:
    def workers() -> list[str]:
        raise AssertionError("they do not matter")

    report_ended(load(), {"1": JobState(JobPhase.RUNNING)}, {"1": "w1"}, workers)


def test_without_a_scheduler_the_end_of_a_job_is_not_reported(address: str) -> None:
    report_ended(load(), {"1": JobState(JobPhase.GONE)}, {"1": "w1"}, lambda: ["w1"])
