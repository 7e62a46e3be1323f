"""The search for a configuration, and the check that nobody else could have put one there.

A configuration is code: its ``setup_cleanup`` runs in jobs, its context module in workers. One that
a user names is the user's choice; one that is found counts only where no other user can write. The
same holds for the context module of one that was found.
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
    and before a directory that is public, as ``/tmp`` is: there anybody may put a file.

    Args:
        start: The directory to begin with, absolute; it is looked at even if it is public.
        home: The home directory; empty if there is none.
    """
    for folder in (start, *start.parents):
        if folder != start and _is_public(folder):
            return None
        path = folder / NAME
        # A link to nowhere is there, so somebody means it to be used.
        if os.path.lexists(path):
            return path
        if os.path.lexists(folder / ".git") or _is_same(folder, home):
            return None
    return None


def untrusted(path: Path) -> str:
    """Return why a file may be another user's work; "" if it is ours or root's alone.

    The file and its directory have to belong to this user or to root, and nobody else may write to
    them; of a link, this holds for both ends.

    Raises:
        OSError: The file cannot be looked at.
    """
    real = path.resolve()
    for place in dict.fromkeys((path.parent, real.parent, real)):
        if problem := _problem(place, place.stat()):
            return problem
    return ""


def _problem(place: Path, status: os.stat_result) -> str:
    if status.st_uid not in {0, os.geteuid()}:
        return f"{place} belongs to {_user(status.st_uid)}"
    if status.st_mode & stat.S_IWOTH:
        return f"everybody may write to {place}"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid):
        return f"the group {_group(status.st_gid)} may write to {place}"
    return ""


def _is_public(folder: Path) -> bool:
    """Return True for a directory such as /tmp; also for one that cannot be looked at."""
    try:
        return bool(folder.stat().st_mode & stat.S_ISVTX)
    except OSError:
        return True


def _is_same(folder: Path, home: str) -> bool:
    try:
        return bool(home) and folder.samefile(home)
    except OSError:
        return False


def _is_private(gid: int) -> bool:
    """Return True for a group of this user alone.

    Many systems give each user a group of the same name, and make files that it may write to.
    """
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
