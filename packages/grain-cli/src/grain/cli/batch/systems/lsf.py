"""LSF, by bsub, bjobs and bkill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.batch.base import JobState, SubmittedJob, by_name
from grain.cli.batch.command import (
    Complaints,
    Profile,
    missing,
    refusal,
    run,
    submission,
    understood,
)
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
            out = submission(["bsub"], _WORDS, [member], stdin=lsf.script(member))
            number = understood("bsub", lsf.submitted_id(out), out, [member])
            yield SubmittedJob(number, member.name, member.log_file)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query bjobs; it fails for a job that LSF has forgotten, and answers all the same."""
        asked = list(ids)
        if not asked:
            return {}
        done = run(["bjobs", "-a", "-o", lsf.FORMAT, "-json", *asked], _WORDS)
        if done.code and not done.out.strip():
            raise refusal("bjobs", done, _WORDS)
        return lsf.states(done.out, asked)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query bjobs for all jobs of this user, also those that ended within the hour."""
        done = run(["bjobs", "-a", "-o", "jobid job_name", "-json"], _WORDS)
        if done.code and "No job found" not in done.err and not done.out.strip():
            raise refusal("bjobs", done, _WORDS)
        return by_name(lsf.named(done.out), names, plain_name)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: SIGINT, SIGTERM and SIGKILL to all their processes, 10 s apart."""
        # Job 0 means all jobs of this user.
        if asked := [one for one in ids if one.isdecimal() and int(one)]:
            done = run(["bkill", *asked], _WORDS)
            if done.code and not lsf.only_ended(done.out + done.err):
                raise refusal("bkill", done, _WORDS)
