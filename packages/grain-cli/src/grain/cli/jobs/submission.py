"""The words of ``grain submit`` become what a submission asks for."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import signal
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from grain.cli.jobs.errors import BadSubmission
from grain.cli.queue.submission import (
    SubmitOptions,
    SubmittedFrom,
    expanded,
    marked_lines,
    said,
)
from grain.inputs.errors import InputError
from grain.inputs.warning import BEFORE, check_before, parse_warning
from grain.queue.arrays import array_text, first_and_last, parse_array
from grain.queue.errors import BadInput
from grain.queue.patterns import UNKNOWN, file_of
from grain.queue.records import ArraySpec, Dependency, Job, first_choice
from grain.resource import WTime, from_text, to_data, unit_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.cli.jobs.inputs import FileInputs
    from grain.queue.records import Until

LONGEST_SCRIPT = 10_000_000
"""Bytes of a script."""

_LONGEST_NAME = 200
_AS_THEY_ARE = ("name", "nodes", "ranks", "priority", "retries", "append", "scratch")
_PLACES = {"cwd": "directory", "stdin": "stdin", "stdout": "stdout", "stderr": "stderr"}
_PROGRAM = b"\x7fELF"
_AFTER = re.compile(r"(\d+(?:,\d+)*)(?::(ok|fail|any|begun|each))?")


def directives(script: str, mark: str = "#GRAIN") -> list[str]:
    """Return the words of the lines of a script that begin with a mark, up to its first command.

    Raises:
        BadSubmission: a line has a quote that is not closed.
    """
    words: list[str] = []
    for number, text in marked_lines(script, mark):
        try:
            words += shlex.split(text, comments=True)
        except ValueError:
            raise BadSubmission(
                f"line {number} has a quote that is not closed: {mark}{text}"
            ) from None
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


def submit_options(
    given: Mapping[str, Any],
    around: SubmittedFrom,
    *,
    base: SubmitOptions | None = None,
    inputs: FileInputs | None = None,
) -> SubmitOptions:
    """Return what a submission asks for.

    Args:
        given: the options of ``grain submit`` that the user gave, by the names of
            `grain.cli.jobs.submit.submit`.
        around: who submits it.
        base: of lines in the script, behind `given`.
        inputs: those of its tasks; None for none.

    Raises:
        BadSubmission: an option makes no sense; the message names it.
    """
    get = given.get
    if len(get("name") or "") > _LONGEST_NAME:
        raise BadSubmission(f"--name: a name has at most {_LONGEST_NAME} characters")
    as_they_are = {name: given[name] for name in _AS_THEY_ARE if name in given}
    for option, name in _PLACES.items():
        if option in given:
            as_they_are[name] = _place(given[option], option, around)
    own = said(
        request=_request(given),
        timeout=_seconds("--time", get("time")) or None,
        array=_array(get("array")),
        after=tuple(_after(text) for text in get("after") or ()) or None,
        not_before=_begin(get("begin"), around.now) or None,
        held=get("hold"),
        requeue=False if get("no_requeue") else None,
        clean=get("clean_env"),
        variables=_variables(get("env")),
        **as_they_are,
    )
    options = (base or {}) | own
    # What follows looks at several options, of which some may be in a line of the script.
    array = _numbered(options.get("array"), inputs)
    more = said(
        array=array,
        halt=_halt(get("halt"), array),
        options=_ranks(options),
        **_warning(get("signal"), options.get("timeout")),
        **_soft_stop(get("warn"), get("warn_before"), options.get("timeout")),
    )
    return options | more


def _place(text: str, option: str, around: SubmittedFrom) -> str:
    try:
        return "" if (option, text) == ("stdin", "-") else expanded(text, around.environment)
    except ValueError as error:
        raise BadSubmission(f"--{option} {text}: {error}") from None


def check_files(job: Job) -> None:
    """Refuse a job that could not begin now, as its directory or its input is not there.

    Of an array the input of the first task is looked for; none whose name depends on what is not
    known yet.
    Another job may make them for one that begins later.

    Raises:
        BadSubmission: one of them is not there.
    """
    if job.after or job.not_before or job.held:
        return
    if not Path(job.directory).is_dir():
        raise BadSubmission(f"--cwd: there is no directory {job.directory} here")
    task = None if job.array is None else first_and_last(job.array)[0]
    stdin = file_of(job.stdin, job, task, UNKNOWN)
    if job.stdin and stdin == file_of(job.stdin, job, task) and not stdin.exists():
        raise BadSubmission(f"--stdin {job.stdin}: {stdin} does not exist")


def _request(given: Mapping[str, Any]) -> dict[str, object] | None:
    """Return what each task asks for on a node, as plain data."""
    text, nodes = given.get("res"), given.get("nodes") or 1
    if not text:
        return None
    try:
        request = from_text(text)
        if nodes > 1:
            nodes * request
    except ValueError as error:
        more = f" --nodes {nodes}" if nodes > 1 else ""
        raise BadSubmission(f"-r {text}{more}: {error}") from None
    return dict(to_data(request))


def _ranks(options: SubmitOptions) -> dict[str, str] | None:
    """Return what the variables of a job say of its processes."""
    if (ranks := options.get("ranks")) is None:
        return None
    count, choice = first_choice(options.get("request") or {"Cores": 1})
    asked, nodes = choice.get("Cores", 0), max(count, options.get("nodes", 1))
    if asked == "all":  # of a worker that is not known yet
        return {"ntasks": str(ranks)}
    # Ids, a number, or a part of one core.
    cores = len(asked) if isinstance(asked, list | tuple) else int(cast("float", asked))
    cores *= nodes
    if ranks > cores:
        each = -(-ranks // nodes)
        raise BadSubmission(
            f"--ranks {ranks}: each rank needs a core of its own: ask for -r Cores={each} or more"
            + (" on each of the nodes" if nodes > 1 else "")
        )
    return {"ntasks": str(ranks), "cpus-per-task": str(cores // ranks)}


def _array(text: str | None) -> ArraySpec | None:
    try:
        return None if text is None else parse_array(text)
    except BadInput as error:
        raise BadSubmission(f"--{error}") from None


def _numbered(array: ArraySpec | None, inputs: FileInputs | None) -> ArraySpec | None:
    """Return the array of a job with inputs: those that were chosen, or all."""
    if not inputs or not inputs.records:
        return array
    number = len(inputs.records)
    if array is None:
        return ArraySpec(ranges=((1, number, 1),))
    first, last = first_and_last(array)
    if not 1 <= first <= last <= number:
        text = array_text(array)
        raise BadSubmission(f"--array {text}: {inputs.option} has the inputs 1 to {number}")
    return array


def _halt(text: str | None, array: ArraySpec | None) -> int | None:
    if text is None:
        return None
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


def _warning(text: str | None, limit: float | None) -> dict[str, Any]:
    if text is None:
        return {}
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
    to = "script" if match[1] else "steps"
    return {"signal": int(number), "signal_before": float(match[3] or 60), "signal_to": to}


def _soft_stop(text: str | None, before: str | None, limit: float | None) -> dict[str, Any]:
    """Return what asks the program to stop before it is ended."""
    if text is None:
        if before is not None:
            raise BadSubmission(f"--warn-before {before}: add --warn FILE or --warn SIGNAL")
        return {}
    seconds = _seconds("--warn-before", before) if before is not None else BEFORE
    try:
        parse_warning(text)
        check_before(seconds, limit, "--time")
    except InputError as error:
        raise BadSubmission(str(error)) from None
    return {"warn": text, "warn_before": seconds}


def _variables(texts: Sequence[str] | None) -> dict[str, str] | None:
    variables = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadSubmission(
                f"--env {text}: write NAME=VALUE; without --clean-env, all variables go along"
            )
        variables[name] = value
    return variables or None
