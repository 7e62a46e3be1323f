"""Installed packages: the version, the commands of others, libraries that may be missing.

A command of another package is an entry point in the group ``grain.commands``, which names a
`click.Command`. `load` imports it to run the command; `lines` reads only the names. `library`
imports what one command needs and grain-cli does not install by itself.

The version is found without `importlib.metadata`, which takes a third of the start-up time of the
whole command, for its parsers of mail and zip. The name of a directory suffices: installers put
``NAME-VERSION.dist-info`` beside the package (the specification "Recording installed projects").
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint

GROUP = "grain.commands"
_PREFIX, _SUFFIX = "grain_cli-", ".dist-info"


class Elsewhere(NamedTuple):
    """A command of another package of Grain: the package, and its line in the list of commands."""

    package: str
    help: str


# Listed without being imported; also where they are not installed, as users would miss them.
ELSEWHERE = {
    "cache": Elsewhere("grain-delayed", "List, explain and clear the results that missions keep."),
    "map": Elsewhere("grain-delayed", "Run a command for each input, as jobs on workers."),
    "whatif": Elsewhere("grain-head", "Replay a mission with other workers, requests or limits."),
}


def lines() -> dict[str, str]:
    """Return the line of `--help` for each command of another package."""
    points = _entry_points()
    listed = {name: f"(of {_package(one)})" for name, one in points.items()}
    for name, elsewhere in ELSEWHERE.items():
        missing = "" if name in points else f" (pip install {elsewhere.package})"
        listed[name] = elsewhere.help + missing
    return listed


def load(name: str) -> click.Command | None:
    """Load the command of another package; return None if no package has it.

    Raises:
        click.ClickException: the command cannot be imported, is no `click.Command`, or belongs to a
            package of Grain that is not installed.
    """
    point = _entry_points().get(name)
    if point is None:
        if name not in ELSEWHERE:
            return None
        raise click.ClickException(
            f"`grain {name}` is part of {_to_install(ELSEWHERE[name].package)}"
        )
    try:
        command = point.load()
    # No error of a package's import may end in a traceback.
    except Exception as error:
        raise click.ClickException(
            f"`grain {name}` cannot be loaded from {_package(point)} ({point.value}): "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(command, click.Command):
        raise click.ClickException(
            f"`grain {name}` cannot be loaded from {_package(point)}: {point.value} is not a "
            f"click.Command but {type(command).__name__}"
        )
    return command


def library(name: str, *, user: str, install: str, instead: str) -> Any:
    """Import a library that grain-cli does not install by itself.

    Args:
        instead: the beginning of a sentence on what works without it.

    Raises:
        click.UsageError: it cannot be imported.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise click.UsageError(
            f"{user} needs {name}, which cannot be imported here ({error}): "
            f"pip install {install}; or {instead}"
        ) from None


def _to_install(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"a later {package} than {version(package)}: pip install -U {package}"
    except PackageNotFoundError:
        return f"{package}, which is not installed here: pip install {package}"


def _entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    # Sorted: where two packages have a command of one name, the choice must not depend on the path.
    points = sorted(entry_points(group=GROUP), key=lambda one: (_package(one), one.value))
    return {point.name: point for point in reversed(points)}


def _package(point: EntryPoint) -> str:
    # An entry point that was made by hand, as in tests, has no distribution.
    return point.dist.name if point.dist is not None else point.value.partition(":")[0]


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
