"""The search for a configuration, and the check that no other user could have put one there.

A configuration is code: its ``setup_cleanup`` runs in jobs, its context module in workers. A file
that a user names is the user's choice; a file that is found counts only where no other user can
write. The same holds for the context module of a file that was found.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NAME = "grain.toml"
"""The name of a configuration that is looked for."""


def find(start: Path, home: str) -> Path | None:
    """Return the nearest ``grain.toml`` of a directory and those above it; None if there is none.

    The search ends with the home directory, with the root of a git repository (it has a ``.git``),
    and before a directory that is public, as ``/tmp`` is: there any user may put a file.

    Args:
        start: the directory to begin with, absolute; it is looked at even if it is public.
        home: the home directory; empty if there is none.
    """
    for folder in (start, *start.parents):
        if folder != start and _is_public(folder):
            return None
        path = folder / NAME
        # A link to nowhere counts: a user means it to be used.
        if os.path.lexists(path):
            return path
        if os.path.lexists(folder / ".git") or _is_same(folder, home):
            return None
    return None


def untrusted(path: Path) -> str:
    """Return why a file may be another user's work; "" if only we or root could have written it.

    The file and its directory have to belong to this user or to root, and no other user may write
    to them. For a link, this holds for both ends.

    Raises:
        OSError: the file cannot be looked at.
    """
    # Not before a file was found, as a command without one need not wait for this import.
    from grain.files.trust import mistrust

    real = path.resolve()
    for place in dict.fromkeys((path.parent, real.parent, real)):
        if problem := mistrust(place, place.stat()):
            return problem
    return ""


def _is_public(folder: Path) -> bool:
    """Return True for a directory such as /tmp, and for a directory that cannot be looked at."""
    try:
        return bool(folder.stat().st_mode & stat.S_ISVTX)
    except OSError:
        return True


def _is_same(folder: Path, home: str) -> bool:
    try:
        return bool(home) and folder.samefile(home)
    except OSError:
        return False
