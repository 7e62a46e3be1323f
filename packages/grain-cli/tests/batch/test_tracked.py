"""Jobs that may or may not have been submitted: looked for, adopted, given up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grain.cli.batch import (
    BatchError,
    BatchJob,
    BatchUnreachable,
    BatchUnsupported,
    JobPhase,
    JobRecord,
    JobRecords,
    JobState,
    SubmittedJob,
    mark_of,
)
from grain.cli.batch.tracked import SETTLED, UNSEEN, Tracked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

MARK = mark_of("w-0")
RECORD = JobRecord(MARK, "slurm", "w-0", "", "edge:///x", "", 1000.0)
RUNS = JobState(JobPhase.RUNNING)


class Listing:
    """A batch system in which some jobs run."""

    def __init__(self, **jobs: list[str]) -> None:
        self.jobs = {name.replace("_", "-"): ids for name, ids in jobs.items()}
        self.trouble: BatchError | None = None
        self.cancelled: list[str] = []
        self.searches = 0

    def script(self, job: BatchJob, n: int) -> str:
        raise NotImplementedError

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        raise NotImplementedError

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        self.searches += 1
        if self.trouble is not None:
            raise self.trouble
        return {name: self.jobs.get(name, []) for name in names}

    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        assert ids
        alive = {one for ids in self.jobs.values() for one in ids}
        return {one: RUNS if one in alive else JobState(JobPhase.GONE) for one in ids}

    def cancel(self, ids: Sequence[str]) -> None:
        assert ids
        self.cancelled += ids


class Site:
    """A batch system with records, at a time."""

    def __init__(self, folder: Path, system: Listing, *records: JobRecord) -> None:
        self.now = 1000.0
        self.store = JobRecords(folder)
        self.system = system
        self.tracked = Tracked(system, self.store, lambda: self.now)
        file = self.store.new_file()
        for record in records:
            self.store.add(file, record)

    def phase(self, one: str = MARK) -> JobPhase:
        return self.tracked.states([one])[one].phase

    @property
    def ids(self) -> list[str]:
        return [record.id for record in self.store.read()]


def test_a_job_that_is_listed_is_adopted_and_looked_for_once(tmp_path: Path) -> None:
    other = replace(RECORD, id="6", name="w-1")
    site = Site(tmp_path, Listing(w_0=["7"], w_1=["6"]), other, RECORD)

    assert {MARK: RUNS, "6": RUNS} == site.tracked.states([MARK, "6"])
    assert ["6", "7"] == site.ids
    assert JobPhase.RUNNING is site.phase()
    site.tracked.cancel([MARK, "6"])
    assert (["7", "6"], 1) == (site.system.cancelled, site.system.searches)


def test_a_job_that_is_not_listed_counts_until_its_submission_must_be_over(tmp_path: Path) -> None:
    site = Site(tmp_path, Listing(), RECORD)

    assert JobPhase.UNKNOWN is site.phase()
    site.now += SETTLED
    assert JobPhase.GONE is site.phase()
    site.tracked.cancel([MARK])
    assert ([], [MARK]) == (site.system.cancelled, site.ids)
    site.system.jobs["w-0"] = ["9"]  # it is late, and adopted all the same
    assert JobPhase.RUNNING is site.phase()
    assert ["9"] == site.ids


def test_the_record_of_a_job_that_never_appears_is_removed(tmp_path: Path) -> None:
    site = Site(tmp_path, Listing(), RECORD)
    site.now += UNSEEN

    assert JobPhase.GONE is site.phase()
    assert ([], []) == (site.ids, [*tmp_path.iterdir()])
    assert JobPhase.GONE is site.phase()


def test_a_job_is_in_doubt_for_as_long_as_no_answer_comes(tmp_path: Path) -> None:
    site = Site(tmp_path, Listing(), RECORD)
    site.system.trouble = BatchUnreachable("squeue did not end within 60 s")
    site.now += 100 * UNSEEN

    assert (
        JobState(JobPhase.UNKNOWN, "squeue did not end within 60 s")
        == (site.tracked.states([MARK])[MARK])
    )
    with pytest.raises(BatchUnreachable):
        site.tracked.cancel([MARK])


def test_where_names_are_not_listed_a_job_counts_for_half_an_hour(tmp_path: Path) -> None:
    site = Site(tmp_path, Listing(), RECORD)
    site.system.trouble = BatchUnsupported("no")
    site.now += UNSEEN - 1

    assert JobPhase.UNKNOWN is site.phase()
    site.now += 1
    assert JobPhase.GONE is site.phase()
    site.tracked.cancel([MARK])
    assert [MARK] == site.ids


def test_a_job_of_the_same_name_that_has_a_record_is_another_one(tmp_path: Path) -> None:
    """A name that the user chose may be that of many jobs."""
    twin = replace(RECORD, id=mark_of("w-0"))
    site = Site(tmp_path, Listing(w_0=["6", "7"]), replace(RECORD, id="6"), RECORD, twin)

    states = site.tracked.states([MARK, twin.id])

    assert [JobPhase.RUNNING, JobPhase.UNKNOWN] == [one.phase for one in states.values()]
    assert ["6", "7", twin.id] == site.ids


def test_a_batch_system_is_not_asked_for_no_jobs(tmp_path: Path) -> None:
    """`squeue --jobs=` would list all jobs of a cluster, and `bkill` without ids fails."""
    site = Site(tmp_path, Listing(w_0=["6"]))

    assert {} == site.tracked.states([])
    site.tracked.cancel([])
    assert [] == site.system.cancelled
