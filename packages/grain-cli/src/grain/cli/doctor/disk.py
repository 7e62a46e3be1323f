"""Checks of ``grain doctor``: free space, locks, and if other hosts see this directory."""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.doctor.checks import CheckResult, fail, ok, warn
from grain.cli.streams import remedy
from grain.eventlog.names import home_folder
from grain.files.whole import FULL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.config import Config

LITTLE, LEAST = 1.0, 0.05
"""GB of free space: less than the first is a warning, less than the second a failure."""

FEW = 1000
"""Files for which there is room: fewer are a warning."""

_ELSEWHERE = "Set XDG_STATE_HOME, and paths in grain.toml, to directories that can be written to."

# Types of file systems that only one host sees. There are many, so unknown types count as shared.
_OF_ONE_HOST = frozenset(
    {"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)


class Mount(NamedTuple):
    """A file system in its place: the directory, its kind, and the device or server."""

    folder: str
    kind: str
    source: str

    @property
    def of_one_host(self) -> bool:
        """True if other hosts are known not to see it."""
        return self.kind in _OF_ONE_HOST


def space(config: Config) -> list[CheckResult]:
    """Check the free space of the directories in which Grain writes."""
    findings = [judge_space(name, folder) for name, folder in _folders(config)]
    troubles = [finding for finding in findings if finding.state != "ok"]
    if troubles:
        return troubles
    return [ok("disk space", ", ".join(finding.says for finding in findings))]


def _folders(config: Config) -> Iterable[tuple[str, Path]]:
    """Yield a word for each directory in which Grain writes, and the directory."""
    import datetime

    from grain.cli.batch import state_folder
    from grain.config import stamp

    # Another check reports a missing home directory.
    with suppress(RuntimeError):
        yield "home", home_folder()
        yield "records of jobs", state_folder()
    yield "scratch", Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - as programs choose it
    if config.worker.log_file:
        log = Path.cwd() / stamp(config.worker.log_file, datetime.datetime.now())
        yield "outputs", log.parent


def judge_space(name: str, folder: Path) -> CheckResult:
    """Check the free space of a directory, or of the one in which it will be made."""
    folder = next(one for one in (folder, *folder.parents) if one.exists())
    try:
        room = os.statvfs(folder)
    except OSError as error:
        return warn("disk space", f"{name} ({folder}): {error.strerror}")
    if problem := _unwritable(folder):
        return fail("disk space", f"{name} ({folder}) {problem}", _ELSEWHERE)
    free = room.f_bavail * room.f_frsize / 1e9
    text = f"{name} ({folder}) has {free:.1f} GB left"
    fix = "Remove files that you do not need, or have Grain write elsewhere."
    if free < LITTLE:
        return (fail if free < LEAST else warn)("disk space", text, fix)
    if room.f_files and room.f_favail < FEW:
        return warn("disk space", f"{text}, but room for only {room.f_favail} more files", fix)
    return ok("disk space", f"{name} {free:.0f} GB")


def _unwritable(folder: Path) -> str:
    """Return why no file can be made in a directory; empty if one can, or if it is just full."""
    try:
        # Rights do not tell: the file system may be read-only, or refuse root.
        with tempfile.TemporaryFile(prefix=".grain-doctor-", dir=folder):
            return ""
    except OSError as error:
        full = error.errno in FULL
        return "" if full else f"cannot be written to: {error.strerror}"


def locks() -> list[CheckResult]:
    """Check that locks work in the home directory: `grain scale` and users' programs need them."""
    try:
        folder = home_folder()
        handle, name = tempfile.mkstemp(prefix=".grain-doctor-", dir=folder)
    except RuntimeError:
        return [warn("locks", "there is no home directory", "Set HOME.")]
    except OSError as error:
        says = f"{folder} cannot be written to: {error.strerror}"
        return [fail("locks", says, remedy(error, "set XDG_STATE_HOME"))]
    try:
        return [_judge_locks(folder, *try_locks(handle, name))]
    finally:
        os.close(handle)
        Path(name).unlink(missing_ok=True)


def try_locks(handle: int, name: str) -> tuple[list[str], list[str]]:
    """Return the kinds of locks that a file refuses, and the kinds that exclude no process."""
    refused, void = [], []
    with open(name, "r+b") as other:  # noqa: PTH123 - a name, as mkstemp returns it
        for kind, lock in ("flock", fcntl.flock), ("fcntl", fcntl.lockf):
            try:
                lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                refused.append(f"{kind} ({error.strerror})")
                continue
            # A second lock of fcntl by one process never conflicts.
            if kind == "flock":
                with suppress(OSError):
                    lock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    void.append(kind)
            lock(handle, fcntl.LOCK_UN)
    return refused, void


def _judge_locks(folder: Path, refused: list[str], void: list[str]) -> CheckResult:
    fix = (
        "Set XDG_STATE_HOME to a file system with locks, or do not run `grain scale` twice; ask "
        "who runs the cluster."
    )
    if refused:
        message = f"{folder} refuses locks: {', '.join(refused)}"
        return warn("locks", message, fix)
    if void:
        return warn("locks", f"{', '.join(void)} in {folder} does not exclude other processes", fix)
    return ok("locks", f"flock and fcntl work in {folder}")


def working_directory(config: Config) -> list[CheckResult]:
    """Check that workers on other hosts can see the current directory, by its file system."""
    try:
        folder = Path.cwd()
    except FileNotFoundError:
        return [fail("directory", "the current one was removed", "Change to another one: cd")]
    try:
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    mount = mount_of(folder, table)
    if mount is None:
        return []
    if config.system == "local":
        return [ok("directory", f"{folder} is on {mount.kind}, and workers run on this host")]
    if mount.of_one_host:
        message = f"{folder} is on {mount.kind}, which other hosts usually cannot see"
        fix = (
            "Work in a directory that all nodes share, or give absolute paths in such a directory."
        )
        return [warn("directory", message, fix)]
    return [ok("directory", f"{folder} is on {mount.kind} of {mount.source}")]


def mount_of(folder: Path, table: str) -> Mount | None:
    """Return the file system of a directory, by the text of proc's ``mountinfo`` (proc(5))."""
    best: Mount | None = None
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(), right.split()
        if len(fields) < 5 or len(kinds) < 2:
            continue
        place = _unescaped(fields[4])
        # Of two in one place, the later one covers the other.
        if folder.is_relative_to(place) and (best is None or len(place) >= len(best.folder)):
            best = Mount(place, kinds[0], _unescaped(kinds[1]))
    return best


def _unescaped(text: str) -> str:
    for code, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, sign)
    return text
