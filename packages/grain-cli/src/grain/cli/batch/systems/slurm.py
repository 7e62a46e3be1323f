"""Slurm, by sbatch, squeue and scancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.batch.base import JobState, SubmittedJob, by_name
from grain.cli.batch.command import Complaints, Profile, accepted, answer, me, missing
from grain.cli.batch.errors import BatchError
from grain.cli.batch.texts import slurm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob

_WORDS = Complaints(slurm.REMEDIES, slurm.SILENT, missing("Slurm"))
PROFILE = Profile(
    "Slurm",
    ("sbatch", "squeue", "scancel"),
    ("squeue", "--noheader", "--user", "{user}"),
    _WORDS,
    tried="Slurm 22.05",
)


class Slurm:
    """Slurm, by sbatch, squeue and scancel."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script; that of an array if there are several jobs."""
        return slurm.script(job, n)

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit an array, or single jobs where the site allows no array of that size."""
        if n > 1:
            try:
                number = self._sbatch(self.script(job, n), job.members(n))
            except BatchError as error:
                if slurm.NO_ARRAYS not in error.output:
                    raise
            else:
                tasks = enumerate(job.members(n))
                yield from (SubmittedJob(f"{number}_{i}", m.name, m.log_file) for i, m in tasks)
                return
        for member in job.members(n):
            number = self._sbatch(slurm.script(member), [member])
            yield SubmittedJob(number, member.name, member.log_file)

    def _sbatch(self, script: str, jobs: list[BatchJob]) -> str:
        command = ["sbatch", "--parsable"]
        return accepted(command, _WORDS, jobs, slurm.submitted_id, stdin=script)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query squeue; a job that ended a while ago is gone without a reason."""
        asked = list(ids)
        if not asked:
            return {}
        options = ["--noheader", "--array", "--states=all", f"--format={slurm.FORMAT}"]
        command = ["squeue", *options, f"--jobs={','.join(asked)}"]
        # squeue fails like this if it has forgotten the only job that it was asked for.
        out = answer(command, _WORDS, lambda done: slurm.NO_SUCH_JOB in done.err)
        return slurm.states(out, asked)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query squeue for jobs and arrays of these names, also those that ended a moment ago."""
        options = ["--noheader", "--array", "--states=all", "--format=%i|%j", f"--user={me()}"]
        return by_name(slurm.named(answer(["squeue", *options], _WORDS)), names)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: Slurm sends their processes SIGTERM, and SIGKILL 30 s (KillWait) later."""
        if asked := list(ids):
            answer(["scancel", *asked], _WORDS)
