"""``srun``: run a command in a job, once or several times; outside, submit it and wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from grain.cli.slurm.here import VERSION, CommandFailed, SlurmAnswer
from grain.cli.slurm_words import steps
from grain.cli.slurm_words.grammar import parse
from grain.cli.slurm_words.options import SRUN, merged
from grain.files.trust import open_output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.cli.slurm.here import Here
    from grain.cli.slurm_words.steps import SrunStep

_USAGE = """\
Usage: srun [OPTIONS] COMMAND [ARGS]

In a job, runs a command as srun of Slurm does: -n times, with SLURM_PROCID. Elsewhere, puts it
into the queue of Grain and waits for its end.
"""
_FORWARDED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM,
)  # fmt: skip
_GRACE = 30.0  # seconds from SIGTERM to SIGKILL at a time limit


def srun(words: list[str], here: Here) -> SlurmAnswer:
    """Answer ``srun``; for a single process this process becomes the command.

    Raises:
        BadUse: its words make no sense.
        CommandFailed: the command was not run, or it failed.
    """
    parsed = parse("srun", words, SRUN, permute=False)
    if parsed.has("version"):
        return SlurmAnswer(f"slurm {VERSION}\n")
    if parsed.has("help") or parsed.has("usage"):
        return SlurmAnswer(_USAGE)
    if not parsed.rest:
        raise CommandFailed("srun: fatal: No command given to execute.")
    given = merged([parsed.given])
    env = here.environment
    if "GRAIN_JOB_ID" not in env:
        if system := _system_command(env):
            # In a job of the system's Slurm, as for MPI programs of a mission's tasks.
            os.execve(system, [system, *words], dict(env))  # noqa: S606 - as the user has typed
        from grain.cli.slurm.outside import submit_and_wait

        return submit_and_wait(given, parsed.rest, here)
    try:
        step = steps.make_step(given, env)
    except steps.StepRefused as refused:
        raise CommandFailed(str(refused)) from None
    export = given.get("export", "ALL")
    if step.is_plain:
        return _become(step, parsed.rest, here, export)
    return SlurmAnswer(status=_run(step, parsed.rest, here, export))


def _system_command(env: Mapping[str, str]) -> str | None:
    """Return the system's srun in a job of the system; None elsewhere."""
    if "SLURM_JOB_ID" not in env:
        return None
    from grain.cli.batch.system_commands import system_command

    return system_command("srun", env)


def salloc(words: list[str], here: Here) -> SlurmAnswer:
    """Answer ``salloc``.

    Raises:
        CommandFailed: always, but for its version.
    """
    del here
    if "--version" in words or "-V" in words:
        return SlurmAnswer(f"slurm {VERSION}\n")
    raise CommandFailed(
        "salloc: error: Job submit/allocate failed: Requested operation is presently disabled\n"
        "salloc: (Grain) there is no allocation to work in: `srun COMMAND` runs a command on a "
        "worker and waits, `sbatch SCRIPT` submits a script"
    )


def _become(step: SrunStep, command: Sequence[str], here: Here, export: str) -> SlurmAnswer:
    """Become the command; return only if that is not possible."""
    with ExitStack() as files:
        for place, file in enumerate(_files(step, 0, here, files)):
            if isinstance(file, int):
                continue
            os.dup2(file.fileno(), place)
    try:
        if step.directory:
            os.chdir(step.directory)
        variables = steps.variables(step, 0, here.environment, export)
        os.execvpe(command[0], list(command), variables)  # noqa: S606 - the user's command
    except OSError as error:
        return SlurmAnswer("", _not_started(command, error), error.errno or 1)


def _not_started(command: Sequence[str], error: OSError) -> str:
    return f"slurmstepd: error: execve(): {command[0]}: {error.strerror}"


