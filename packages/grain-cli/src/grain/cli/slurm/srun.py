"""``srun``: run a command in a job, once or several times; outside, submit it and wait."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from grain.cli.slurm.here import NO_TERMINAL, VERSION, CommandFailed, SlurmAnswer
from grain.cli.slurm.in_job.step import DESK, fixed_answer, run_step
from grain.cli.slurm_words.grammar import BadUse, parse
from grain.cli.slurm_words.options import SRUN, merged, of_environment
from grain.cli.slurm_words.steps import StepRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.cli.slurm.here import Here


def srun(words: list[str], here: Here) -> SlurmAnswer:
    """Answer ``srun``.

    Raises:
        BadUse: its words make no sense.
        CommandFailed: the command was not run, or it failed.
    """
    env = here.environment
    if DESK in env:
        try:
            return SlurmAnswer(status=run_step(words, env))
        except StepRefused as refused:
            raise CommandFailed(str(refused)) from None
    parsed = parse("srun", words, SRUN, permute=False)
    if answer := fixed_answer(parsed):
        return SlurmAnswer(answer)
    if not parsed.rest:
        raise BadUse("srun: fatal: No command given to execute.", 1)
    if "GRAIN_JOB_ID" in env:
        raise CommandFailed(
            "srun: error: (Grain) steps begin in the job's script, and in what it starts on its "
            "first node: GRAIN_STEPS is not set here"
        )
    if system := _system_command(env):
        # In a job of the system's Slurm, as for MPI programs of a mission's tasks.
        passed = {name: text for name, text in env.items() if name}  # the others are not possible
        os.execve(system, [system, *words], passed)  # noqa: S606 - as the user has typed
    from grain.cli.slurm.outside import submit_and_wait

    # Where a batch job has these, they say what that job has.
    variables = [] if "SLURM_JOB_ID" in env else of_environment(env, srun=True)
    given = merged("srun", parsed.given, variables=variables)
    return submit_and_wait(given, parsed.rest, here)


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
    if "--version" in words or "-V" in words:
        return SlurmAnswer(f"slurm {VERSION}\n")
    from grain.cli.batch.system_commands import system_command

    system = system_command("salloc", here.environment)
    more = f"; the system's salloc may have it: {system}" if system else ""
    raise CommandFailed(
        "salloc: error: Job submit/allocate failed: Requested operation is presently disabled\n"
        f"salloc: (Grain) {NO_TERMINAL}, or `sbatch SCRIPT` with the steps in a script{more}"
    )
