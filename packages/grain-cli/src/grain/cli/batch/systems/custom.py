"""``[custom_system]``: a batch system that Grain does not know, by the user's own commands.

The configuration has the template of a script, and says how the commands answer.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.batch.answers import or_gone
from grain.cli.batch.base import JobPhase, JobState, SubmittedJob
from grain.cli.batch.command import Commands
from grain.cli.batch.errors import BatchError, BatchUnreadable, BatchUnsupported, SubmissionUnknown
from grain.cli.batch.scripts.directives import gpus_of, refuse_gpus
from grain.cli.batch.scripts.shell import body
from grain.cli.streams import remedy
from grain.config import ConfigError, Mistake, format_walltime
from grain.files.whole import write_script

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from grain.cli.batch.base import BatchJob
    from grain.config import Config

PHASES = tuple(phase.value for phase in JobPhase)
_PLACEHOLDER = re.compile(r"\{\{\s*(\w*)\s*\}\}")
# The settings that some placeholders take their values from, and that may be unset.
_SOURCES = {
    "log_file": "worker.log_file",
    "queue": "script.queue",
    "walltime": "script.walltime",
    "seconds": "script.walltime",
    "cores": "script.cores",
    "memory": "script.memory",
}


def script(job: BatchJob, config: Config, now: datetime.datetime) -> str:
    """Fill in the template.

    Raises:
        ConfigError: a placeholder is unknown, or its value is unset, or there is no ``{{body}}``,
            without which the script would start nothing.
    """
    by_name = values(job, now)
    used = _PLACEHOLDER.findall(config.custom_system.template)
    for name in (*used, *([] if "body" in used else ["body"])):
        if problem := _problem(name, by_name, missing=name not in used):
            file = config.source or "the defaults"
            raise ConfigError(file, (Mistake("custom_system.template", problem),))
    if "gpu" not in config.custom_system.template.lower():
        why = "custom_system.template has no {{gpus}}, so nothing asks for them"
        refuse_gpus(job, why, "Put it there, or ask in extra_args of the shape.")
    # One pass, so that a value with braces in it is not filled in again.
    text = _PLACEHOLDER.sub(lambda mark: by_name[mark[1]] or "", config.custom_system.template)
    return text if text.endswith("\n") else text + "\n"


def values(job: BatchJob, now: datetime.datetime) -> dict[str, str | None]:
    """Return the values of the placeholders; None for a value that is not set."""
    asked = job.script
    return {
        "body": body(job),
        "name": job.name,
        "log_file": job.log_file or None,
        "shebang": asked.shebang,
        "queue": asked.queue or None,
        "walltime": None if asked.walltime is None else format_walltime(asked.walltime),
        "seconds": None if asked.walltime is None else str(asked.walltime),
        "cores": None if asked.cores is None else str(asked.cores),
        "memory": None if asked.memory is None else f"{asked.memory:g}",
        "gpus": str(gpus_of(job)),
        "extra_args": " ".join(arg for arg in asked.extra_args if arg),
        "HHMMSS": now.strftime("%H%M%S"),
    }


def _problem(name: str, values: dict[str, str | None], *, missing: bool) -> str:
    if missing:
        return "found no {{body}}, expected it on a line of its own: it starts the worker"
    if name not in values:
        names = ", ".join(f"{{{{{one}}}}}" for one in values)
        return f"found {{{{{name}}}}}, expected one of {names}"
    if values[name] is None:
        return f"found {{{{{name}}}}}, expected {_SOURCES[name]} to be set then"
    return ""


def submitted_id(output: str, pattern: str) -> str:
    """Return the job's id: what the pattern matches, its first group if it has one.

    Without a pattern, the id is the last line.

    Raises:
        BatchUnreadable: nothing in the output matches the pattern.
    """
    lines = output.strip().splitlines()
    if not pattern:
        return lines[-1].strip() if lines else ""
    match = re.search(pattern, output, re.MULTILINE)
    number = (match[1] if match.re.groups else match[0]) if match else ""
    if not number:
        raise BatchUnreadable(
            "custom_system.submit_cmd printed no job id",
            output or "(nothing)",
            f"Correct custom_system.id_pattern: {pattern!r} matches nothing here.",
        )
    return number


def states(output: str, phases: Mapping[str, str], ids: Sequence[str]) -> dict[str, JobState]:
    """Read lines of id, word and reason; a job that is not listed has ended.

    A word that ``phases`` does not have may be the name of a phase. Any other says nothing: a job
    that may be alive does not count as ended.
    """
    by_id: dict[str, JobState] = {}
    for line in output.splitlines():
        number, word, reason = [*line.split(maxsplit=2), "", "", ""][:3]
        if number not in ids:
            continue  # a heading, or a job of others
        name = phases.get(word, word.lower())
        if name in PHASES:
            by_id[number] = JobState(JobPhase(name), reason.strip())
        else:
            unknown = f"custom_system.phases does not have {word!r}"
            by_id[number] = JobState(JobPhase.UNKNOWN, unknown)
    return or_gone(by_id, ids)


COMMANDS = Commands()


class Custom:
    """The user's own commands: one to submit, and perhaps others to list and to cancel."""

    def __init__(self, config: Config, now: datetime.datetime) -> None:
        self._config = config
        self._own = config.custom_system
        self._now = now

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return script(job.members(n)[0], self._config, self._now)

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Write the scripts to the configured directory and submit them from there."""
        folder = Path(self._own.directory)
        for member in job.members(n):
            path = folder / f"{member.name}.sh"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                write_script(path, script(member, self._config, self._now))
            except OSError as error:
                raise BatchError(
                    f"{path} cannot be written",
                    error.strerror or "",
                    remedy(error, "set custom_system.directory"),
                ) from None
            words = [*job.extra_args, str(path)]
            line = _line(self._own.submit_cmd, words)
            own = ["/bin/sh", "-c", line]
            out = COMMANDS.submission(own, [member], title=line, cwd=os.fspath(self._own.directory))
            try:
                number = submitted_id(out, self._own.id_pattern)
            except BatchUnreadable as error:
                raise SubmissionUnknown(error.what, error.output, [member], error.remedy) from None
            yield SubmittedJob(number, member.name, member.log_file)

    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Run ``status_cmd``; without it, the state of a job is unknown."""
        if not self._own.status_cmd:
            return {one: JobState(JobPhase.UNKNOWN) for one in ids}
        return states(self._run(self._own.status_cmd, ids), self._own.phases, ids)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Fail, as `custom_system` has no command that lists jobs by name."""
        raise BatchUnsupported(
            f"{', '.join(names)}: a custom batch system cannot be asked for jobs by name"
        )

    def cancel(self, ids: Sequence[str]) -> None:
        """Run ``cancel_cmd``.

        Raises:
            BatchUnsupported: there is none.
        """
        if not self._own.cancel_cmd:
            raise BatchUnsupported(
                "jobs of a custom batch system cannot be cancelled from here",
                remedy=f"Use your batch system's own command, for {', '.join(ids)}; or set "
                "custom_system.cancel_cmd to it.",
            )
        self._run(self._own.cancel_cmd, ids)

    def _run(self, command: str, words: Sequence[str]) -> str:
        """Run one of the commands, with words at its end; return its output."""
        line = _line(command, words)
        return COMMANDS.answer(["/bin/sh", "-c", line], title=line)


def _line(command: str, words: Sequence[str]) -> str:
    """Return a command of the configuration with words at its end, for a shell."""
    return " ".join((command, *map(shlex.quote, words)))
