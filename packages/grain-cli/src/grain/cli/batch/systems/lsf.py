"""LSF, by bsub, bjobs and bkill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.batch.base import JobState, SubmittedJob, by_name
from grain.cli.batch.command import Complaints, Profile, accepted, answer, missing
from grain.cli.batch.scripts.directives import plain_name
from grain.cli.batch.texts import lsf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob

_WORDS = Complaints(lsf.REMEDIES, lsf.SILENT, missing("LSF"))
PROFILE = Profile("LSF", ("bsub", "bjobs", "bkill"), ("bqueues",), _WORDS, tried="")


class Lsf:
    """IBM Spectrum LSF."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return lsf.script(job.members(n)[0])

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one: sites limit arrays, and their tasks count from 1."""
        for member in job.members(n):
            # From standard input: `bsub FILE` ignores the directives.
            text = lsf.script(member)
            number = accepted(["bsub"], _WORDS, [member], lsf.submitted_id, stdin=text)
            yield SubmittedJob(number, member.name, member.log_file)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query bjobs; it fails for a job that LSF has forgotten, and answers all the same."""
        asked = list(ids)
        if not asked:
            return {}
        command = ["bjobs", "-a", "-o", lsf.FORMAT, "-json", *asked]
        return lsf.states(answer(command, _WORDS, lambda done: bool(done.out.strip())), asked)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query bjobs for all jobs of this user, also those that ended within the hour."""
        out = answer(
            ["bjobs", "-a", "-o", "jobid job_name", "-json"],
            _WORDS,
            lambda done: "No job found" in done.err or bool(done.out.strip()),
        )
        return by_name(lsf.named(out), names, plain_name)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: SIGINT, SIGTERM and SIGKILL to all their processes, 10 s apart."""
        # Job 0 means all jobs of this user.
        if asked := [one for one in ids if one.isdecimal() and int(one)]:
            answer(["bkill", *asked], _WORDS, lambda done: lsf.only_ended(done.out + done.err))
