"""``grain up``: submit workers."""

from __future__ import annotations

import datetime
import os
import shutil
import sys
import time
from pathlib import Path

import click

from grain.cli.plugin import chosen_config, told


@click.command()
@click.option(
    "-n", "count", default=1, show_default=True, metavar="N",
    type=click.IntRange(1, 100_000), help="How many workers.",
)  # fmt: skip
@click.option("--dry", is_flag=True, help="Print the script and submit nothing.")
@click.option("-c", "--config", "config_file", metavar="FILE", help="Configuration to use.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def up(
    ctx: click.Context, count: int, dry: bool, config_file: str | None, options: tuple[str, ...]
) -> None:
    """Submit workers, one per node.

    What follows `--` is for the batch system, as in: grain up -n 2 -- --exclusive
    """
    if options and not options[0].startswith("-"):
        raise click.UsageError(
            f"{options[0]!r} is no option for the batch system; did you mean -n {options[0]}?"
            if options[0].isdecimal()
            else f"{options[0]!r} is no option for the batch system"
        )
    with told():
        submit_workers(config_file or chosen_config(ctx), count, dry=dry, options=options)


def submit_workers(
    config_file: str | None, count: int, *, dry: bool, options: tuple[str, ...]
) -> None:
    """Print the script, or submit it and record the jobs.

    Raises:
        ConfigError: The configuration is wrong.
        BatchError: The batch system refuses; jobs accepted before are recorded and printed.
        OSError: A directory or a record cannot be made.
    """
    from grain.cli.batch import Record, Records, open_system, state_folder, worker_job
    from grain.config import load

    config = load(config_file)
    now = datetime.datetime.now()
    system = open_system(config, now=now)
    job = worker_job(
        config,
        now=now,
        folder=str(Path.cwd()),
        path=worker_folder(),
        extra_args=options,
        most_memory=memory_share(count) if config.system == "local" and count > 1 else None,
    )
    script = system.script(job, count)
    if dry:
        click.echo(script, nl=False)
        return
    make_parent(job.log_file)
    records = Records(state_folder() / "jobs")
    # Before anything is submitted: a job that cannot be recorded would be nobody's.
    file = records.new_file()
    try:
        for one in system.submit(job, count):
            record = Record(
                id=one.id,
                system=config.system,
                name=one.name,
                log_file=one.log_file,
                address=config.worker.dial,
                config=config.source or "",
                submitted=time.time(),
                cpus=one.cpus,
            )
            click.echo(f"{one.name} is {_job(one.id, config.system)}, output in {one.log_file}")
            records.add(file, record)
    finally:
        if not file.stat().st_size:
            file.unlink()


def _job(job_id: str, system: str) -> str:
    return f"process {job_id.split(':')[-2]}" if system == "local" else f"job {job_id}"


def worker_folder() -> str:
    """Where ``grain-worker`` is here, to be looked for there if PATH has none on the node."""
    beside = Path(sys.executable).parent / "grain-worker"
    found = str(beside) if beside.exists() else shutil.which("grain-worker")
    return str(Path(found).parent) if found else ""


def memory_share(count: int) -> float:
    """An equal share of this machine's memory, in GB."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9 / count


def make_parent(log_file: str) -> None:
    """Make the directory of a log file: Slurm accepts a job without it, which then fails silently.

    A part of the path that the batch system fills in cannot be made here.
    """
    if log_file:
        parents = [parent for parent in Path(log_file).parents if "%" not in str(parent)]
        parents[0].mkdir(parents=True, exist_ok=True)
