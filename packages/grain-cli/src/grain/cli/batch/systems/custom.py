"""A batch system that Grain does not know, by the user's own commands and template."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.batch.base import JobPhase, JobState, SubmittedJob
from grain.cli.batch.command import Complaints, answer, submission
from grain.cli.batch.errors import (
    BatchError,
    BatchUnreadable,
    BatchUnsupported,
    SubmissionUnknown,
)
from grain.cli.batch.texts import custom
from grain.edge.trust import write_script

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob
    from grain.config import Config

_WORDS = Complaints((), (), "")


class Custom:
    """The user's own commands: one to submit, and perhaps others to list and to cancel."""

    def __init__(self, config: Config, now: datetime.datetime) -> None:
        self._config = config
        self._own = config.custom_system
        self._now = now

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return custom.script(job.members(n)[0], self._config, self._now)

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Write the scripts to the configured directory and submit them from there."""
        folder = Path(self._own.directory)
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
            words = [*job.extra_args, str(path)]
            line = _line(self._own.submit_cmd, words)
            own = ["/bin/sh", "-c", line]
            out = submission(own, _WORDS, [member], title=line, cwd=os.fspath(self._own.directory))
            try:
                number = custom.submitted_id(out, self._own.id_pattern)
            except BatchUnreadable as error:
                raise SubmissionUnknown(error.what, error.output, [member], error.remedy) from None
            yield SubmittedJob(number, member.name, member.log_file)

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Run ``status_cmd``; without it, the state of a job is unknown."""
        asked = list(ids)
        if not asked or not self._own.status_cmd:
            return {one: JobState(JobPhase.UNKNOWN) for one in asked}
        out = self._run(self._own.status_cmd, asked)
        return custom.states(out, self._own.phases, asked)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Fail, as `custom_system` has no command that lists jobs by name."""
        raise BatchUnsupported(
            f"{', '.join(names)}: a custom batch system cannot be asked for jobs by name"
        )

    def cancel(self, ids: Iterable[str]) -> None:
        """Run ``cancel_cmd``.

        Raises:
            BatchUnsupported: there is none.
        """
        asked = list(ids)
        if not self._own.cancel_cmd:
            raise BatchUnsupported(
                "jobs of a custom batch system cannot be cancelled from here",
                remedy=f"Use your batch system's own command, for {', '.join(asked)}; or set "
                "custom_system.cancel_cmd to it.",
            )
        if asked:
            self._run(self._own.cancel_cmd, asked)

    def _run(self, command: str, words: list[str]) -> str:
        """Run one of the commands, with words at its end; return its output."""
        line = _line(command, words)
        return answer(["/bin/sh", "-c", line], _WORDS, title=line)


def _line(command: str, words: list[str]) -> str:
    """Return a command of the configuration with words at its end, for a shell."""
    return " ".join((command, *map(shlex.quote, words)))
