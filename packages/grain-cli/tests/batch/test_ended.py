"""Which batch jobs are over: only what a batch system says counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.cli.batch import BatchError, JobPhase, JobState
from grain.cli.batch.ended import answers, end_of
from grain.files.batch_jobs import WorkerJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.cli.batch import BatchSystem


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (JobState(JobPhase.GONE, "TIMEOUT", "n17"), "TIMEOUT"),
        (JobState(JobPhase.GONE, "OUT_OF_MEMORY (x)", "N17.example.org"), "OUT_OF_MEMORY (x)"),
        (JobState(JobPhase.GONE, "", "n17"), ""),
        (JobState(JobPhase.GONE, "TIMEOUT", "n[17-18]"), "TIMEOUT"),
        (JobState(JobPhase.GONE, "", "m1,n[016-017],n[1-3,17]"), ""),
        (JobState(JobPhase.GONE, "", "n16.example.org,n17.example.org"), ""),
    ],
)
def test_a_job_that_is_listed_as_ended_on_the_host_is_over(state: JobState, end: str) -> None:
    """The name of the node may have a domain or none, and the job several nodes."""
    assert end == end_of(state, "n17.other")


@pytest.mark.parametrize(
    "state",
    [
        None,
        JobState(JobPhase.GONE),  # it is not listed
        JobState(JobPhase.GONE, "TIMEOUT", "n18"),
        JobState(JobPhase.GONE, "TIMEOUT", "n[1-16,18]"),
        JobState(JobPhase.GONE, "TIMEOUT", "n[017-018]"),
        JobState(JobPhase.GONE, "TIMEOUT", "n[17-"),
        JobState(JobPhase.GONE, "NODE_FAIL", "n17"),
        JobState(JobPhase.GONE, "NODE_FAIL (NodeDown)", "n17"),
        JobState(JobPhase.GONE, "ZOMBI", "n17"),
        *(JobState(phase, "", "n17") for phase in JobPhase if phase is not JobPhase.GONE),
    ],
)
def test_nothing_else_proves_the_end_of_a_job(state: JobState | None) -> None:
    """A node that does not answer may compute all the same."""
    assert end_of(state, "n17") is None


class Listing:
    """A batch system whose jobs have all ended on n17, and that knows which ids were asked for."""

    def __init__(self, error: BatchError | None = None) -> None:
        self.asked: list[list[str]] = []
        self._error = error

    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        self.asked.append(list(ids))
        if self._error:
            raise self._error
        return {one: JobState(JobPhase.GONE, "TIMEOUT", "n17") for one in ids}


def opened(systems: dict[str, Listing], name: str) -> BatchSystem:
    return systems[name]  # type: ignore[return-value]


def test_each_batch_system_is_asked_once_for_many_jobs() -> None:
    """A job with two attempts is asked for once, too; the answers are in the order of questions."""
    systems = {"slurm": Listing(), "flux": Listing()}
    questions = [
        WorkerJob("slurm", "8", "n17"),
        WorkerJob("flux", "f1", "n17"),
        WorkerJob("slurm", "7", "n18"),
        WorkerJob("slurm", "8", "n17"),
    ]

    assert ["TIMEOUT", "TIMEOUT", None, "TIMEOUT"] == answers(
        questions, lambda name: opened(systems, name)
    )
    assert [["7", "8"]] == systems["slurm"].asked


def test_a_question_names_a_few_hundred_jobs_at_most() -> None:
    """A command line has an end."""
    systems = {"slurm": Listing()}
    questions = [WorkerJob("slurm", str(number), "n17") for number in range(450)]
    answers(questions, lambda name: opened(systems, name))
    assert [200, 200, 50] == [len(one) for one in systems["slurm"].asked]


def test_a_batch_system_that_fails_proves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """The others are asked all the same."""
    systems = {"slurm": Listing(), "flux": Listing(BatchError("flux jobs failed"))}
    questions = [WorkerJob("flux", "f1", "n17"), WorkerJob("slurm", "8", "n17")]

    found = answers(questions, lambda name: opened(systems, name))
    assert [None, "TIMEOUT"] == found
    assert "flux jobs failed\n" == capsys.readouterr().err
