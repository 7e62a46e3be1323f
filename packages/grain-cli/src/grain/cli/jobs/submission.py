"""Options of the command line, and of the directives of a script, become a job."""

from __future__ import annotations

import getpass
import math
import os
import re
import shlex
import shutil
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from grain.cli.jobs.errors import BadSubmission
from grain.cli.jobs.inputs import OPTIONS, FileInputs
from grain.cli.queue import shell
from grain.cli.slurm_words.submission import (
    default_limits,
    expanded,
    passed_on,
    plain_environment,
)
from grain.queue.arrays import first_and_last, parse_array
from grain.queue.errors import BadInput
from grain.queue.records import ArraySpec, Dependency, Job
from grain.resource import WTime, from_text, to_data, unit_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.queue.records import Receivers, Until

LONGEST_SCRIPT = 10_000_000
"""Bytes of a script."""

_LONGEST_NAME = 200
_PROGRAM = b"\x7fELF"
_AFTER = re.compile(r"(\d+(?:,\d+)*)(?::(ok|fail|any|begun|each))?")


@dataclass(frozen=True)
class SubmitOptions:
    """The options of ``grain submit``, by the names of `grain.cli.jobs.submit.submit`.

    Attributes:
        given: only those that the user gave.
    """

    given: Mapping[str, Any] = field(default_factory=dict)

    def __or__(self, other: SubmitOptions) -> SubmitOptions:
        """Return both; the options and the inputs of the other one go first."""
        mine = self.given
        if any(name in other.given for name in OPTIONS):
            mine = {name: mine[name] for name in mine if name not in {*OPTIONS, "header"}}
        return SubmitOptions({**mine, **other.given})

    def without(self, name: str) -> SubmitOptions:
        """Return these without one of them."""
        return SubmitOptions({key: value for key, value in self.given.items() if key != name})

    def get(self, name: str, default: Any = None) -> Any:
        """Return an option."""
        return self.given.get(name, default)


@dataclass(frozen=True)
class SubmittedFrom:
    """The process that submits a job: its directory, its user, and so on.

    Attributes:
        directory: the working directory, absolute.
        environment: all variables.
        umask: of the process.
        host: name of the machine.
        user: name of the user.
        now: Unix seconds.
        limits: its soft limits by their names, such as ``NOFILE``.
    """

    directory: str
    environment: Mapping[str, str]
    umask: int
    host: str
    user: str
    now: float
    limits: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def here(cls) -> SubmittedFrom:
        """Return this process.

        Raises:
            BadSubmission: its directory was removed.
        """
        try:
            directory = str(Path.cwd())
        except FileNotFoundError:
            raise BadSubmission("this directory was removed; change to another one") from None
        return cls(
            directory, shell.variables(), shell.umask(), socket.gethostname(), getpass.getuser(),
            time.time(), shell.soft_limits(),
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
            "limits": default_limits(self.limits),
            "environment": passed_on(self.environment),
        }
        return Job(name=name, **own | fields)


def directives(script: str, mark: str = "#GRAIN") -> list[str]:
    """Return the words of the lines of a script that begin with a mark, up to its first command.

    Raises:
        BadSubmission: a line has a quote that is not closed.
    """
    words: list[str] = []
    for number, line in enumerate(script.splitlines(), 1):
        text = line.strip().replace("\t", " ")
        if text and not text.startswith("#"):
            break
        first, _, rest = text.partition(" ")
        if first != mark:
            continue
        try:
            words += shlex.split(rest, comments=True)
        except ValueError:
            raise BadSubmission(f"line {number} has a quote that is not closed: {text}") from None
    return words


def read_script(word: str, directory: str | None) -> str:
    """Return the text of a script; "" if a word of the command line is a program.

    A script is a file that begins with ``#!``. It may have been written on any host, so its
    interpreter is not looked for.

    Args:
        directory: where it is to run; a program may be there, and a script may not.

    Raises:
        BadSubmission: it is neither.
        OSError: the file cannot be read.
    """
    path = Path(word)
    if not path.is_file():
        in_directory = "/" in word and Path(directory or ".", word).is_file()
        if not in_directory and shutil.which(word) is None:
            raise BadSubmission(_no_script(word))
        return ""
    if path.stat().st_size > LONGEST_SCRIPT:
        with path.open("rb") as file:
            content = file.read(len(_PROGRAM))
    else:
        content = path.read_bytes()
    if not content.startswith(b"#!"):
        if os.access(path, os.X_OK) or ("/" not in word and shutil.which(word)):
            return ""
        if content.startswith(_PROGRAM):
            raise BadSubmission(
                f"{word} is a program, and you may not execute it: chmod +x {shlex.quote(word)}"
            )
        raise BadSubmission(
            f"{word} is not a script: write #! and an interpreter into its first line, as "
            "#!/bin/bash"
        )
    if path.stat().st_size > LONGEST_SCRIPT:
        raise BadSubmission(f"{word} is longer than {LONGEST_SCRIPT / 1e6:g} MB")
    if b"\0" in content:
        raise BadSubmission(f"{word} is not a text: there is a null character in it")
    if content.partition(b"\n")[0].endswith(b"\r"):
        raise BadSubmission(f"{word} has line ends of Windows: run dos2unix {shlex.quote(word)}")
    return content.decode(errors="surrogateescape")


