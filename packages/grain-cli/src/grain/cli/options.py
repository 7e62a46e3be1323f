"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.config import Config

_BRIDGE = 2.0  # seconds in which the server of a bridge is to answer

F = TypeVar("F", bound="Callable[..., Any]")


def config_option(function: F) -> F:
    """Add ``-c FILE``, which may stand before the command as well."""
    return click.option(
        "-c", "--config", "config_file", metavar="FILE", type=click.Path(),
        help="Configuration to use.",
    )(function)  # fmt: skip


def json_option(function: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        function
    )


def patience_option(function: F) -> F:
    """Add ``--patience SECONDS``."""
    return click.option(
        "--patience", default=2.0, show_default=True, metavar="SECONDS",
        type=click.FloatRange(0.1, 3600), help="How long to look for the scheduler.",
    )(function)  # fmt: skip


def source_text(config: Config) -> str:
    """Name the file of a configuration, as the end of a sentence."""
    from grain.cli.show import clean

    return f"the configuration is {clean(config.source)}" if config.source else "no configuration"


def load_config(ctx: click.Context, config_file: str | None) -> Config:
    """Load the configuration that ``-c`` chose, after the command or before it.

    Raises:
        grain.config.ConfigError: the configuration is wrong.
    """
    from grain.cli.plugin import chosen_config
    from grain.config import load

    return load(config_file or chosen_config(ctx))


def check_bridges(*addresses: str) -> None:
    """Check keys and servers of bridges, before a process starts that uses them out of sight.

    A server that does not answer is not a reason to start nothing: it may come later.

    Raises:
        grain.edge.errors.EdgeError: a key cannot be read, is none, or others may read it; or a
            server is of another version, or is none.
    """
    for address in dict.fromkeys(addresses):
        if address.startswith("bridge://"):
            import trio

            from grain.edge import check_bridge  # takes TLS, which others do without

            trio.run(check_bridge, address, _BRIDGE)
