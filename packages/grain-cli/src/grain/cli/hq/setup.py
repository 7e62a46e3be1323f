"""``grain hq``: the directory of a command that looks like HyperQueue's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from grain.cli.plugin import report_errors
from grain.cli.show import clean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@click.command()
def hq() -> None:
    """Print the directory of a command that looks like HyperQueue's.

    Tools for HyperQueue find `hq` there, which speaks to the queue of Grain: it can submit, list,
    show and cancel jobs. It is made by this command; give it again after you have moved or updated
    Grain.

    \b
    Examples:
      grain hq
      export PATH="$(grain hq):$PATH"
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.eventlog.names import state_folder

    folder = state_folder() / "hq"
    with report_errors():
        make_command(folder)
    click.echo(clean(folder))


def make_command(folder: Path, env: Mapping[str, str] = os.environ) -> None:
    """Make the directory and the command; one that is there is replaced.

    Raises:
        OSError: it cannot be written, or another user could exchange it.
    """
    from grain.cli.slurm.setup.folder import script
    from grain.files.trust import private_folder
    from grain.files.whole import write_script

    private_folder(folder)
    home = env.get("XDG_STATE_HOME", "")
    write_script(folder / "hq", script("grain.cli.hq.__main__", state_home=home))
