"""The directory in which programs start: that of their mission, on its host and on others.

It is the one in which the mission or the worker began. Code of a task may change that of its
process (`os.chdir`), and must not move the programs of other tasks.
"""

from __future__ import annotations

import os


def directory_at_start() -> str:
    """Return the path of the current directory, for programs from now on; empty if it is gone."""
    paths, _ = current_directory()
    return paths[0] if paths else ""


def current_directory() -> tuple[tuple[str, ...], int]:
    """Return the paths of the current directory and its inode; none if it was removed.

    The path that the shell has in ``$PWD`` comes first: it may lead through a link that every host
    has, to a place that is mounted elsewhere on each.
    """
    try:
        real = os.getcwd()  # noqa: PTH109
        inode = os.stat(real).st_ino  # noqa: PTH116
    except OSError:
        return (), 0
    named = os.environ.get("PWD", "")
    if named != real and named.startswith("/") and find_directory((named,), inode)[0]:
        return (named, real), inode
    return (real,), inode


def find_directory(paths: tuple[str, ...], inode: int) -> tuple[str, str]:
    """Return the first of these paths that leads to the directory of this inode number here.

    On a file system that hosts share, a directory has the same inode number on all of them; on
    disks of their own, directories of one path nearly never do.

    Returns:
        The path, and ""; or "", and why no path leads there.
    """
    why = ""
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError as error:
            why = why or error.strerror or str(error)
            continue
        if status.st_ino != inode:
            why = "another directory has that path"
        elif not os.access(path, os.X_OK):
            why = "no permission to enter it"
        else:
            return path, ""
    return "", why
