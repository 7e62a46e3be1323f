"""``[custom_system]``: the template of a script, and the answers of the user's commands. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grain.cli.batch.base import JobPhase, JobState
from grain.cli.batch.errors import BatchUnreadable
from grain.cli.batch.scripts.shell import body
from grain.config import ConfigError, Mistake, format_walltime

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Mapping

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


def states(output: str, phases: Mapping[str, str], ids: Iterable[str]) -> dict[str, JobState]:
    """Read lines of id, word and reason; a job that is not listed has ended.

    A word that ``phases`` does not have may be the name of a phase. Any other says nothing: a job
    that may be alive does not count as ended.
    """
    asked = list(ids)
    by_id: dict[str, JobState] = {}
    for line in output.splitlines():
        number, word, reason = [*line.split(maxsplit=2), "", "", ""][:3]
        if number not in asked:
            continue  # a heading, or a job of others
        name = phases.get(word, word.lower())
        if name in PHASES:
            by_id[number] = JobState(JobPhase(name), reason.strip())
        else:
            unknown = f"custom_system.phases does not have {word!r}"
            by_id[number] = JobState(JobPhase.UNKNOWN, unknown)
    return {one: by_id.get(one, JobState(JobPhase.GONE)) for one in asked}
