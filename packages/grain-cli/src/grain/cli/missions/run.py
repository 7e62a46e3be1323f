"""``grain run``: run a program as a mission."""

from __future__ import annotations

import os
from pathlib import Path

import click

from grain.cli.options import config_option
from grain.cli.plugin import chosen_config, report_errors


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("-d", "--detach", is_flag=True, help="Go on when the user logs out.")
@click.option("--name", metavar="NAME", help="Name of the mission.  [default: that of the program]")
@config_option
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="PROGRAM [ARGS]...")
@click.pass_context
def run(
    ctx: click.Context,
    detach: bool,
    name: str | None,
    config_file: str | None,
    program: tuple[str, ...],
) -> None:
    """Run a program as a mission.

    PROGRAM is a Python program such as opt.py, or any other that runs missions. With -d it goes on
    when you log out, and its output goes to a file. `grain missions` lists what was started so.

    \b
    Examples:
      grain run opt.py *.xyz
      grain run -d --name night opt.py *.xyz
      grain attach night              its output, until Ctrl-C
      grain resume night              again, after its host went down
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    if not program:
        raise click.UsageError("name a program, as in: grain run opt.py")
    with report_errors():
        from grain.cli.missions.starting import begin, described

        config = config_file or chosen_config(ctx)
        env = dict(os.environ)
        if config is not None:
            config = str(Path(config).absolute())
            if not Path(config).is_file():
                raise click.ClickException(f"there is no configuration {config}")
            env["GRAIN_CONFIG"] = config
        start = described(
            program,
            name=name,
            directory=str(Path.cwd()),
            env=env,
            detached=detach,
            config=config or "",
        )
        ctx.exit(begin(start, env, otherwise="--name gives this one another name"))
