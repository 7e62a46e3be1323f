"""The names of logs: where their folders are, and how these and the files in them are called.

A log is a folder ``<start as YYYYMMDD-HHMMSS, in UTC>-<name>-<id>``. The file ``events.jsonl`` in
it is the first part, ``events.1.jsonl`` the second: no file is ever renamed, so those who read a
part while the next one begins lose nothing.
"""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_PART = "events.jsonl"

_PART = re.compile(r"events(?:\.([1-9][0-9]{0,8}))?\.jsonl", re.ASCII)
_FOLDER = re.compile(r"([0-9]{8}-[0-9]{6})-(.+)-([^-]+)", re.DOTALL)
_STAMP = "%Y%m%d-%H%M%S"
_MOST_BYTES = 150  # of the name in the name of a folder: filesystems take 255 in all


class LogName(NamedTuple):
    """The name of a log's folder, in its parts.

    Attributes:
        name: the name of the mission, as `fit_name` returns it.
    """

    started: datetime.datetime
    name: str
    id: str


def state_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of Grain's files that outlive a process: ``$XDG_STATE_HOME/grain``."""
    # The XDG Base Directory Specification says to ignore a relative path.
    given = env.get("XDG_STATE_HOME", "")
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    base = Path(given) if given.startswith("/") else home / ".local" / "state"
    return base / "grain"


def logs_folder(
    folder: str = "",
    source: Literal["mission", "scheduler"] = "mission",
    env: Mapping[str, str] = os.environ,
) -> Path:
    """Return the folder that has the folders of all logs of missions, or of schedulers.

    Args:
        folder: ``head.event_log.folder`` of the configuration; empty for `state_folder`.

    Raises:
        RuntimeError: the user has no home directory.
    """
    return (Path(folder).absolute() if folder else state_folder(env)) / f"{source}s"


def folder_name(started: float, name: str, id: str) -> str:  # noqa: A002 - its name
    """Return the name of the folder of a log.

    Args:
        started: Unix seconds.
        name: of the mission; what cannot stand in the name of a file is replaced.
    """
    stamp = datetime.datetime.fromtimestamp(started, datetime.timezone.utc).strftime(_STAMP)
    return f"{stamp}-{fit_name(name)}-{fit_name(id).replace('-', '_')}"


def fit_name(name: str) -> str:
    """Return a name as it stands in the name of a folder."""
    fit = "".join(c if c.isalnum() or c in "._+-" else "_" for c in name)
    # Half a character at the cut goes.
    return fit.encode()[:_MOST_BYTES].decode(errors="ignore") or "_"


def parse_folder(name: str) -> LogName | None:
    """Return the parts of the name of a log's folder; None if it is none."""
    match = _FOLDER.fullmatch(name)
    if match is None:
        return None
    try:
        started = datetime.datetime.strptime(match[1], _STAMP)
    except ValueError:  # as the 31st of February
        return None
    return LogName(started.replace(tzinfo=datetime.timezone.utc), match[2], match[3])


def part_name(number: int) -> str:
    """Return the name of the file of a part; the first has the number 0."""
    return f"events.{number}.jsonl" if number else FIRST_PART


def part_number(name: str) -> int | None:
    """Return the number of the part in a file; None if the file is not part of a log."""
    match = _PART.fullmatch(name)
    return None if match is None else int(match[1] or 0)
