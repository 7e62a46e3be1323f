"""``grain start``: the mission itself as a job."""

from __future__ import annotations

from functools import partial

import click

from grain.cli.options import check_bridges, config_option, json_option, load_config
from grain.cli.plugin import report_errors
from grain.cli.show import print_json
from grain.cli.streams import announced
from grain.cli.workers.up import refuse_words


@click.command()
@click.option("--local", is_flag=True, help="As a process of this machine that outlives the shell.")
@click.option("--dry", is_flag=True, help="Print the script and submit nothing.")
@json_option
@config_option
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def start(
    ctx: click.Context,
    local: bool,
    dry: bool,
    as_json: bool,
    config_file: str | None,
    options: tuple[str, ...],
) -> None:
    """Submit the mission itself as a job.

    Its command is head.cmd of the configuration; what it asks for is in [head.script]. What
    follows `--` is for the batch system.

    \b
    Examples:
      grain start --dry
      grain start --local             outlives the shell, on this machine
      grain start -- --qos=long
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    refuse_words(options)
    with report_errors():
        import datetime
        from pathlib import Path

        import msgspec

        from grain.cli.batch import is_mark, mission_job, open_local, open_system
        from grain.cli.workers.submission import job_words, make_parent, recorded

        config = load_config(ctx, config_file)
        now = datetime.datetime.now()
        job = mission_job(config, now=now, folder=str(Path.cwd()), extra_args=options)
        here = local or config.system == "local"
        system = open_local() if here else open_system(config, now=now)
        if dry:
            click.echo(system.script(job, 1), nl=False)
            return
        check_bridges(config.head.listen, config.worker.dial)
        make_parent(job.log_file)
        if here:
            if options:
                raise click.UsageError("processes on this machine take no further options")
            config = msgspec.structs.replace(config, system="local")
            started = recorded(config, lambda: [open_local().start(job)], [job], kind="mission")
        else:
            started = recorded(config, lambda: system.submit(job, 1), [job], kind="mission")
        for record in started:
            if is_mark(record.id):
                continue  # the error that follows says so
            if as_json:
                said = {"id": record.id, "name": record.name, "log_file": record.log_file}
                announce = partial(print_json, said)
            else:
                where = f", output in {record.log_file}" if record.log_file else ""
                announce = partial(click.echo, f"{record.name} is {job_words(record)}{where}")
            if not announced(f"Error: {job_words(record)}", announce):
                raise SystemExit(1)
