"""What the user can change ends a command with a message and exit code 1, never a traceback."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Turn errors of configuration, batch system and files into click's."""
    # Help and completion need neither.
    from grain.cli.batch import BatchError
    from grain.config import ConfigError

    try:
        yield
    except (ConfigError, BatchError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{name}{error.strerror or error}") from None
