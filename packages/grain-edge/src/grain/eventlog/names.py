"""The names of missions and of logs: labels, folders, and the files in them.

A label ``opt@2`` means the second mission called ``opt``, and stays so: a number is given once. An
empty file ``opt@2`` in the state directory says that it is given. It is made exclusively, which NFS
does as well, so that of several processes and hosts one gets it. The last file of a name stays;
earlier ones go after a while. So it does not matter whether the records and logs of a mission are
still there.

A log is a folder ``<start as YYYYMMDD-HHMMSS, in UTC>-<label>-<id>``, in which the label is the
name and the number of the mission, as in ``opt@2``. The file ``events.jsonl`` in
it is the first part, ``events.1.jsonl`` the second: no file is ever renamed, so those who read a
part while the next one begins lose nothing.
"""

from __future__ import annotations

import datetime
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grain.files.trust import make_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_PART = "events.jsonl"

_PART = r"(?a)events(?:\.([1-9][0-9]{0,8}))?\.jsonl"
_FOLDER = r"(?s)([0-9]{8}-[0-9]{6})-(.+?)(?:@([1-9][0-9]{0,8}))?-([^-]+)"
_STAMP = "%Y%m%d-%H%M%S"
_MOST_BYTES = 150  # of the name in the name of a folder: filesystems take 255 in all
_LABEL = r"(?s)(.+)@([1-9][0-9]{0,8})"
_UNUSED = ".unused"  # the end of the name of a file that says: no mission has this number yet
_KEPT = 86400.0
"""Seconds for which earlier files stay.

A process that has listed the folder before they go would take their numbers again: NFS shows
folders late, and a process may be stopped meanwhile.
"""


class LogName(NamedTuple):
    """The name of a log's folder, in its parts.

    Attributes:
        name: the name of the mission, as `fit_name` returns it.
        number: that of its label; 0 if it has none.
    """

    started: datetime.datetime
    name: str
    id: str
    number: int = 0


def home_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the user's home directory, absolute: ``HOME``, or else that of the password database.

    Raises:
        RuntimeError: there is none.
    """
    if (given := env.get("HOME", "")).startswith("/"):
        return Path(given)
    import pwd  # which is not needed elsewhere

    try:
        found = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        found = ""
    if not found.startswith("/"):
        raise RuntimeError(
            "there is no home directory: HOME is not set to one, and the password database has none"
        )
    return Path(found)


def with_home(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return variables in which ``HOME`` is the home directory; without it if there is none."""
    try:
        return {**env, "HOME": str(home_folder(env))}
    except RuntimeError:
        return {name: env[name] for name in env if name != "HOME"}


def state_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of Grain's files that outlive a process: ``$XDG_STATE_HOME/grain``.

    Raises:
        RuntimeError: the user has no home directory.
    """
    # The XDG Base Directory Specification says to ignore a relative path.
    given = env.get("XDG_STATE_HOME", "")
    base = Path(given) if given.startswith("/") else home_folder(env) / ".local" / "state"
    return base / "grain"


def logs_folder(folder: str = "", env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that has the folders of all logs.

    Args:
        folder: ``head.event_log.folder`` of the configuration; empty for `state_folder`.

    Raises:
        RuntimeError: the user has no home directory.
    """
    return (Path(folder).absolute() if folder else state_folder(env)) / "missions"


def folder_name(started: float, name: str, id: str, number: int = 0) -> str:  # noqa: A002
    """Return the name of the folder of a log.

    Args:
        started: Unix seconds.
        name: of the mission; what cannot stand in the name of a file is replaced.
        number: that of its label; 0 if it has none.
    """
    stamp = datetime.datetime.fromtimestamp(started, datetime.timezone.utc).strftime(_STAMP)
    return f"{stamp}-{label_of(fit_name(name), number)}-{fit_name(id).replace('-', '_')}"


def fit_name(name: str) -> str:
    """Return a name as it stands in the name of a folder."""
    fit = "".join(c if c.isalnum() or c in "._+-" else "_" for c in name)
    # Half a character at the cut goes.
    return fit.encode()[:_MOST_BYTES].decode(errors="ignore") or "_"


def parse_folder(name: str) -> LogName | None:
    """Return the parts of the name of a log's folder; None if it is none."""
    match = re.fullmatch(_FOLDER, name)
    if match is None:
        return None
    try:
        started = datetime.datetime.strptime(match[1], _STAMP)
    except ValueError:  # as the 31st of February
        return None
    utc = started.replace(tzinfo=datetime.timezone.utc)
    return LogName(utc, match[2], match[4], int(match[3] or 0))


def part_name(number: int) -> str:
    """Return the name of the file of a part; the first has the number 0."""
    return f"events.{number}.jsonl" if number else FIRST_PART


def part_number(name: str) -> int | None:
    """Return the number of the part in a file; None if the file is not part of a log."""
    match = re.fullmatch(_PART, name)
    return None if match is None else int(match[1] or 0)


def parse_label(text: str) -> tuple[str, int] | None:
    """Return the name and the number of a label; None if the text is none."""
    match = re.fullmatch(_LABEL, text)
    return None if match is None else (match[1], int(match[2]))


def label_of(name: str, number: int) -> str:
    """Return the label of a mission; its name if it has no number."""
    return f"{name}@{number}" if number else name


def take_number(name: str, *, folder: Path | None = None, unused: bool = False) -> int:
    """Return a number that no mission of a name has had.

    Args:
        name: of the mission.
        folder: that of the numbers; by default that of this user.
        unused: True if the mission begins later, and takes it by `use_number`.

    Raises:
        OSError: the folder cannot be written.
        RuntimeError: the user has no home directory.
    """
    folder = folder or state_folder() / "labels"
    make_folder(folder)
    fit = fit_name(name)
    labels = ((file, parse_label(file.removesuffix(_UNUSED))) for file in os.listdir(folder))
    earlier = [(label[1], file) for file, label in labels if label and label[0] == fit]
    number = last = max(earlier, default=(0, ""))[0]
    while True:
        number += 1
        with suppress(FileExistsError):
            _make(folder / label_of(fit, number))
            break
    if unused:
        _make(folder / f"{label_of(fit, number)}{_UNUSED}")
    for at, file in sorted(earlier):
        with suppress(OSError):  # another process removes it as well
            if at == last or time.time() - (folder / file).stat().st_mtime < _KEPT:
                break  # the others are younger
            (folder / file).unlink()
    return number


def use_number(name: str, given: str, *, folder: Path | None = None) -> int:
    """Return the number of a mission that begins; 0 if it can have none.

    Args:
        name: of the mission.
        given: the label by which its process was started, if it was. The first mission of that name
            in it has that number, each later one a new number.
        folder: as of `take_number`.
    """
    try:
        folder = folder or state_folder() / "labels"
        label = parse_label(given)
        if label is not None and label[0] == name:
            with suppress(FileNotFoundError):
                # Of several processes one can remove it.
                (folder / f"{label_of(fit_name(name), label[1])}{_UNUSED}").unlink()
                return label[1]
        return take_number(name, folder=folder)
    except (OSError, RuntimeError):
        return 0


def _make(file: Path) -> None:
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
