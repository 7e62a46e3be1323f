"""``grain map -d``: the same command once more, started by ``grain run -d``.

`grain.cli` is above this package, so its command is run as users run it. The copy has a variable in
its environment by which it knows itself, and `grain resume` sets another one.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Literal

import trio

from grain.files.trust import python_command
from grain.map import mission
from grain.map.errors import MapError
from grain.map.inputs.words import STDIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click

    from grain.map.plan import MapOptions

_MARK = "GRAIN_MAP_DETACHED"
_RESUMED = "GRAIN_RESUMED"


def is_detached() -> bool:
    """Return True in the process that ``grain run -d`` has started."""
    return os.environ.get(_MARK) == "1"


def resume_mode(
    resume: bool, resume_failed: bool, joblog: str | None
) -> Literal["no", "ended", "succeeded"]:
    """Return what is not run again, by the options ``--resume``, ``--resume-failed``, ``--joblog``.

    What `grain resume` has started goes on with its joblog.
    """
    if resume_failed:
        return "succeeded"
    resumed = is_detached() and os.environ.get(_RESUMED) == "1" and joblog is not None
    return "ended" if resume or resumed else "no"


def detach_if(
    wanted: bool,
    ctx: click.Context,
    plan: MapOptions,
    words: Sequence[str],
    *,
    name: str,
    config: str | None,
) -> None:
    """Start the command so that it outlives the terminal, and end this one; but not in the copy.

    Args:
        ctx: ends with the exit status of ``grain run``.

    Raises:
        MapError: its inputs come from standard input, which ends with the terminal; or there is a
            delimiter in the place of the program.
        grain.inputs.errors.InputsError: template and inputs do not go together.
        OSError: a file of inputs cannot be read.
    """
    if not wanted or is_detached():
        return
    first = plan.command[0] if plan.command else ""
    if re.fullmatch(r"[^\w\s]|\\.", first) and shutil.which(first) is None:
        word = shlex.quote(first)
        raise MapError(
            f"-d: there is no program {word}. -d lets the call go on when you log out; it takes "
            "no delimiter, as that of GNU parallel does: --colsep splits each input, and "
            f"`tr {word} '\\n'` makes lines of them before"
        )
    if STDIN in (source.file for source in plan.sources):
        raise MapError("-d: inputs on standard input end with the terminal; give a file, -a FILE")
    trio.run(mission.check, plan)  # here, where the user sees what is wrong
    grain = python_command("grain.cli")
    chosen = [] if config is None else ["-c", config]
    start = [*grain, *chosen, "run", "-d", "--name", name]
    done = subprocess.run(  # noqa: S603 - our own module
        [*start, "--", *grain, *chosen, "map", *words], env={**os.environ, _MARK: "1"}, check=False
    )
    ctx.exit(done.returncode)
