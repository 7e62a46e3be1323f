"""The version of the installed package, told quickly.

`importlib.metadata` needs a third of the time in which the whole command starts, for its parsers of
mail and zip. What is wanted is in the name of a directory: pip and others install a package with
``NAME-VERSION.dist-info`` beside it (the specification "Recording installed projects").
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
    """As in "1.0.0"; "unknown" where the code runs without being installed."""
    found = named_version(sys.path)
    if found:
        return found
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("grain-cli")
    except PackageNotFoundError:
        return "unknown"


def named_version(folders: Iterable[str]) -> str:
    """The version that the first folder of a search path has; empty if that is not clear."""
    for folder in folders:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue  # an archive, or nothing
        found = [n for n in names if n.startswith(_PREFIX) and n.endswith(_SUFFIX)]
        if found:
            # Two are left where an update was interrupted.
            return found[0][len(_PREFIX) : -len(_SUFFIX)] if len(found) == 1 else ""
    return ""


def show_version(ctx: click.Context, _: click.Parameter, wanted: Any) -> None:
    """What ``--version`` does."""
    if wanted and not ctx.resilient_parsing:
        click.echo(f"grain {installed_version()}")
        ctx.exit()
