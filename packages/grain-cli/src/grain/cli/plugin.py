"""What a command needs, those of other packages too.

A package adds a command to `grain` by an entry point in the group ``grain.commands``, of the
command's name::

    [project.entry-points."grain.commands"]
    hello = "mypackage.commands:hello"

    @click.command()
    @click.pass_context
    def hello(ctx):
        '''Say where the scheduler is.'''
        with report_errors():
            print(load(chosen_config(ctx)).head.listen)

It is imported only if it is typed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from grain.cli.show import clean as clean
from grain.cli.show import print_json as print_json
from grain.cli.show import table as table

if TYPE_CHECKING:
    from collections.abc import Iterator


def chosen_config(ctx: click.Context) -> str | None:
    """The file that ``grain -c FILE`` chose, for `grain.config.load`; None for the usual one."""
    found = ctx.find_root().obj
    return found if isinstance(found, str) else None


@contextlib.contextmanager
def report_errors() -> Iterator[None]:
    """What the user can change ends a command with a message and exit code 1, not a traceback.

    That is: errors of configuration, scheduler, batch system and files. Others pass.
    """
    # Help and completion need none of them.
    from grain.cli.batch import BatchError
    from grain.cli.query import NoScheduler
    from grain.config import ConfigError

    try:
        yield
    except (ConfigError, BatchError, NoScheduler) as error:
        raise click.ClickException(clean(error, keep="\n\t")) from None
    except BrokenPipeError:
        raise  # click ends quietly then
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{name}{error.strerror or error}") from None
