"""Checks of ``grain doctor``: the batch system, and what its jobs need on this host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.batch.system_commands import system_command
from grain.cli.doctor.checks import CheckResult, fail, ok, warn
from grain.files.processes import user_name

if TYPE_CHECKING:
    from grain.config import Config


def batch(config: Config) -> list[CheckResult]:
    """Check that the batch system's commands are installed and that it answers."""
    from grain.cli.batch.errors import BatchError
    from grain.cli.batch.opening import commands_of

    system = config.system
    if system == "local":
        cpus = len(os.sched_getaffinity(0))
        return [ok("batch system", f"none: workers are processes here, on {cpus} CPUs")]
    if system == "custom":
        return [_custom(config)]
    commands = commands_of(system)
    missing = [name for name in commands.names if system_command(name) is None]
    if missing:
        fix = "Run this on a host that has them, usually a login node, or change `system`."
        return [fail("batch system", f"{system}: no {', '.join(missing)} here", fix)]
    question = [word.format(user=user_name()) for word in commands.question]
    try:
        done = commands.run(question)
    except BatchError as error:
        return [fail("batch system", f"{system}: {error.what}", error.remedy)]
    if done.code:
        refused = commands.refusal(question[0], done)
        message = f"{refused.what}: {refused.output}"
        return [fail("batch system", message, refused.remedy or "Try it by hand.")]
    if system == "ssh":
        return _hosts(config)
    if trouble := _several_nodes(config):
        return [trouble]
    answers = f"{system}: {', '.join(commands.names)} answer"
    if not commands.tried:
        says = f"{answers}; Grain has not been tried with {commands.title} so far"
        return [warn("batch system", says, "Please report how it goes.")]
    return [ok("batch system", answers)]


def _several_nodes(config: Config) -> CheckResult | None:
    """Return what is in the way of jobs with several nodes; None if nothing is."""
    from grain.cli.batch.errors import BatchError
    from grain.cli.scaling.configured import with_shape
    from grain.cli.workers.submission import prepare_workers

    sorts = [with_shape(config, shape) for shape in config.shape] or [config]
    for one in sorts:
        if one.worker.script.nodes == 1:
            continue
        system, job = prepare_workers(one, 1)
        try:
            system.script(job, 1)  # Grid Engine needs a parallel environment for them
        except BatchError as error:
            return fail("batch system", f"{config.system}: {error.what}", error.remedy)
    return None


def _hosts(config: Config) -> list[CheckResult]:
    """Try each host to which workers go by ssh, all at once."""
    from grain.cli.batch.systems.ssh import TRY, Ssh, in_a_line

    findings = []
    for host, error in Ssh(config.hosts, seconds=TRY).check(str(Path.cwd())).items():
        if error is None:
            findings.append(ok(f"host {host}", "ssh answers, and the directory is there"))
        else:
            fix = error.remedy or f"Try `ssh {host}` by hand, or remove it from `hosts`."
            findings.append(fail(f"host {host}", in_a_line(error), fix))
    return findings


def _custom(config: Config) -> CheckResult:
    import shlex

    custom = config.custom_system
    try:
        command = (shlex.split(custom.submit_cmd) or [""])[0]
    except ValueError:
        command = custom.submit_cmd
    if not system_command(command):
        fix = "Correct custom_system.submit_cmd, or run this where it is."
        return fail("batch system", f"custom: there is no command {command!r}", fix)
    return ok("batch system", f"custom: {command} is there")


def worker_command(config: Config) -> list[CheckResult]:
    """Check that `grain-worker` is installed, on this host at least."""
    from grain.cli.workers.submission import worker_folder

    folder = worker_folder()
    if folder:
        return [ok("grain-worker", f"in {folder}")]
    here = config.system == "local"
    fix = "pip install grain-worker" + (
        "" if here else ", or set PATH in script.setup_cleanup so that jobs find it"
    )
    return [(fail if here else warn)("grain-worker", "this host does not have it", fix)]


def outputs(config: Config) -> list[CheckResult]:
    """Check that this user may write to the directory of the jobs' outputs."""
    from grain.config import stamp

    log = config.worker.log_file
    if not log:
        return [ok("outputs", "the batch system chooses the files")]
    import datetime

    path = Path.cwd() / stamp(log, datetime.datetime.now())
    folder = next(one for one in path.parents if one.exists())
    if os.access(folder, os.W_OK | os.X_OK):
        return [ok("outputs", f"in {path.parent}")]
    fix = "Set worker.log_file to a directory that you may write to."
    return [fail("outputs", f"{folder} cannot be written to", fix)]