def _no_script(word: str) -> str:
    if not word:
        return "the name of the script or program is empty"
    if Path(word).is_dir():
        return f"{word} is a directory: name a script or a program in it"
    if "/" in word:
        return f"{word}: there is no such file here"
    return f"{word}: there is no such script here, and no such program on PATH"


def make_job(
    options: SubmitOptions,
    *,
    words: Sequence[str],
    script: str,
    script_name: str,
    around: SubmittedFrom,
    inputs: FileInputs | None = None,
) -> Job:
    """Return the job.

    Args:
        words: the command; the arguments of the script, if there is one.
        script: its text; "" for a command.
        script_name: as the user gave it.
        inputs: those of its tasks; None for none.

    Raises:
        BadSubmission: an option makes no sense; the message names it.
    """
    what = script_name or (words[0] if words else "")
    name = options.get("name") or what.rpartition("/")[2] or "job"
    if len(name) > _LONGEST_NAME:
        raise BadSubmission(f"--name: a name has at most {_LONGEST_NAME} characters")
    array = _array(options, inputs)
    places = {
        option: _place(options, option, around) for option in ("stdout", "stderr", "stdin", "cwd")
    }
    stdout = places["stdout"] or ("job-%A_%a.out" if array else "job-%j.out")
    limit = _seconds("--time", options.get("time"))
    number, before, receivers = _warning(options.get("signal"), limit)
    job = around.job(
        name,
        directory=os.path.normpath(Path(around.directory, places["cwd"])),
        command=tuple(words),
        script=script,
        script_name=script_name,
        stdin="" if places["stdin"] == "-" else places["stdin"],
        environment=_environment(options, around.environment),
        request=_request(options),
        priority=options.get("priority") or 0,
        stdout=stdout,
        stderr=places["stderr"],
        append=bool(options.get("append")),
        columns=inputs.names if inputs else (),
        array=array,
        after=tuple(_after(text) for text in options.get("after") or ()),
        not_before=_begin(options.get("begin"), around.now),
        held=bool(options.get("hold")),
        retries=options.get("retries") or 0,
        halt=_halt(options.get("halt"), array),
        requeue=not options.get("no_requeue"),
        timeout=limit,
        signal=number,
        signal_before=before,
        # A command is its own only step.
        signal_to=receivers if script else "all",
        scratch=bool(options.get("scratch")),
    )
    return replace(job, options=_ranks(options.get("ranks"), job))


def _place(options: SubmitOptions, option: str, around: SubmittedFrom) -> str:
    text = options.get(option) or ""
    try:
        return expanded(text, around.environment)
    except ValueError as error:
        raise BadSubmission(f"--{option} {text}: {error}") from None


def check_files(job: Job) -> None:
    """Refuse a job that could not begin now, as its directory or its input is not there.

    Another job may make them for one that begins later.

    Raises:
        BadSubmission: one of them is not there.
    """
    if job.after or job.not_before or job.held:
        return
    if not Path(job.directory).is_dir():
        raise BadSubmission(f"--cwd: there is no directory {job.directory} here")
    if job.stdin and not Path(job.directory, job.stdin).exists():
        raise BadSubmission(f"--stdin {job.stdin}: there is no such file in {job.directory}")


def _request(options: SubmitOptions) -> dict[str, object]:
    """Return what each task asks for, as plain data."""
    text = options.get("res") or "Cores=1"
    nodes = options.get("nodes") or 1
    try:
        request = from_text(text)
        if nodes > 1:
            request = nodes * request
    except ValueError as error:
        more = f" --nodes {nodes}" if nodes > 1 else ""
        raise BadSubmission(f"-r {text}{more}: {error}") from None
    return dict(to_data(request))


