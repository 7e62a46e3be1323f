"""Flux, by the command `flux`: its bindings for Python need the site's own interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.batch.base import JobPhase, JobState, SubmittedJob, by_name
from grain.cli.batch.command import (
    Complaints,
    Profile,
    missing,
    refusal,
    run,
    submission,
    understood,
)
from grain.cli.batch.texts import flux

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob

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
            out = submission(
                ["flux", "batch"], _WORDS, [member], title="flux batch", stdin=flux.script(member)
            )
            number = understood("flux batch", flux.submitted_id(out), out, [member])
            yield SubmittedJob(number, member.name, member.log_file)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Query flux jobs; it fails for an unknown job, and answers for the others."""
        asked = list(ids)
        states = {one: JobState(JobPhase.UNKNOWN) for one in asked}
        if own := [one for one in asked if flux.is_id(one)]:
            done = run(["flux", "jobs", "-a", "--json", *own], _WORDS)
            if done.code and not flux.only_ended(done.err):
                raise refusal("flux jobs", done, _WORDS)
            states.update(flux.states(done.out, own))
        return states

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query flux jobs for all jobs of this user, also those that have ended."""
        done = run(["flux", "jobs", "-a", "--no-header", "--format={id.f58} {name}"], _WORDS)
        if done.code:
            raise refusal("flux jobs", done, _WORDS)
        return by_name(flux.named(done.out), names)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: SIGTERM, and SIGKILL 5 s later."""
        if asked := [one for one in ids if flux.is_id(one)]:
            done = run(["flux", "cancel", *asked], _WORDS)
            if done.code and not flux.only_ended(done.err):
                raise refusal("flux cancel", done, _WORDS)
