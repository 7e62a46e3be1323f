"""Run the commands of a batch system."""

from __future__ import annotations

import subprocess
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


def run(
    argv: Sequence[str], words: Complaints, *, stdin: str = "", cwd: str | None = None
) -> CommandResult:
    """Run a command to its end, whatever its exit code.

    Raises:
        BatchUnreachable: It did not end within a minute, and was killed.
        BatchError: It does not exist, or cannot be run.
    """
    try:
        done = subprocess.run(  # noqa: S603 - what the user configured
            argv,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
            cwd=cwd,
            # Ctrl-C must not reach it: a job that is being submitted is submitted, and recorded.
            start_new_session=True,
        )
    except FileNotFoundError:
        raise BatchError(f"{argv[0]}: there is no such command", remedy=words.missing) from None
    except subprocess.TimeoutExpired:
        raise BatchUnreachable(
            f"{argv[0]} did not end within {SECONDS:g} s",
            remedy="The batch system seems to be overloaded or down; try again later.",
        ) from None
    except OSError as error:
        raise BatchError(f"{argv[0]} cannot be run", error.strerror or str(error)) from None
    return CommandResult(done.returncode, done.stdout, done.stderr)


def refusal(command: str, done: CommandResult, words: Complaints) -> BatchError:
    """Make the error for a failed command, from its own text and the remedy."""
    output = done.err.strip() or done.out.strip()
    remedy = next((text for pattern, text in words.remedies if pattern in output), "")
    kind = BatchUnreachable if any(pattern in output for pattern in words.silent) else BatchError
    return kind(f"{command} failed (exit code {done.code})", output, remedy)
