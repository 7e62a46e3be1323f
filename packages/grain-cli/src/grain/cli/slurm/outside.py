"""``srun`` outside of a job: submit the command, show its output, and wait for its end."""

from __future__ import annotations

import os
import secrets
import select
import signal
import stat
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from grain.cli.slurm.here import NO_TERMINAL, CommandFailed, SlurmAnswer
from grain.cli.slurm.nodes import check_offered, gpu_shards, with_hosts_of_files
from grain.cli.slurm.reading import NeverBegins, exit_status, wait_for
from grain.cli.slurm.sbatch import around, refused, submit, tested
from grain.cli.slurm_words.grammar import BadUse
from grain.cli.slurm_words.steps import StepRefused, refuse, srun_words, step_order
from grain.cli.slurm_words.submission import JobRefused, slurm_job
from grain.eventlog.names import state_folder
from grain.files.trust import private_folder, python_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grain.cli.slurm.here import Here
    from grain.queue.records import Job

# Options of the step, which is a command in the job.
_OF_STEP = (
    "cpu-bind", "cpus-per-task", "distribution", "error", "gpus-per-task", "input",
    "kill-on-bad-exit", "label", "mpi", "multi-prog", "ntasks", "open-mode", "output",
    "overcommit", "unbuffered", "wait",
)  # fmt: skip
# All others are of the job, and so is what a task has.
_NOT_OF_JOB = set(_OF_STEP) - {
    "ntasks", "cpus-per-task", "gpus-per-task", "overcommit",
}  # fmt: skip
_PATIENCE = 1.0  # seconds for the first word in a pipe, which may be that of another program


def submit_and_wait(given: Mapping[str, str], command: Sequence[str], here: Here) -> SlurmAnswer:
    """Put a command into the queue, copy its output to this process, and wait for its end.

    If it is interrupted, or the job never begins, the job is cancelled.

    Standard input goes along, read to its end: a file, or a pipe in which there is something within
    a second.

    Raises:
        BadUse: an option makes no sense.
        CommandFailed: it was not submitted, or failed.
    """
    if "pty" in given:
        raise CommandFailed(f"srun: error: (Grain) --pty: {NO_TERMINAL}")
    given = with_hosts_of_files("srun", given)
    job = _job(given, command, here)
    if "test-only" in given:
        return tested(here, job, "")
    folder = state_folder(here.environment) / "srun"
    try:
        private_folder(folder)
    except OSError as error:
        raise CommandFailed(f"srun: error: (Grain) {folder}: {error.strerror}") from None
    token = secrets.token_hex(8)
    files = [folder / f"{token}.{name}" for name in ("out", "err")]
    job = msgspec.structs.replace(
        job,
        stdout=str(files[0]).replace("%", "%%"),
        stderr=str(files[1]).replace("%", "%%"),
    )
    copies = [
        _Copy(file, stream) for file, stream in zip(files, (sys.stdout, sys.stderr), strict=True)
    ]

    def go_on() -> None:
        for one in copies:
            one.go_on()

    how = srun_words(given).stdin
    reads = how == "all" or how.isdecimal()  # and not a file
    number = 0
    try:
        with _signals_interrupt():
            queue, number = submit(here, job, _stdin() if reads else b"")
            ended = wait_for(here, queue, number, go_on)
    except (KeyboardInterrupt, NeverBegins, _OutputLost) as error:
        from grain.cli.slurm.scancel import scancel

        if number:
            scancel([str(number)], here)
            if isinstance(error, _OutputLost):  # as a program that has the stream itself ends
                why = f"its output could not be written: {error}; job {number} is cancelled"
                raise CommandFailed(f"srun: error: (Grain) {why}") from None
            if isinstance(error, NeverBegins):
                why = str(error).partition("; `grain")[0]
                raise CommandFailed(f"{why}; it is cancelled") from None
            sys.stderr.write(f"srun: (Grain) interrupted: job {number} is cancelled\n")
        raise
    finally:
        for one in copies:
            one.close()
    status = exit_status(ended)
    # The srun of the job has said by itself how a process exited.
    said = exit_status(ended, otherwise=0)
    why = f"srun: error: task 0: Exited with exit code {status}" if status and not said else ""
    return SlurmAnswer("", why, status)


def _job(given: Mapping[str, str], command: Sequence[str], here: Here) -> Job:
    """Return the job in which a command runs as a step.

    Raises:
        BadUse: an option makes no sense.
        CommandFailed: there is no such job or step here.
    """
    # The job runs srun again, which starts the processes there, with the variables of a step.
    step = [f"--{name}={given[name]}" if given[name] else f"--{name}" for name in _OF_STEP
            if name in given]  # fmt: skip
    # All of the job is its own, and it holds nothing, so that its command may call srun again.
    step.append("--overlap")
    words = [*python_command("grain.cli.slurm"), "srun", here.commands, *step, "--", *command]
    options = {name: value for name, value in given.items() if name not in _NOT_OF_JOB}
    options["job-name"] = given.get("job-name") or Path(command[0]).name
    try:
        refuse(given, "", command)
        shards = gpu_shards(options, here)
        job = slurm_job(options, around(here), words=words, gpu_shards=shards)
        check_offered(job, here)
        # Wrong options of the step are refused before anything is submitted.
        srun_words(given)
        step_order(given, {}, command, "")
    except StepRefused as error:
        raise CommandFailed(str(error)) from None
    except BadUse as error:
        raise BadUse(str(error).replace("sbatch: ", "srun: "), error.status) from None
    except JobRefused as error:
        raise refused(given, error, "srun", "Unable to allocate resources") from None
    return job


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Have SIGTERM, as of `timeout`, and SIGHUP, of a closed terminal, do what Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stdin() -> bytes:
    """Return what is at standard input, to its end; b"" for nothing, or a terminal."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # it is closed
        return b""
    pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    if stat.S_ISREG(mode) or (pipe and select.select([0], [], [], _PATIENCE)[0]):
        return sys.stdin.buffer.read()
    return b""


class _OutputLost(Exception):
    """A stream of this process takes no more; the text says why."""


class _Copy:
    """A file that a job writes, copied to a stream of this process."""

    def __init__(self, file: Path, stream: object) -> None:
        self._file = file
        self._to: BinaryIO = stream.buffer  # type: ignore[attr-defined]
        self._at = 0

    def go_on(self) -> None:
        """Copy what is new.

        Raises:
            _OutputLost: it cannot be written.
        """
        with suppress(FileNotFoundError), self._file.open("rb") as file:
            file.seek(self._at)
            while piece := file.read(1 << 16):
                self._write(piece)
                self._at += len(piece)

    def _write(self, piece: bytes) -> None:
        try:
            self._to.write(piece)
            self._to.flush()
        except OSError as error:
            raise _OutputLost(error.strerror) from None

    def close(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self._file.unlink()
