"""A submission in the words of no command, and the job that it becomes. No I/O but `here`."""

from __future__ import annotations

import os
import posixpath
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from grain.cli.queue import shell
from grain.files.processes import user_name
from grain.queue.errors import BadInput
from grain.queue.records import Job

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# What a shell sets for each program: its path, and where it starts.
_OF_SHELL = ("_", "PWD")
# A node has its own. InfiniBand needs a high MEMLOCK, and that of a login node is often low. RSS
# has no effect on Linux (setrlimit(2)), but Slurm sets it for its jobs: no worker could raise it.
_OF_NODE = ("MEMLOCK", "RSS")
_OF_LOGIN = ("HOME", "LOGNAME", "SHELL", "USER")
_PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin"


SubmitOptions = dict[str, Any]
"""The content of a submission: the words of ``grain submit``, ``sbatch`` or ``hq``, checked.

It has only those fields of `grain.queue.records.Job` of which something is said. These differ from
the job's, or are not in it:

- ``request``: the resources of a task on each of its nodes; ``nodes``: how many of these it has.
- ``ranks``: the processes that it starts, which share its cores evenly.
- ``directory``: relative to that of the submitter.
- ``clean``: True to pass on only what a login sets.
- ``variables``: environment variables, which override those that are passed on.
- ``limits``: the resource limits; without it, those of the submitter.
"""


def said(**options: object) -> SubmitOptions:
    """Return those of some options that are not None."""
    return {name: what for name, what in options.items() if what is not None}


class SubmittedFrom(NamedTuple):
    """The process that submits a job: its directory, its user, and so on.

    Attributes:
        directory: the working directory, absolute.
        environment: all variables.
        umask: of the process.
        host: name of the machine.
        user: name of the user.
        now: Unix seconds.
        limits: its soft limits by their names, such as ``NOFILE``.
        commands: a directory that is to be on the job's PATH; "" for none.
    """

    directory: str
    environment: Mapping[str, str]
    umask: int
    host: str
    user: str
    now: float
    limits: Mapping[str, int] = MappingProxyType({})
    commands: str = ""

    @classmethod
    def here(
        cls, environment: Mapping[str, str] | None = None, user: str = "", commands: str = ""
    ) -> SubmittedFrom:
        """Return this process.

        Args:
            environment: its variables; by default those of its shell.
            user: the name of its user; by default that in its variables.
            commands: a directory that is to be on the job's PATH.

        Raises:
            BadInput: its directory was removed.
        """
        from _socket import gethostname  # that of the module socket, which takes its time

        try:
            directory = os.getcwd()  # noqa: PTH109 - a text
        except FileNotFoundError:
            raise BadInput("this directory was removed; change to another one") from None
        variables = shell.variables() if environment is None else environment
        return cls(
            directory, variables, shell.umask(), gethostname(),
            user or user_name(), time.time(), shell.soft_limits(), commands,
        )  # fmt: skip

    def job(self, name: str, **fields: Any) -> Job:
        """Return a job that it submits.

        Args:
            name: the job's.
            fields: others of `Job`, which go before those that follow from the process.
        """
        own: dict[str, Any] = {
            "at": self.now,
            "host": self.host,
            "user": self.user,
            "umask": self.umask,
            "directory": self.directory,
            "limits": _passed_limits(self.limits),
            "environment": passed_on(self.environment),
        }
        return Job(name=name, **own | fields)


def make_job(
    options: SubmitOptions,
    around: SubmittedFrom,
    *,
    words: Sequence[str],
    script: str = "",
    script_name: str = "",
    columns: tuple[str, ...] = (),
) -> Job:
    """Return the job.

    Args:
        options: what it asks for.
        around: who submits it.
        words: the command; the arguments of the script, if there is one.
        script: its text; "" for a command.
        script_name: as the user gave it.
        columns: the names of the columns of its inputs.
    """
    fields = dict(options)
    nodes, variables = fields.pop("nodes", 1), fields.pop("variables", {})
    pass_on = plain_environment if fields.pop("clean", False) else passed_on
    environment = {**pass_on(around.environment), **variables}
    path = environment.get("PATH", _PLAIN_PATH)
    if around.commands and around.commands not in path.split(":"):
        environment["PATH"] = f"{around.commands}:{path}"
    fields.pop("ranks", None)  # which `options` has for the job
    what = script_name or (words[0] if words else "")
    job = around.job(
        fields.pop("name", "") or what.rpartition("/")[2] or "job",
        command=tuple(words),
        script=script,
        script_name=script_name,
        columns=columns,
        environment=environment,
        **{"stdout": "job-%A_%a.out" if "array" in options else "job-%j.out", **fields},
    )
    request = job.request or {"Cores": 1}
    if "'group'" in repr(request):
        from grain.resource import with_group  # which sbatch begins without

        # The group `auto` is that of the script, or of the command.
        request = with_group(request, what.rpartition("/")[2] or "job")
    return replace(
        job,
        directory=posixpath.normpath(posixpath.join(around.directory, job.directory)),
        request={"Gang": {"count": nodes, "of": request}} if nodes > 1 else request,
        # A command is its own only step.
        signal_to=job.signal_to if script else "all",
    )


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a shell that go along with a job: all but two."""
    return {name: value for name, value in environment.items() if name not in _OF_SHELL}


def plain_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a user who has just logged in, without those of their profile."""
    variables = {name: environment[name] for name in _OF_LOGIN if name in environment}
    return variables | {"PATH": _PLAIN_PATH}


def _passed_limits(limits: Mapping[str, int]) -> dict[str, int]:
    return {name: limit for name, limit in limits.items() if name not in _OF_NODE}


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """Return a path with ``~`` at its beginning, ``$NAME`` and ``${NAME}`` filled in.

    In a line of a script no shell does so. Left as they are, they would become names of
    directories.

    Raises:
        ValueError: a variable is not set, or it is in the home directory of another user.
    """
    if "$" not in text and not text.startswith("~"):
        return text
    from grain.config import expand_place
    from grain.eventlog.names import with_home

    return expand_place(text, with_home(environment))


def marked_lines(script: str, mark: str, *, indented: bool = True) -> Iterator[tuple[int, str]]:
    """Yield the lines of a script that begin with a mark, up to its first command.

    Args:
        script: its text.
        mark: such as ``#GRAIN``.
        indented: True if they may begin with spaces, and a space must follow the mark.

    Yields:
        The number of the line, from 1, and what follows the mark.
    """
    for number, line in enumerate(script.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            return
        text = line.strip() if indented else line
        rest = text[len(mark) :]
        if text.startswith(mark) and not (indented and rest[:1].strip()):
            yield number, rest
