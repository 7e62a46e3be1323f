"""OAR, by oarsub, oarstat and oardel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.batch.base import JobState, SubmittedJob, by_name
from grain.cli.batch.command import Complaints, Profile, accepted, answer, keep_script, me, missing
from grain.cli.batch.scripts.directives import plain_name
from grain.cli.batch.texts import oar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from grain.cli.batch.base import BatchJob

_WORDS = Complaints(oar.REMEDIES, oar.SILENT, missing("OAR"))
PROFILE = Profile("OAR", ("oarsub", "oarstat", "oardel"), ("oarstat",), _WORDS, tried="")


class Oar:
    """OAR.

    Args:
        folder: the directory of the scripts: OAR reads them when the jobs start.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return oar.script(job.members(n)[0])

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one, each with a script of its own."""
        oar.check_path(str(self._folder))
        for member in job.members(n):
            path = keep_script(self._folder, member.name, oar.script(member))
            command = ["oarsub", *member.extra_args, "-S", str(path)]
            number = accepted(command, _WORDS, [member], oar.submitted_id)
            yield SubmittedJob(number, member.name, member.log_file)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query oarstat, which knows jobs that have ended, too."""
        asked = list(ids)
        if not asked:
            return {}
        words = [word for one in asked for word in ("-j", one)]
        return oar.states(answer(["oarstat", "-J", *words], _WORDS), asked)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query oarstat for all jobs of this user, which lists none that has ended."""
        listed = oar.named(answer(["oarstat", "-J", "-u", me()], _WORDS))
        return by_name(listed, names, plain_name)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: SIGKILL to all their processes, at once."""
        for one in ids:
            # One by one: an exit status stands for one job.
            if one.isdecimal():
                answer(["oardel", one], _WORDS, lambda done: oar.only_ended(done.out + done.err))
