"""Running the batch system's commands."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.batch.errors import BatchError, BatchUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# A Slurm without its controller gives up after 9 s; a loaded one may take half a minute.
SECONDS = 60.0


class CommandResult(NamedTuple):
    """What came of a command: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


class Complaints(NamedTuple):
    """What is known of a batch system's complaints.

    Attributes:
        remedies: Pairs of a text that occurs in a complaint, and what to change then.
        silent: Those of the texts that mean that the batch system could not be reached.
        missing: What to do if its commands are not there.
    """

    remedies: Iterable[tuple[str, str]]
    silent: Iterable[str]
    missing: str


def run(
    argv: Sequence[str], words: Complaints, *, stdin: str = "", cwd: str | None = None
) -> CommandResult:
    """Run a command to its end, whatever its exit code.

    Raises:
        Unreachable: It did not end within a minute; it was ended.
        BatchError: It is not there, or cannot be run.
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
            # Ctrl-C is for us: what is being submitted is submitted, and recorded.
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
    """The error for a command that failed, with its own text and what to change."""
    told = done.err.strip() or done.out.strip()
    remedy = next((text for pattern, text in words.remedies if pattern in told), "")
    kind = BatchUnreachable if any(pattern in told for pattern in words.silent) else BatchError
    return kind(f"{command} failed (exit code {done.code})", told, remedy)
