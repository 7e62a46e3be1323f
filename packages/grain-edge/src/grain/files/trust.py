"""The places that Grain takes code from, or writes to, although other users may write there.

Python searches the working directory first for a process that is started by ``python -m``: there, a
file ``socket.py`` of another user would run as this one. Grain's own processes start without it
(``-P``); processes that load a user's modules search it last, where it is trusted. A log or a
script in a directory of others is opened so that a link of theirs is not written through.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LINKS = 40  # on the way to a directory, as many as Linux follows

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
            f"set PYTHONPATH={shlex.quote(str(folder))} where the worker is started"
        )
    sys.path.append(str(folder))
    return ""


def mistrust(place: Path, status: os.stat_result) -> str:
    """Return why a file or a directory may be another user's work; "" if it is ours or root's."""
    if status.st_uid not in {0, os.geteuid()}:
        return f"{place} belongs to {_user(status.st_uid)}"
    if status.st_mode & stat.S_IWOTH:
        return f"every user may write to {place}"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid):
        return f"the group {_group(status.st_gid)} may write to {place}"
    return ""


def file_at(path: Path) -> tuple[int, int] | str | None:
    """Return the identity of a file that several names may lead to, by links of either sort.

    Returns:
        Its device and inode; if it is not there yet, its path without links; None if it is not a
        regular file, as /dev/null, to which many may write.
    """
    try:
        status = path.stat()
    except OSError:
        return os.path.realpath(path)
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def make_folder(path: Path) -> None:
    """Make a directory for files of Grain, and missing ones above it, only for this user.

    Also those above: who may write there could put another one in its place. It is what the XDG
    Base Directory Specification asks for, too.

    Raises:
        OSError: it cannot be made.
    """
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(path)) from error


def private_folder(path: Path) -> None:
    """Make a directory as `make_folder` does, and check that it stays ours.

    Grain removes files there, and runs or reports what it finds. Another user who can write to
    it, or replace a directory above it, could make Grain remove this user's own files. So every
    directory and link on the way must belong to this user or root, and only they may write
    there. Directories with the sticky bit, such as /tmp, are fine.

    Raises:
        OSError: it cannot be made, or another user could exchange it; the text says where.
    """
    make_folder(path)
    check_private(path)


def check_private(path: Path) -> None:
    """Check that a directory is ours as `private_folder` has it, before anything in it is believed.

    What another user has written there could have us end processes, or wait at a named pipe.

    Raises:
        FileNotFoundError: there is none.
        OSError: another user could exchange it; the text says where.
    """
    path.stat()
    for place, status in _way_to(path):
        sticky = status.st_mode & stat.S_ISVTX and status.st_uid in {0, os.geteuid()}
        problem = "" if sticky or stat.S_ISLNK(status.st_mode) else mistrust(place, status)
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in {0, os.geteuid()}:
            problem = f"{place} is a link of {_user(status.st_uid)}"
        if problem:
            raise PermissionError(
                errno.EPERM, f"{problem}, and so could put something else in its place", str(path)
            )
    problem = mistrust(path, status := path.stat())
    if problem or status.st_uid != os.geteuid():
        problem = problem or f"{path} belongs to {_user(status.st_uid)}"
        raise PermissionError(errno.EPERM, f"{problem}, and only you may have access", str(path))


def _way_to(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield each directory above a path, and each link on the way to it, with its status."""
    left = list(reversed(path.absolute().parts[1:]))
    place, links = Path("/"), 0
    yield place, place.lstat()
    while left:
        part = left.pop()
        place = place.parent if part == ".." else place / part
        status = place.lstat()
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            yield place, status
            target = place.readlink()
            left += reversed(target.parts[target.is_absolute() :])
            place = Path("/") if target.is_absolute() else place.parent
        elif left:
            yield place, status


def remove_files(folder: Path, wanted: Callable[[str, os.stat_result], bool]) -> None:
    """Remove plain files of a directory that is ours, by descriptor and through no link.

    Args:
        folder: the directory; nothing is removed where it is a link or another user's.
        wanted: returns True for the name and the status of a file that goes. It has to know the
            names that Grain gives to its files: others are none of its business.

    Raises:
        OSError: the directory cannot be read.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            return
        for name in os.listdir(fd):
            with suppress(OSError):  # as where another process removes it at this moment
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
                if ours and wanted(name, status):
                    os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)


def open_appended(path: str) -> int:
    """Open a file to append to, readable only by its owner if it is new; return its descriptor.

    In a directory where others may write it is a plain file of this user with one name: a link of
    another user could make us write to a file of our own.

    Raises:
        OSError: it cannot be opened, or another user may have put it there.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    parent = Path(path).parent
    problem = mistrust(parent, parent.stat()) if parent.exists() else ""
    if not problem:
        return os.open(path, flags, 0o600)
    planted = PermissionError(
        errno.EPERM,
        f"another user may have put it there, as {problem}: remove it, or choose a directory of "
        "your own",
        path,
    )
    try:
        # Non-blocking, as a named pipe would otherwise block the open without end.
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise planted from error
        raise
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink > 1:
        os.close(fd)
        raise planted
    return fd


def open_output(path: str, flags: int) -> int:
    """Open a file that users name for writing, and return its descriptor.

    A link there is followed, as a shell does, unless another user has made it: where others may
    write they could lead us to a file of our own.

    Args:
        path: the file; it gets the mode that the umask leaves of 0666.
        flags: of open(2); a child never inherits the file.

    Raises:
        PermissionError: another user has made the link.
        OSError: it cannot be opened.
    """
    flags |= os.O_CLOEXEC
    place = path
    for _ in range(_LINKS):
        try:
            return os.open(place, flags | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        # By a descriptor, so that the link whose owner is looked at is the one that is followed.
        link = os.open(place, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            owner = os.fstat(link).st_uid
            if owner not in {0, os.geteuid()}:
                raise PermissionError(
                    errno.EPERM,
                    f"{place} is a link of {_user(owner)}, and could lead to a file of yours: "
                    "remove it, or choose another name",
                    path,
                )
            if place.startswith("/proc/"):  # whose links, as of an open file, have no path
                return os.open(place, flags, 0o666)
            target = os.fsdecode(os.readlink(b"", dir_fd=link))
            place = str(Path(place).parent / target)
        finally:
            os.close(link)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _is_private(gid: int) -> bool:
    """Return True for a group that has only this user.

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
