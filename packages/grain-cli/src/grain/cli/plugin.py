"""The helpers of commands, for those of other packages too.

A package adds a command to `grain` by an entry point in the group ``grain.commands`` with the
command's name::

    [project.entry-points."grain.commands"]
    hello = "mypackage.commands:hello"

    @click.command()
    @click.pass_context
    def hello(ctx):
        '''Say where the scheduler is.'''
        with report_errors():
            print(load(chosen_config(ctx)).head.listen)

`grain` imports the module only when a user types the command.
"""

from __future__ import annotations

import contextlib
from typing import IO, TYPE_CHECKING, Any

import click

from grain.cli.show import clean as clean
from grain.cli.show import print_json as print_json
from grain.cli.show import table as table

if TYPE_CHECKING:
    from collections.abc import Iterator


def chosen_config(ctx: click.Context) -> str | None:
    """Return the file of ``grain -c FILE``, for `grain.config.load`; None without ``-c``."""
    chosen = ctx.find_root().obj
    return chosen if isinstance(chosen, str) else None


class Interrupted(click.ClickException):
    """A command that Ctrl-C has ended; the message says what goes on, and what ends that."""

    exit_code = 130

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message, below the line in which the terminal shows ``^C``."""
        click.echo(f"\n{self.format_message()}", file, err=True)


@contextlib.contextmanager
def report_errors() -> Iterator[None]:
    """End the command with a message and exit code 1 on errors that users can fix.

    These are errors of the configuration, the scheduler, the batch system, event logs and files.
    Others pass.
    """
    try:
        yield
    except (BrokenPipeError, click.ClickException):
        raise  # click ends quietly for a reader that has gone
    except OSError as error:
        from grain.cli.streams import file_trouble

        raise click.ClickException(clean(file_trouble(error))) from None
    except Exception as error:
        # A command that succeeds needs none of these imports.
        from grain.cli.batch import BatchError
        from grain.cli.query import NoScheduler
        from grain.config import ConfigError
        from grain.edge.errors import EdgeError
        from grain.eventlog.errors import LogError

        if isinstance(error, ConfigError | BatchError | EdgeError | LogError | NoScheduler):
            raise click.ClickException(clean(error, keep="\n\t")) from None
        raise
