"""Slurm, PBS and custom batch systems: the commands that they run.

`grain.cli.batch.scripts` writes their scripts and reads their answers.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.batch.base import JobPhase, JobState, SubmittedJob
from grain.cli.batch.command import Complaints, refusal, run
from grain.cli.batch.errors import BatchError, BatchUnsupported
from grain.cli.batch.scripts import custom, pbs, slurm
from grain.edge.trust import write_script

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob
    from grain.config import Config

_SLURM = Complaints(
    slurm.REMEDIES,
    slurm.SILENT,
    "Run this where Slurm's commands are, usually on a login node, or change `system` in the "
    "configuration.",
)
_PBS = Complaints(
    pbs.REMEDIES,
    pbs.SILENT,
    "Run this where the commands of PBS are, usually on a login node, or change `system` in the "
    "configuration.",
)
_CUSTOM = Complaints((), (), "")


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
        done = run(["sbatch", "--parsable"], _SLURM, stdin=script)
        if done.code:
            raise refusal("sbatch", done, _SLURM)
        return _understood("sbatch", slurm.submitted_id(done.out), done.out)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query squeue; a job that ended a while ago is gone without a reason."""
        asked = list(ids)
        if not asked:
            return {}
        options = ["--noheader", "--array", "--states=all", f"--format={slurm.FORMAT}"]
        done = run(["squeue", *options, f"--jobs={','.join(asked)}"], _SLURM)
        # squeue fails like this if it has forgotten the only job that it was asked for.
        if done.code and slurm.NO_SUCH_JOB not in done.err:
            raise refusal("squeue", done, _SLURM)
        return slurm.states(done.out, asked)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: Slurm sends their processes SIGTERM, and SIGKILL 30 s (KillWait) later."""
        if asked := list(ids):
            done = run(["scancel", *asked], _SLURM)
            if done.code:
                raise refusal("scancel", done, _SLURM)


class Pbs:
    """OpenPBS, PBS Professional and Torque, by qsub, qstat and qdel."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return pbs.script(job.members(n)[0], self._dialect())

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one: arrays differ between the dialects, and their logs cannot be named."""
        spoken = self._dialect()
        for member in job.members(n):
            done = run(["qsub"], _PBS, stdin=pbs.script(member, spoken))
            if done.code:
                raise refusal("qsub", done, _PBS)
            number = _understood("qsub", pbs.submitted_id(done.out), done.out)
            yield SubmittedJob(number, member.name, member.log_file)

    def _dialect(self) -> pbs.Dialect:
        try:
            done = run(["qsub", "--version"], _PBS)
        except BatchError:
            # A dry run away from the cluster; `submit` reports the missing command.
            return "openpbs"
        return pbs.dialect(done.out + done.err)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query qstat."""
        asked = list(ids)
        if not asked:
            return {}
        done = run(["qstat", "-f", *asked], _PBS)
        if done.code and not pbs.only_ended(done.err):
            raise refusal("qstat", done, _PBS)
        return pbs.states(done.out, asked)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: PBS sends SIGTERM, and SIGKILL 2 s later."""
        if asked := list(ids):
            done = run(["qdel", *asked], _PBS)
            if done.code and not pbs.only_ended(done.err):
                raise refusal("qdel", done, _PBS)


class Custom:
    """The user's own command and template. Grain cannot query the jobs that it submitted."""

    def __init__(self, config: Config, now: datetime.datetime) -> None:
        self._config = config
        self._now = now

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return custom.script(job.members(n)[0], self._config, self._now)

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Write the scripts to the configured directory and submit them from there."""
        folder = Path(self._config.custom_system.directory)
        for member in job.members(n):
            path = folder / f"{member.name}.sh"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                write_script(path, custom.script(member, self._config, self._now))
            except OSError as error:
                raise BatchError(
                    f"{path} cannot be written",
                    error.strerror or "",
                    "Set custom_system.directory to a directory that you may write to.",
                ) from None
            words = [*map(shlex.quote, job.extra_args), shlex.quote(str(path))]
            command = " ".join((self._config.custom_system.submit_cmd, *words))
            done = run(["/bin/sh", "-c", command], _CUSTOM, cwd=os.fspath(folder))
            if done.code:
                raise refusal(command, done, _CUSTOM)
            lines = done.out.strip().splitlines()
            yield SubmittedJob(lines[-1].strip() if lines else "", member.name, member.log_file)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Return ``UNKNOWN`` for every job: there is no command to query."""
        return {one: JobState(JobPhase.UNKNOWN) for one in ids}

    def cancel(self, ids: Iterable[str]) -> None:
        """Refuse.

        Raises:
            BatchUnsupported: Always.
        """
        raise BatchUnsupported(
            "jobs of a custom batch system cannot be cancelled from here",
            remedy=f"Use your batch system's own command, for {', '.join(ids)}.",
        )


def _understood(command: str, number: str, output: str) -> str:
    if not number:
        raise BatchError(
            f"{command} accepted the job but printed no job id that can be understood",
            output or "(nothing)",
            "Look for the job in the batch system's own list; Grain cannot follow it.",
        )
    return number
