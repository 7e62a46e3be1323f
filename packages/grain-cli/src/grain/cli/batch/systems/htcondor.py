"""HTCondor, by condor_submit, condor_q and condor_rm."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.batch.base import JobState, SubmittedJob, by_name
from grain.cli.batch.command import Complaints, Profile, accepted, answer, keep_script, missing
from grain.cli.batch.texts import htcondor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob

_WORDS = Complaints(htcondor.REMEDIES, htcondor.SILENT, missing("HTCondor"))
PROFILE = Profile(
    "HTCondor",
    ("condor_submit", "condor_q", "condor_rm"),
    ("condor_q", "-totals"),
    _WORDS,
    tried="",
)


class HTCondor:
    """HTCondor.

    Args:
        folder: the directory of the scripts, which the nodes must be able to read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def script(self, job: BatchJob, n: int) -> str:
        """Return the submit description of the first job, and its script."""
        first = job.members(n)[0]
        path = str(self._folder / f"{first.name}.sh")
        text = htcondor.description(first, path, os.fspath(Path.cwd()))
        return f"{text}\n# {path}:\n{htcondor.script(first)}"

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one, each with a script of its own."""
        for member in job.members(n):
            path = keep_script(self._folder, member.name, htcondor.script(member))
            text = htcondor.description(member, str(path), os.fspath(Path.cwd()))
            words = ["condor_submit", "-terse", *member.extra_args]
            number = accepted(words, _WORDS, [member], htcondor.submitted_id, stdin=text)
            yield SubmittedJob(number, member.name, member.log_file)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query condor_q, which lists no job that has ended."""
        asked = list(ids)
        if not asked:
            return {}
        words = ["condor_q", *asked, "-json", "-attributes", htcondor.ATTRIBUTES]
        return htcondor.states(answer(words, _WORDS), asked)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query condor_q for all jobs of this user, which lists none that has ended."""
        words = ["condor_q", "-json", "-attributes", "ClusterId,ProcId,JobBatchName"]
        return by_name(htcondor.named(answer(words, _WORDS)), names)

    def cancel(self, ids: Iterable[str]) -> None:
        """Remove jobs: SIGTERM to the script, SIGKILL to all after ``job_max_vacate_time``."""
        # A bare number would be a whole cluster of jobs, a name all jobs of a user.
        if asked := [one for one in ids if re.fullmatch(r"\d+\.\d+", one)]:
            command = ["condor_rm", *asked]
            answer(command, _WORDS, lambda done: htcondor.only_ended(done.out + done.err))