def _files(step: SrunStep, rank: int, here: Here, files: ExitStack) -> list[IO[bytes] | int]:
    """Open the three files of a process, of which the places of those that stay are numbers.

    Raises:
        CommandFailed: one cannot be opened.
    """
    directory = str(Path.cwd())

    def output(pattern: str) -> IO[bytes]:
        name = steps.path(pattern, rank, here.environment, directory)
        # Processes that share a file append to it, the first one as well, which has emptied it: it
        # may be the last that writes.
        shared = rank and name == steps.path(pattern, 0, here.environment, directory)
        more = 0 if shared or step.append else os.O_TRUNC
        opened = open_output(str(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND | more)
        return files.enter_context(open(opened, "ab"))  # noqa: PTH123 - a descriptor

    try:
        stdin: IO[bytes] | int = 0
        if step.stdin or rank:
            name = Path(directory, step.stdin or os.devnull)
            stdin = files.enter_context(name.open("rb"))
        stdout = output(step.stdout) if step.stdout else 1
        stderr = output(step.stderr) if step.stderr else stdout if step.stdout else 2
    except OSError as error:
        raise CommandFailed(
            f"srun: error: Could not open file {error.filename}: {error.strerror}"
        ) from None
    return [stdin, stdout, stderr]


def _run(step: SrunStep, command: Sequence[str], here: Here, export: str) -> int:
    """Run the processes of a step; return the highest exit status."""
    processes: list[subprocess.Popen[bytes]] = []

    def forward(number: int, _: object) -> None:
        for process in processes:
            with suppress(OSError):
                process.send_signal(number)

    readers: list[threading.Thread] = []
    before = {number: signal.signal(number, forward) for number in _FORWARDED}
    # Signals of a warning are for the command; they reach all processes of a job's steps.
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        before[number] = signal.signal(number, lambda *_: None)
    try:
        with ExitStack() as files:
            for rank in range(step.tasks):
                stdin, stdout, stderr = _files(step, rank, here, files)
                labelled = step.label and stdout == 1
                variables = steps.variables(step, rank, here.environment, export)
                process = subprocess.Popen(  # noqa: S603 - the user's command
                    _words(step, rank, command, variables),
                    stdin=stdin,
                    stdout=subprocess.PIPE if labelled else stdout,
                    stderr=subprocess.PIPE if step.label and stderr == 2 else stderr,
                    cwd=step.directory or None,
                    env=variables,
                )
                processes.append(process)
                for pipe, place in ((process.stdout, 1), (process.stderr, 2)):
                    if pipe is not None:
                        reader = threading.Thread(target=_label, args=(pipe, place, rank))
                        reader.start()
                        readers.append(reader)
        statuses = _wait(processes, step.limit)
    except OSError as error:
        for process in processes:
            process.kill()
            process.wait()
        sys.stderr.write(f"{_not_started(command, error)}\n")
        return error.errno or 1  # as slurmstepd has it
    finally:
        for reader in readers:
            reader.join()
        for number, handler in before.items():
            signal.signal(number, handler)
    return max(128 - status if status < 0 else status for status in statuses)


def _words(
    step: SrunStep, rank: int, command: Sequence[str], variables: Mapping[str, str]
) -> Sequence[str]:
    """Return the words of a process of a step, which may run on another worker of the job."""
    place = step.processes[rank].place
    rsh = variables.get("GRAIN_RSH", "")
    return steps.elsewhere(place, command, variables, rsh) if place and rsh else command


def _wait(processes: Sequence[subprocess.Popen[bytes]], limit: float) -> list[int]:
    """Wait for processes; end them at the limit of a step."""
    if not limit:
        return [process.wait() for process in processes]
    timer = threading.Timer(limit, _end, (processes, signal.SIGTERM))
    killer = threading.Timer(limit + _GRACE, _end, (processes, signal.SIGKILL))
    for one in (timer, killer):
        one.daemon = True
        one.start()
    statuses = [process.wait() for process in processes]
    timer.cancel()
    killer.cancel()
    return statuses


def _end(processes: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    for process in processes:
        with suppress(OSError):
            process.send_signal(number)


def _label(pipe: IO[bytes], place: int, rank: int) -> None:
    with pipe:
        for line in pipe:
            text = line if line.endswith(b"\n") else line + b"\n"
            os.write(place, f"{rank}: ".encode() + text)
