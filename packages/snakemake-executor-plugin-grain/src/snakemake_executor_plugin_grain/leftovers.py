"""Jobs that an earlier run of the same workflow has left in the queue, as it was killed.

A job is known by its rule and its wildcards; it never runs twice at the same time. One that runs
is taken over if it does the same as the new one would: its Snakefiles, parameters and input files
are as they were. Then no work is lost. Otherwise it is cancelled, and the new one waits for its
end. One that waits is cancelled in any case: it has nothing to lose, and may ask for too much.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

_PARTS = "snakemake-parts"
_CONTENT = "snakemake-content"
# Of the properties of a job: these differ between runs though the job does the same.
_PASSING = ("jobid", "resources", "threads", "local", "cluster")


class Identity(NamedTuple):
    """A job of Snakemake: which one, and what it does; it stands with the job in the queue.

    Attributes:
        parts: a digest of rule and wildcards; of a group, one for each of its jobs.
        content: a digest of the Snakefiles, the parameters and the input files.
    """

    parts: tuple[str, ...]
    content: str

    def options(self) -> dict[str, str]:
        """Return it as options of a job in the queue."""
        return {_PARTS: " ".join(self.parts), _CONTENT: self.content}


def identity_of(job: JobExecutorInterface, snakefile: str) -> Identity:
    """Return the identity of a job of Snakemake.

    Args:
        job: a job, or a group of jobs.
        snakefile: the main one; those that it includes are looked for by the rules in them.
    """
    parts = (_digest(spec.rulename, dict(spec.wildcards_dict)) for spec in job.get_target_spec())
    members = job.jobs if job.is_group() else [job]
    properties = sorted(_digest(_properties(one)) for one in members)
    files = {str(snakefile), *(str(one.rule.snakefile) for one in members)}
    sources = [_content(file) for file in sorted(files)]
    inputs = {str(file): _stamp(str(file)) for file in job.input}
    return Identity(tuple(sorted(parts)), _digest(properties, sources, inputs))


def identity_from(options: Mapping[str, str]) -> Identity | None:
    """Return the identity of a job in the queue; None of one that is not Snakemake's."""
    if _PARTS not in options:
        return None
    return Identity(tuple(options[_PARTS].split()), options.get(_CONTENT, ""))


def same_parts(identity: Identity, others: Mapping[int, Identity]) -> list[int]:
    """Return the numbers of jobs in the queue that have a part of a job, ascending."""
    mine = set(identity.parts)
    return sorted(number for number, other in others.items() if mine & set(other.parts))


def _properties(job: JobExecutorInterface) -> dict[str, Any]:
    properties: dict[str, Any] = json.loads(job.properties())
    return {name: value for name, value in properties.items() if name not in _PASSING}


def _digest(*what: Any) -> str:
    text = json.dumps(what, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _content(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:  # one from the web
        return file


def _stamp(file: str) -> tuple[int, int] | None:
    try:
        status = Path(file).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
