"""The sorts of workers of a configuration, and the choice of one by its name. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from grain.cli.scaling.configured import with_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grain.config import Config, Shape


def shape_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-s SHAPE``."""
    return click.option(
        "-s", "--shape", "shape", metavar="SHAPE",
        help="The sort of worker: the name of a [[shape]] of the configuration, or its beginning.",
    )(function)  # fmt: skip


def shaped(config: Config, word: str | None) -> Config:
    """Return the configuration of one sort of worker.

    Args:
        word: the name of the sort, or the beginning of only one name; None where there is no more
            than one.

    Raises:
        click.ClickException: there is no such sort, or several go by that word.
    """
    if word is None and not config.shape:
        return config
    return with_shape(config, _chosen(config, word))


def _chosen(config: Config, word: str | None) -> Shape:
    shapes = config.shape
    file = config.source or "the configuration"
    if not shapes:
        raise click.ClickException(
            f"there is no shape {word!r}, as {file} has no [[shape]]; leave out -s {word}"
        )
    names = ", ".join(shape.name for shape in shapes)
    if word is None:
        if len(shapes) == 1:
            return shapes[0]
        raise click.ClickException(
            f"{file} has {len(shapes)} shapes of workers, {names}; name one, as in -s "
            f"{shapes[0].name}"
        )
    exact = [shape for shape in shapes if shape.name == word]
    matches = exact or [shape for shape in shapes if word and shape.name.startswith(word)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        which = ", ".join(shape.name for shape in matches)
        raise click.ClickException(
            f"{word!r} may be each of the shapes {which}; write the name out"
        )
    raise click.ClickException(
        f"there is no shape {word!r}; {file} has {names}{_meant(word, shapes)}"
    )


def _meant(word: str, shapes: Iterable[Shape]) -> str:
    # Only a mistake needs it, and it is not cheap to import.
    from difflib import get_close_matches

    close = get_close_matches(word.lower(), [shape.name for shape in shapes], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
