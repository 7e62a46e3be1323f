"""The group that all commands join."""

from __future__ import annotations

import importlib

import click

# Each command is imported when it is wanted: what one of them needs must not slow down the others.
_COMMANDS = {"up": "grain.cli._up"}


class Lazy(click.Group):
    """A group whose commands are functions of the same name, each in a module of its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands."""
        return sorted({*super().list_commands(ctx), *_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command, imported now."""
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        found = getattr(importlib.import_module(_COMMANDS[cmd_name]), cmd_name)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="grain-cli", prog_name="grain", message="%(prog)s %(version)s")
@click.option("-c", "--config", "config_file", metavar="FILE", help="Configuration to use.")
@click.pass_context
def main(ctx: click.Context, config_file: str | None) -> None:
    """Grain: a resource-aware scheduler for parallel external computing on clusters."""
    ctx.obj = config_file
