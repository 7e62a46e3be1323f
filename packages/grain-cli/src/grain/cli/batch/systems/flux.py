"""Flux, by the command `flux`: its bindings for Python need the site's own interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.batch.base import JobPhase, JobState, SubmittedJob, by_name
from grain.cli.batch.command import Complaints, Profile, accepted, answer, missing
from grain.cli.batch.texts import flux

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob
    from grain.cli.batch.command import CommandResult

_WORDS = Complaints(flux.REMEDIES, flux.SILENT, missing("Flux"))
PROFILE = Profile("Flux", ("flux",), ("flux", "jobs"), _WORDS, tried="")


class Flux:
    """Flux, of a whole cluster or within an allocation."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return flux.script(job.members(n)[0])

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one, as Flux has no arrays."""
        for member in job.members(n):
            command, text = ["flux", "batch"], flux.script(member)
            number = accepted(
                command, _WORDS, [member], flux.submitted_id, title="flux batch", stdin=text
            )
            yield SubmittedJob(number, member.name, member.log_file)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query flux jobs; it fails for an unknown job, and answers for the others."""
        asked = list(ids)
        states = {one: JobState(JobPhase.UNKNOWN) for one in asked}
        if own := [one for one in asked if flux.is_id(one)]:
            command = ["flux", "jobs", "-a", "--json", *own]
            out = answer(command, _WORDS, _only_ended, title="flux jobs")
            states.update(flux.states(out, own))
        return states

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query flux jobs for all jobs of this user, also those that have ended."""
        command = ["flux", "jobs", "-a", "--no-header", "--format={id.f58} {name}"]
        return by_name(flux.named(answer(command, _WORDS, title="flux jobs")), names)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: SIGTERM, and SIGKILL 5 s later."""
        if asked := [one for one in ids if flux.is_id(one)]:
            answer(["flux", "cancel", *asked], _WORDS, _only_ended, title="flux cancel")


def _only_ended(done: CommandResult) -> bool:
    return flux.only_ended(done.err)
