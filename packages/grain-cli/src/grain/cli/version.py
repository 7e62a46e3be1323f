"""The version of the installed package, found without `importlib.metadata`.

`importlib.metadata` takes a third of the start-up time of the whole command, for its parsers of
mail and zip. The name of a directory suffices: installers put ``NAME-VERSION.dist-info`` beside the
package (the specification "Recording installed projects").
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

_PREFIX, _SUFFIX = "grain_cli-", ".dist-info"


def installed_version() -> str:
    """Return the version, as in "1.0.0"; "unknown" where the package is not installed."""
    number = named_version(sys.path)
    if number:
        return number
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("grain-cli")
    except PackageNotFoundError:
        return "unknown"


def named_version(folders: Iterable[str]) -> str:
    """Return the version in the first folder of a path that has one; "" if it is ambiguous."""
    for folder in folders:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue  # an archive, or no directory
        entries = [n for n in names if n.startswith(_PREFIX) and n.endswith(_SUFFIX)]
        if entries:
            # An interrupted update leaves two.
            return entries[0][len(_PREFIX) : -len(_SUFFIX)] if len(entries) == 1 else ""
    return ""


def show_version(ctx: click.Context, _: click.Parameter, wanted: Any) -> None:
    """Print the version and exit: the callback of ``--version``."""
    if wanted and not ctx.resilient_parsing:
        click.echo(f"grain {installed_version()}")
        ctx.exit()