def _ranks(ranks: int | None, job: Job) -> dict[str, str]:
    """Return what the variables of a job say of its processes."""
    if ranks is None:
        return {}
    asked = job.first_choice.get("Cores", 0)
    if asked == "all":  # of a worker that is not known yet
        return {"ntasks": str(ranks)}
    # Ids, a number, or a part of one core.
    cores = len(asked) if isinstance(asked, list | tuple) else int(cast("float", asked))
    cores *= job.nodes
    if ranks > cores:
        each = -(-ranks // job.nodes)
        raise BadSubmission(
            f"--ranks {ranks}: each rank needs a core of its own: ask for -r Cores={each} or more"
            + (" on each of the nodes" if job.nodes > 1 else "")
        )
    return {"ntasks": str(ranks), "cpus-per-task": str(cores // ranks)}


def _array(options: SubmitOptions, inputs: FileInputs | None) -> ArraySpec | None:
    text = options.get("array")
    number = len(inputs.records) if inputs else 0
    if text is None:
        return ArraySpec(ranges=((1, number, 1),)) if number else None
    try:
        array = parse_array(text)
    except BadInput as error:
        raise BadSubmission(f"--{error}") from None
    first, last = first_and_last(array)
    if inputs and not 1 <= first <= last <= number:
        raise BadSubmission(f"--array {text}: {inputs.option} has the inputs 1 to {number}")
    return array


def _halt(text: str | None, array: ArraySpec | None) -> int:
    if text is None:
        return 0
    match = re.fullmatch(r"fail=([1-9][0-9]{0,5})", text, re.ASCII)
    if match is None:
        raise BadSubmission(
            f"--halt {text}: write fail and a number, as fail=3: when so many tasks have failed, "
            "the others are cancelled, also those that run"
        )
    if array is None:
        raise BadSubmission(f"--halt {text} is for arrays: add --array or --each-line")
    return int(match[1])


def _after(text: str) -> Dependency:
    match = _AFTER.fullmatch(text)
    if match is None:
        raise BadSubmission(
            f"--after {text}: write numbers of jobs, as 12 or 12,15; :any waits for their ends, "
            "however they end, :fail for failures, as in --after 12:any"
        )
    jobs = tuple(map(int, match[1].split(",")))
    return Dependency(jobs=jobs, until=cast("Until", match[2] or "ok"))


def _seconds(option: str, text: str | None) -> float:
    """Return a span of time in seconds; 0 for none."""
    if text is None:
        return 0.0
    try:
        limit = WTime(T=text).T if ":" in text else unit_seconds(text)
    except ValueError:
        limit = None
    if not limit or math.isinf(limit):
        raise BadSubmission(
            f"{option} {text}: write a span of time, as 90s, 30m, 2h, 1d or 1:30:00"
        )
    return float(limit)


def _begin(text: str | None, now: float) -> float:
    """Return the time before which a job does not begin, in Unix seconds; 0 for none."""
    if text is None:
        return 0.0
    if text.startswith("+"):
        return now + _seconds("--begin", text[1:])
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise BadSubmission(
            f"--begin {text}: write a time, as 2027-01-31T18:00, or a span from now, as +2h"
        ) from None


def _warning(text: str | None, limit: float) -> tuple[int, float, Receivers]:
    """Return a signal, the seconds before the limit, and which processes of a script get it."""
    if text is None:
        return 0, 0.0, "steps"
    match = re.fullmatch(r"(B:)?(?:SIG)?([A-Z]+\d?|\d{1,2})(?:@(\d{1,6}))?", text)
    number = 0
    if match is not None:
        word = match[2]
        with suppress(KeyError, ValueError):
            number = signal.Signals(int(word)) if word.isdecimal() else signal.Signals["SIG" + word]
    if match is None or not number:
        raise BadSubmission(
            f"--signal {text}: write a signal and the seconds before the time limit, as USR2@60; "
            "B: before it sends it to the script only"
        )
    if not limit:
        raise BadSubmission(f"--signal {text} warns before the time limit: add --time")
    return int(number), float(match[3] or 60), "script" if match[1] else "steps"


def _environment(options: SubmitOptions, environment: Mapping[str, str]) -> dict[str, str]:
    if options.get("clean_env"):
        variables = plain_environment(environment)
    else:
        variables = passed_on(environment)
    for text in options.get("env") or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadSubmission(
                f"--env {text}: write NAME=VALUE; without --clean-env, all variables go along"
            )
        variables[name] = value
    return variables
