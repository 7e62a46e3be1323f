"""A batch system that looks for jobs that may or may not exist.

A submission whose command hangs, or whose answer cannot be read, may have made a job. Its record
has a mark in place of an id (`grain.cli.batch.records.mark_of`). Wherever such a mark is asked
for, the batch system is asked for jobs of that name first. A job that it has is adopted: its id
goes into the record. Until then the job counts as alive, so that nothing takes its place.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from grain.cli.batch.base import JobPhase, JobState
from grain.cli.batch.errors import BatchError, BatchUnsupported
from grain.cli.batch.records import is_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from grain.cli.batch.base import BatchJob, BatchSystem, SubmittedJob
    from grain.cli.batch.records import JobRecord, JobRecords

SETTLED = 120.0
"""Seconds after which a submission without an answer is no longer under way: a job that the batch
system does not list then does not exist."""

UNSEEN = 1800.0
"""Seconds for which such a job counts as alive where a batch system lists no jobs by name."""


class Tracked:
    """A batch system whose jobs have records."""

    def __init__(
        self, system: BatchSystem, records: JobRecords, clock: Callable[[], float] = time.time
    ) -> None:
        self._system = system
        self._records = records
        self._clock = clock

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script that `submit` submits."""
        return self._system.script(job, n)

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit jobs; see `BatchSystem.submit`."""
        return self._system.submit(job, n)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Look for jobs by their names; see `BatchSystem.find`."""
        return self._system.find(names)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query the states of jobs; a mark in place of an id is as good."""
        asked = list(ids)
        marks = {one for one in asked if is_mark(one)}
        own, trouble = self._own_ids(marks) if marks else ({}, None)
        known = [own.get(one, one) for one in asked if one not in marks - {*own}]
        states = self._system.states(known) if known else {}
        if not marks:
            return states
        records = {one.id: one for one in self._records.read()}
        return {
            one: states[own.get(one, one)]
            if one not in marks or one in own
            else self._state(records.get(one), trouble)
            for one in asked
        }

    def _state(self, record: JobRecord | None, trouble: BatchError | None) -> JobState:
        """Return the state of a job that was not found."""
        if record is None:
            return JobState(JobPhase.GONE, "it has no record")
        age = self._clock() - record.submitted
        if isinstance(trouble, BatchUnsupported):
            reason = "it is unknown whether it was submitted"
            return JobState(JobPhase.GONE if age >= UNSEEN else JobPhase.UNKNOWN, reason)
        if trouble is not None or age < SETTLED:
            return JobState(JobPhase.UNKNOWN, trouble.what if trouble else "it is looked for")
        return JobState(JobPhase.GONE, "the batch system has no job of that name")

    def _own_ids(self, marks: Iterable[str]) -> tuple[Mapping[str, str], BatchError | None]:
        """Look for jobs by their marks, and adopt them.

        Returns:
            The ids of the jobs that exist, by mark, and what prevented the search.
        """
        wanted = set(marks)
        records = self._records.read()
        own = {one.mark: one.id for one in records if one.mark in wanted}
        doubtful = [one for one in records if one.id in wanted]
        if not doubtful:
            return own, None
        try:
            listed = self._system.find(sorted({one.name for one in doubtful}))
        except BatchError as error:
            return own, error
        taken = {one.id for one in records}
        for record in doubtful:
            free = [one for one in listed.get(record.name, ()) if one not in taken]
            if free:
                # The last one: a name that the user chose may be that of jobs without a record.
                own[record.id] = free[-1]
                taken.add(free[-1])
                self._records.adopt(record, free[-1])
            elif self._clock() - record.submitted >= UNSEEN:
                self._records.drop(record)
        return own, None

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs; a job that cannot be found needs no cancelling."""
        asked = list(ids)
        marks = [one for one in asked if is_mark(one)]
        own, trouble = self._own_ids(marks) if marks else ({}, None)
        known = [own.get(one, one) for one in asked if one in own or one not in marks]
        if known:
            self._system.cancel(known)
        if trouble is not None and not isinstance(trouble, BatchUnsupported):
            raise trouble
