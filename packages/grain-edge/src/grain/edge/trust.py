"""The places from which Grain's processes take code: those where no other user can write.

Python searches the working directory first for a process that is started by ``python -m``: there, a
file ``socket.py`` of another user would run as this one. Grain's own processes start without it
(``-P``); those that load a user's modules search it last, where it is trusted.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

# Python 3.10 has no option for it. Nothing is imported before the working directory is off the path
# but `sys`, which is built in.
_WITHOUT_DIRECTORY = (
    "import sys; del sys.path[0], sys.argv[0]; import runpy; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def python_command(module: str) -> list[str]:
    """Return the start of a command line that runs a module by this interpreter.

    The process searches ``PYTHONPATH`` and what is installed, not its working directory.
    """
    if sys.version_info >= (3, 11):
        return [sys.executable, "-P", "-m", module]
    return [sys.executable, "-c", _WITHOUT_DIRECTORY, module]


def search_working_directory() -> str:
    """Search the working directory for modules, after all others, if it is trusted.

    Returns:
        Why it is not searched, as a sentence with a remedy; "" if it is.
    """
    try:
        folder = Path.cwd()
        problem = mistrust(folder, folder.stat())
    except OSError as error:
        return f"The working directory is not searched: {error.strerror}"
    if str(folder) in sys.path:
        return ""  # the user names it in PYTHONPATH
    if problem:
        return (
            f"The working directory is not searched, as {problem}. If that is as it should be, "
            f"set PYTHONPATH={folder} where the worker is started"
        )
    sys.path.append(str(folder))
    return ""


def mistrust(place: Path, status: os.stat_result) -> str:
    """Return why a file or a directory may be another user's work; "" if it is ours or root's.

    Args:
        place: its path, for the message.
        status: its status.
    """
    if status.st_uid not in {0, os.geteuid()}:
        return f"{place} belongs to {_user(status.st_uid)}"
    if status.st_mode & stat.S_IWOTH:
        return f"everybody may write to {place}"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid):
        return f"the group {_group(status.st_gid)} may write to {place}"
    return ""


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
