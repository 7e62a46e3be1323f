"""Commands of other packages: their entry points in the group ``grain.commands``.

An entry point names a `click.Command`. It is loaded when its command is wanted; listing the
commands reads names only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "grain.commands"

# What people look for in vain if they have installed nothing but this package.
ELSEWHERE = {"cache": "grain-delayed", "map": "grain-delayed"}


def lines() -> dict[str, str]:
    """What `--help` says of each."""
    missing = {name: f"(pip install {package})" for name, package in ELSEWHERE.items()}
    return {**missing, **{name: f"(of {_package(one)})" for name, one in _found().items()}}


def load(name: str) -> click.Command | None:
    """The command of another package; None if nobody has it.

    Raises:
        click.ClickException: It cannot be imported, is no command, or its package is known but
            not installed.
    """
    point = _found().get(name)
    if point is None:
        if name not in ELSEWHERE:
            return None
        raise click.ClickException(f"`grain {name}` is part of {_to_install(ELSEWHERE[name])}")
    try:
        found = point.load()
    # Whatever a package does when it is imported must not end in a traceback.
    except Exception as error:
        raise click.ClickException(
            f"`grain {name}` cannot be loaded from {_package(point)} ({point.value}): "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, click.Command):
        raise click.ClickException(
            f"`grain {name}` cannot be loaded from {_package(point)}: {point.value} is no "
            f"click.Command but {type(found).__name__}"
        )
    return found


def _to_install(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"a later {package} than {version(package)}: pip install -U {package}"
    except PackageNotFoundError:
        return f"{package}, which is not installed here: pip install {package}"


def _found() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    # Where two packages have one of a name, it is the same one whatever the order of the path.
    points = sorted(entry_points(group=GROUP), key=lambda one: (_package(one), one.value))
    return {point.name: point for point in reversed(points)}


def _package(point: EntryPoint) -> str:
    # An entry point that was made by hand, as in tests, has no distribution.
    return point.dist.name if point.dist is not None else point.value.partition(":")[0]
