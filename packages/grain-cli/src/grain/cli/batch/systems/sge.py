"""Grid Engine, by qsub, qstat, qdel and qconf."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grain.cli.batch.base import JobPhase, JobState, SubmittedJob, by_name
from grain.cli.batch.command import Complaints, Profile, accepted, answer, me, missing, run
from grain.cli.batch.texts import sge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob

_WORDS = Complaints(sge.REMEDIES, sge.SILENT, missing("Grid Engine"))
PROFILE = Profile(
    "Grid Engine",
    ("qsub", "qstat", "qdel", "qconf"),
    ("qstat",),
    _WORDS,
    tried="Grid Engine 8.1.9",
)


class GridEngine:
    """Grid Engine in its many makes: Son of Grid Engine, Univa's, Altair's."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return sge.script(job.members(n)[0], self._environment(job), self._memory(job))

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one: a task of an array has no name of its own."""
        environment, memory = self._environment(job), self._memory(job)
        for member in job.members(n):
            text = sge.script(member, environment, memory)
            command = ["qsub", "-terse"]
            number = accepted(command, _WORDS, [member], sge.submitted_id, stdin=text)
            yield SubmittedJob(number, member.name, member.log_file)

    def _environment(self, job: BatchJob) -> str:
        """Return the parallel environment of a job; empty if it needs none."""
        if (job.script.cores or 1) == 1:
            return ""
        if job.script.parallel_environment:
            return job.script.parallel_environment
        names = [
            name
            for name in answer(["qconf", "-spl"], _WORDS).split()
            if sge.on_one_node(answer(["qconf", "-sp", name], _WORDS))
        ]
        return sge.choose_environment(names)

    def _memory(self, job: BatchJob) -> str:
        """Return the request for memory of a job; empty if it has none."""
        if job.script.memory is None:
            return ""
        return sge.memory_option(job.script, sge.resources(answer(["qconf", "-sc"], _WORDS)))

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query qstat for all jobs of this user, and for the causes of errors."""
        asked = list(ids)
        if not asked:
            return {}
        states = sge.states(answer(["qstat", "-xml", "-g", "d", "-u", me()], _WORDS), asked)
        in_error = [
            one
            for one, state in states.items()
            if state.phase is JobPhase.STUCK and "E" in state.reason
        ]
        if in_error:
            # A job may have been deleted meanwhile, which is not an error.
            done = run(["qstat", "-j", ",".join(in_error)], _WORDS)
            for one, reason in sge.error_reasons(done.out).items():
                if one in states:
                    states[one] = states[one]._replace(reason=f"Eqw: {reason}")
        return states

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query qstat for all jobs of this user, which lists none that has ended."""
        listed = sge.named(answer(["qstat", "-xml", "-g", "d", "-u", me()], _WORDS))
        return by_name(listed, names, sge.job_name)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: SIGUSR2 to all their processes, and SIGKILL after the queue's `notify`."""
        # qdel takes names and patterns as well, which may be those of other jobs.
        asked = [one for one in ids if re.fullmatch(r"\d+", one)]
        if asked:
            answer(["qdel", *asked], _WORDS, lambda done: sge.only_ended(done.out + done.err))
