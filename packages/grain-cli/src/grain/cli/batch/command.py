"""Run the commands of a batch system."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.batch.errors import BatchError, BatchUnreachable, SubmissionUnknown
from grain.cli.batch.system_commands import system_environment
from grain.cli.streams import remedy
from grain.eventlog.names import state_folder
from grain.files.batch_systems import facts_of
from grain.files.trust import private_folder, remove_files
from grain.files.whole import write_script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from grain.cli.batch.base import BatchJob

# A Slurm without its controller gives up after 9 s; a loaded one may take half a minute.
SECONDS = 60.0
IN_DOUBT = (
    "timed out on send/recv",
    "Zero Bytes were transmitted or received",
    "Unexpected message received",
    "Communication connection failure",
    "Communication shutdown failure",
    "Message send failure",
    "Message receive failure",
    "Insane message length",
    "Header lengths are longer than data received",
    "Transport endpoint is not connected",
    "Connection reset by peer",
    "Broken pipe",
    "closed by remote host",
)
"""Texts of a connection that broke when a request may have arrived: those of sbatch (the errors of
Slurm's protocol in slurm_errno.c, and of the C library), and of ssh in mid-session."""

# Words of an error message that users have chosen, and that no remedy is for: paths.
_PATH = re.compile(r"""(?<![^\s"'(=:])(?:~|\.{0,2})/[^\s"')]*""")
_SCRIPT = re.compile(r"[^/]+-\d+\.sh")
_KEPT = 100 * 86400.0  # seconds for which the script of a job that may wait is kept


class CommandResult(NamedTuple):
    """The result of a command: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


class Commands(NamedTuple):
    """The commands of a batch system, and what Grain knows of their errors.

    Attributes:
        system: the name of the batch system, as the configuration has it.
        names: the commands that must be there.
        question: a command that changes nothing, and fails where the batch system is down;
            ``{user}`` stands for this user.
        remedies: pairs of a text in an error message, and the change that helps; the first that is
            found counts, so what says more comes first.
        silent: texts in error messages of a batch system that could not be reached.
        tried: the version with which Grain was tried; empty if there was none.
        install: what to do on a host without them; empty for the usual advice.
    """

    system: str = ""
    names: tuple[str, ...] = ()
    question: tuple[str, ...] = ()
    remedies: Iterable[tuple[str, str]] = ()
    silent: Iterable[str] = ()
    tried: str = ""
    install: str = ""

    @property
    def title(self) -> str:
        """The name of the batch system in messages."""
        return facts_of(self.system).title or self.system

    @property
    def missing(self) -> str:
        """The advice for a host without these commands."""
        return self.install or (
            f"Run this on a host with the commands of {self.title}, usually a login node, or "
            "change `system` in the configuration."
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        cwd: str | None = None,
        submits: Sequence[BatchJob] = (),
        seconds: float | None = None,
    ) -> CommandResult:
        """Run a command to its end, whatever its exit code.

        Args:
            submits: the jobs that it submits. Such a command runs with the user's language, as the
                job may inherit it; others answer in English.
            seconds: the time that it has; None for a minute.

        Raises:
            SubmissionUnknown: it submits, did not end in time, and was killed.
            BatchUnreachable: it submits nothing, did not end in time, and was killed.
            BatchError: it does not exist, or cannot be run.
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
                env=system_environment() | ({} if submits else {"LC_ALL": "C", "LANGUAGE": ""}),
                # Ctrl-C must not reach it: a job that is submitted has to be recorded.
                start_new_session=True,
            )
        except FileNotFoundError:
            raise BatchError(f"{argv[0]}: there is no such command", remedy=self.missing) from None
        except OSError as error:
            raise BatchError(f"{argv[0]} cannot be run", error.strerror or str(error)) from None
        seconds = SECONDS if seconds is None else seconds
        with process:
            try:
                out, err = process.communicate(stdin, seconds)
            except subprocess.TimeoutExpired:
                # The command may be a script: what it has started goes, too.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                what = f"{argv[0]} did not end within {seconds:g} s"
                if submits:
                    raise SubmissionUnknown(what, "", submits) from None
                raise BatchUnreachable(
                    what, remedy="The batch system seems to be overloaded or down; try again later."
                ) from None
        return CommandResult(process.returncode, out, err)

    def submission(
        self,
        argv: Sequence[str],
        jobs: Sequence[BatchJob],
        *,
        title: str = "",
        stdin: str = "",
        cwd: str | None = None,
    ) -> str:
        """Run a command that submits jobs; return its output.

        Args:
            title: the command as messages have it; its first word by default.

        Raises:
            SubmissionUnknown: it is unknown whether the batch system has the jobs.
            BatchError: it has refused them.
        """
        done = self.run(argv, stdin=stdin, cwd=cwd, submits=jobs)
        title = title or argv[0]
        output = done.err.strip() or done.out.strip()
        if done.code < 0 or (done.code and any(text in output for text in IN_DOUBT)):
            raise SubmissionUnknown(f"{title} failed (exit code {done.code})", output, jobs)
        if done.code:
            raise self.refusal(title, done)
        return done.out

    def accepted(
        self,
        argv: Sequence[str],
        jobs: Sequence[BatchJob],
        read: Callable[[str], str],
        *,
        title: str = "",
        stdin: str = "",
    ) -> str:
        """Run a command that submits jobs, as `submission` does; return their id.

        Args:
            read: returns the id in the output; empty if there is none.

        Raises:
            SubmissionUnknown: there is no id, or it is unknown whether the batch system has the
                jobs.
        """
        output = self.submission(argv, jobs, title=title, stdin=stdin)
        if number := read(output):
            return number
        raise SubmissionUnknown(
            f"{title or argv[0]} accepted the job, but printed no job id that Grain can read",
            output or "(nothing)",
            jobs,
        )

    def answer(
        self,
        argv: Sequence[str],
        excused: Callable[[CommandResult], bool] | None = None,
        *,
        title: str = "",
    ) -> str:
        """Run a command that submits nothing; return its output.

        Args:
            excused: returns True for an exit code that does not mean a failure.
            title: the command as messages have it; its first word by default.

        Raises:
            BatchError: it failed.
        """
        done = self.run(argv)
        if done.code and not (excused and excused(done)):
            raise self.refusal(title or argv[0], done)
        return done.out

    def refusal(self, command: str, done: CommandResult) -> BatchError:
        """Make the error for a failed command, from its own text and the remedy."""
        output = done.err.strip() or done.out.strip()
        words = _PATH.sub("", output)
        remedy = next((text for pattern, text in self.remedies if pattern in words), "")
        kind = BatchUnreachable if any(pattern in output for pattern in self.silent) else BatchError
        return kind(f"{command} failed (exit code {done.code})", output, remedy)


def scripts_folder() -> Path:
    """Return the directory of scripts that are read when their jobs start: nodes must see it."""
    return state_folder() / "scripts"


def keep_script(folder: Path, name: str, text: str) -> Path:
    """Write a script that its job reads when it starts; return its path.

    Scripts of jobs that started long ago are removed.

    Raises:
        BatchError: it cannot be written.
    """
    path = folder / f"{name}-{os.getpid()}.sh"
    try:
        private_folder(folder)
        before = time.time() - _KEPT
        remove_files(
            folder,
            lambda file, status: _SCRIPT.fullmatch(file) is not None and status.st_mtime < before,
        )
        write_script(path, text)
    except OSError as error:
        raise BatchError(
            f"{path} cannot be written",
            error.strerror or "",
            remedy(error, "set XDG_STATE_HOME"),
        ) from None
    return path
