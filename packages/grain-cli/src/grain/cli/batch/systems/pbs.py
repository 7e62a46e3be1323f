"""OpenPBS, PBS Professional and Torque, by qsub, qstat, qselect and qdel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.batch.base import JobState, SubmittedJob
from grain.cli.batch.command import Complaints, Profile, accepted, answer, me, missing, run
from grain.cli.batch.errors import BatchError
from grain.cli.batch.texts import pbs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob

_WORDS = Complaints(pbs.REMEDIES, pbs.SILENT, missing("PBS"))
PROFILE = Profile(
    "PBS", ("qsub", "qstat", "qselect", "qdel"), ("qstat",), _WORDS, tried="OpenPBS 23.06"
)


class Pbs:
    """OpenPBS, PBS Professional and Torque, by qsub, qstat, qselect and qdel."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return pbs.script(job.members(n)[0], self._dialect())

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one: arrays differ between the dialects, and their logs cannot be named."""
        spoken = self._dialect()
        for member in job.members(n):
            text = pbs.script(member, spoken)
            number = accepted(["qsub"], _WORDS, [member], pbs.submitted_id, stdin=text)
            yield SubmittedJob(number, member.name, member.log_file)

    def _dialect(self) -> pbs.Dialect:
        try:
            done = run(["qsub", "--version"], _WORDS)
        except BatchError:
            # A dry run away from the cluster; `submit` reports the missing command.
            return "openpbs"
        return pbs.dialect(done.out + done.err)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query qstat."""
        asked = list(ids)
        if not asked:
            return {}
        out = answer(["qstat", "-f", *asked], _WORDS, lambda done: pbs.only_ended(done.err))
        return pbs.states(out, asked)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query qselect, which lists no job that has ended."""
        user = me()
        return {name: answer(["qselect", "-u", user, "-N", name], _WORDS).split() for name in names}

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: PBS sends SIGTERM, and SIGKILL 2 s later."""
        if asked := list(ids):
            answer(["qdel", *asked], _WORDS, lambda done: pbs.only_ended(done.err))
