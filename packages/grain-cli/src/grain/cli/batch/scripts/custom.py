"""``[custom_system]``: the template of a script and its placeholders. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grain.cli.batch.scripts.shell import body
from grain.config import ConfigError, Mistake, format_walltime

if TYPE_CHECKING:
    import datetime

    from grain.cli.batch.base import BatchJob
    from grain.config import Config

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
        ConfigError: A placeholder is unknown, or its value is unset, or there is no ``{{body}}``,
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
