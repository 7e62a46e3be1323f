"""Run the commands of a batch system."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.batch.errors import BatchError, BatchUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# A Slurm without its controller gives up after 9 s; a loaded one may take half a minute.
SECONDS = 60.0


class CommandResult(NamedTuple):
    """The result of a command: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


class Complaints(NamedTuple):
    """The complaints of a batch system that Grain recognises.

    Attributes:
        remedies: Pairs of a text that occurs in a complaint, and the change that helps.
        silent: Texts which mean that the batch system could not be reached.
        missing: The advice if its commands are not installed.
    """

    remedies: Iterable[tuple[str, str]]
    silent: Iterable[str]
    missing: str


class Profile(NamedTuple):
    """A batch system as `grain doctor` and its own class need it.

    Attributes:
        title: Its name for people.
        commands: The commands that Grain runs.
        question: A command that changes nothing, and fails where the batch system is down.
        complaints: Its complaints.
        tried: The version with which Grain was tried; empty if nobody has run it there.
    """

    title: str
    commands: tuple[str, ...]
    question: tuple[str, ...]
    complaints: Complaints
    tried: str


def missing(title: str) -> str:
    """Return the advice for a host without the commands of a batch system."""
    return (
        f"Run this where the commands of {title} are, usually on a login node, or change `system` "
        "in the configuration."
    )


def run(
    argv: Sequence[str],
    words: Complaints,
    *,
    stdin: str = "",
    cwd: str | None = None,
    submits: bool = False,
) -> CommandResult:
    """Run a command to its end, whatever its exit code.

    Args:
        argv: The command and its arguments.
        words: The complaints of its batch system.
        stdin: Its standard input.
        cwd: Its working directory; this process's by default.
        submits: True if it submits a job. Such a command runs with the user's language, as the job
            may inherit it; others answer in English.

    Raises:
        BatchUnreachable: It did not end within a minute, and was killed.
        BatchError: It does not exist, or cannot be run.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - what the user configured
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            cwd=cwd,
            env=None if submits else {**os.environ, "LC_ALL": "C", "LANGUAGE": ""},
            # Ctrl-C must not reach it: a job that is being submitted is submitted, and recorded.
            start_new_session=True,
        )
    except FileNotFoundError:
        raise BatchError(f"{argv[0]}: there is no such command", remedy=words.missing) from None
    except OSError as error:
        raise BatchError(f"{argv[0]} cannot be run", error.strerror or str(error)) from None
    with process:
        try:
            out, err = process.communicate(stdin, SECONDS)
        except subprocess.TimeoutExpired:
            # The command may be a script: what it has started goes, too.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise BatchUnreachable(
                f"{argv[0]} did not end within {SECONDS:g} s",
                remedy=(
                    "Nobody knows whether it has submitted the job: look at the batch system's own "
                    "list before you submit again."
                    if submits
                    else "The batch system seems to be overloaded or down; try again later."
                ),
            ) from None
    return CommandResult(process.returncode, out, err)


def refusal(command: str, done: CommandResult, words: Complaints) -> BatchError:
    """Make the error for a failed command, from its own text and the remedy."""
    output = done.err.strip() or done.out.strip()
    remedy = next((text for pattern, text in words.remedies if pattern in output), "")
    kind = BatchUnreachable if any(pattern in output for pattern in words.silent) else BatchError
    return kind(f"{command} failed (exit code {done.code})", output, remedy)


def understood(command: str, number: str, output: str) -> str:
    """Return a job's id.

    Raises:
        BatchError: There is none, though the command has submitted the job.
    """
    if not number:
        raise BatchError(
            f"{command} accepted the job but printed no job id that can be understood",
            output or "(nothing)",
            "Look for the job in the batch system's own list; Grain cannot follow it.",
        )
    return number
