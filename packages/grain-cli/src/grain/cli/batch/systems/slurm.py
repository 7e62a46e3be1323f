"""Slurm, by sbatch, squeue and scancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.batch.base import JobState, SubmittedJob
from grain.cli.batch.command import Complaints, Profile, missing, refusal, run, understood
from grain.cli.batch.errors import BatchError
from grain.cli.batch.texts import slurm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob

_WORDS = Complaints(slurm.REMEDIES, slurm.SILENT, missing("Slurm"))
PROFILE = Profile(
    "Slurm",
    ("sbatch", "squeue", "scancel"),
    ("squeue", "--noheader", "--me"),
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
                number = self._sbatch(self.script(job, n))
            except BatchError as error:
                if slurm.NO_ARRAYS not in error.output:
                    raise
            else:
                tasks = enumerate(job.members(n))
                yield from (SubmittedJob(f"{number}_{i}", m.name, m.log_file) for i, m in tasks)
                return
        for member in job.members(n):
            number = self._sbatch(slurm.script(member))
            yield SubmittedJob(number, member.name, member.log_file)

    def _sbatch(self, script: str) -> str:
        done = run(["sbatch", "--parsable"], _WORDS, stdin=script, submits=True)
        if done.code:
            raise refusal("sbatch", done, _WORDS)
        return understood("sbatch", slurm.submitted_id(done.out), done.out)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query squeue; a job that ended a while ago is gone without a reason."""
        asked = list(ids)
        if not asked:
            return {}
        options = ["--noheader", "--array", "--states=all", f"--format={slurm.FORMAT}"]
        done = run(["squeue", *options, f"--jobs={','.join(asked)}"], _WORDS)
        # squeue fails like this if it has forgotten the only job that it was asked for.
        if done.code and slurm.NO_SUCH_JOB not in done.err:
            raise refusal("squeue", done, _WORDS)
        return slurm.states(done.out, asked)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: Slurm sends their processes SIGTERM, and SIGKILL 30 s (KillWait) later."""
        if asked := list(ids):
            done = run(["scancel", *asked], _WORDS)
            if done.code:
                raise refusal("scancel", done, _WORDS)
