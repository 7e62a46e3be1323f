"""The sorts of workers of a configuration, and the choice of one by its name. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grain.config import Config, Shape

# Slurm: --gres=gpu:2, --gres=gpu:a100:2, --gpus=2, --gpus-per-node=a100:2, -G 2. PBS: ngpus=2, and
# Torque's gpus=2. LSF: -gpu "num=2". HTCondor: request_gpus = 2. Flux: -g 2, --gpus-per-slot=2.
_GPUS = (
    re.compile(r"(?:^|[\s,=])(?:gres/)?gpu(?::[A-Za-z][\w.-]*)?[:=](\d+)"),
    re.compile(r"gpus(?:-per-(?:node|slot|task))?\s*[= ]\s*(?:[A-Za-z][\w.-]*:)?(\d+)"),
    re.compile(r"^-gpu\s.*?num=(\d+)"),
    re.compile(r"^-[gG]\s*(?:[A-Za-z][\w.-]*:)?(\d+)$"),
)
_ONE_GPU = re.compile(r"gres=(?:.*,)?gpu(?:$|[:,])")


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


def with_shape(config: Config, shape: Shape) -> Config:
    """Return the configuration in which workers are those of a shape."""
    from msgspec.structs import replace

    return replace(config, worker=replace(config.worker, script=shape, res=shape.res))


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


def avoiding(system: str, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Return options for a batch system to stay away from nodes; none where it has no such option.

    >>> avoiding("slurm", ("n1", "n2"))
    ('--exclude=n1,n2',)
    """
    if not nodes:
        return ()
    match system:
        case "slurm":
            return (f"--exclude={','.join(nodes)}",)
        case "flux":
            return (f"--requires=-host:{','.join(nodes)}",)
        case "sge":
            return ("-l", f"h=!({'|'.join(nodes)})")
        case "lsf":
            hosts = " && ".join(f"hname!='{node}'" for node in nodes)
            return ("-R", f"select[{hosts}]")
    return ()


def gpus_asked(extra_args: Iterable[str]) -> int:
    """Return the number of GPUs that options for a batch system ask for.

    >>> gpus_asked(["--account=chem", "--gres=gpu:a100:2"])
    2
    """
    for arg in extra_args:
        for pattern in _GPUS:
            if match := pattern.search(arg):
                return int(match[1])
        if _ONE_GPU.search(arg):
            return 1
    return 0
