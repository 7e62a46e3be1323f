"""``grain slurm``: the directory of commands that speak Slurm, and ``grain slurm doctor``."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

import click

from grain.cli.plugin import report_errors
from grain.cli.show import clean
from grain.cli.streams import elsewhere
from grain.files.whole import FULL

if TYPE_CHECKING:
    from pathlib import Path


@click.group(invoke_without_command=True)
@click.pass_context
def slurm(ctx: click.Context) -> None:
    """Print the directory of commands that look like Slurm's.

    Tools and scripts for Slurm find sbatch, squeue and others there, which speak to the queue of
    Grain. They are made by this command; give it again after you have moved or updated Grain.

    \b
    Examples:
      export PATH="$(grain slurm):$PATH"
      grain slurm doctor
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    if ctx.invoked_subcommand is not None:
        return
    with report_errors():
        folder = _made()
    click.echo(folder)
    click.echo(
        "Put it on PATH, before the directory of another Slurm. For login shells, which many tools "
        "use, add this line to ~/.bash_profile:\n"
        f"  {clean(path_line(folder))}",
        err=True,
    )


@slurm.command()
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Try what tools do: find the commands, in login shells too, and call them.

    The exit status is 1 if something is wrong.

    \b
    Examples:
      grain slurm doctor
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.cli.slurm.setup.trying import findings

    with report_errors():
        found = findings(_made(), os.environ)
    for one in found:
        click.echo(f"{'ok    ' if one.good else 'wrong '} {clean(one.text)}")
        if one.remedy:
            click.echo(f"       {clean(one.remedy)}")
    ctx.exit(0 if all(one.good for one in found) else 1)


def path_line(folder: Path) -> str:
    """Return the line that puts a directory on PATH, for a shell."""
    return f'export PATH={shlex.quote(str(folder))}:"$PATH"'


def _made() -> Path:
    """Make the commands, and return their directory.

    Raises:
        click.ClickException: they cannot be made.
    """
    from grain.cli.slurm.setup.folder import commands_folder, make_commands

    if not sys.executable:
        raise click.ClickException("Python does not know the path of its own program")
    folder = commands_folder()
    try:
        make_commands(folder)
    except OSError as error:
        raise click.ClickException(
            f"{folder} cannot be made: {error.strerror}; "
            + elsewhere("set XDG_STATE_HOME", full=error.errno in FULL)
        ) from None
    return folder
