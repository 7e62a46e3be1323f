"""The results on disk: a directory with one file for each. Synchronous, and safe for many writers.

    <root>/<2 digits>/<64 digits>   a result, under the name of its `Key`
    <root>/grain-tmp/               results that are being written

1. A result is written aside, synced, and renamed to its name; it is never changed afterwards.
   A reader sees no result or a whole one. There are no locks, so it works on NFS.
2. A file begins with the digest of the rest. A file whose digest does not match counts as missing.
3. A result is unpickled, which can run any code: so the store reads only files that belong to this
   user and that no other user may write, and only in such a directory.
4. The directory may contain other things: only files with names that this module gives are ever
   removed, and only in a directory that has the folder ``grain-tmp``.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pickle
import re
import shlex
import socket
import stat
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.delayed.cache.key import Key
from grain.delayed.errors import CacheError
from grain.files.trust import make_folder
from grain.files.whole import whole_file
from grain.resource.figures import second
from grain.worker.payload import acts, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MAGIC = b"grain-cache 1\n\0\0"
# Magic, digest of what follows it; then the sizes of the two parts that come next.
_HEAD = struct.Struct("<16s32s")
_SIZES = struct.Struct("<QQ")
_START = _HEAD.size + _SIZES.size
_LONGEST_RECORD = 1 << 16
_TMP = "grain-tmp"
# Seconds after which the writer of a file in that folder has certainly been killed.
_FORGOTTEN = 24 * 3600.0
# The name of a file that is being written: <host>-<process>-<12 digits>; and that of a result.
_ASIDE = re.compile(r".+-[0-9]+-[0-9a-f]{12}")
_RESULT = re.compile(r"[0-9a-f]{64}")


class StoredResult(NamedTuple):
    """The record in a file about its result.

    Attributes:
        created: the time when it was written, in seconds since 1970.
        seconds: the time from the call to the result, the wait for resources included.
        size: the size of the file in bytes.
    """

    key: Key
    created: float
    seconds: float
    host: str
    size: int = 0


class DamagedFile(NamedTuple):
    """A file that has the name of a result and is none, with the reason."""

    path: Path
    why: str


class LookupResult(NamedTuple):
    """The answer to a lookup.

    Attributes:
        status: ``hit``; or the reason for no value: ``missing``, or ``damaged: ...`` and the like.
    """

    status: str
    value: Any = None

    @property
    def hit(self) -> bool:
        """True if there is a result."""
        return self.status == "hit"


MISSING = LookupResult("missing")


class Unpicklable(Exception):
    """A result that cannot be pickled; the cause is the exception of pickle."""


class NoResult(Exception):
    """The reason why a file is not a result, or not a whole one."""


class _ResultPickler(pickle.Pickler):
    """A pickler that refuses what would act on the world when a later mission loads it."""

    def reducer_override(self, obj: Any) -> Any:
        if acts(obj):
            raise refusal(obj)
        return NotImplemented


class Store:
    """The results in one directory. All methods may be called in any thread.

    Args:
        root: the directory; `open` makes it.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()
        self._host = socket.gethostname()

    def open(self) -> None:
        """Make the directory if there is none, and check that no other user may write to it.

        Raises:
            CacheError: it cannot be made, or is not private.
        """
        try:
            make_folder(self.root.parent)
            with suppress(FileExistsError):
                self.root.mkdir(mode=0o700)
                # Results do not belong into the history of a program.
                (self.root / ".gitignore").write_text("*\n")
            (self.root / _TMP).mkdir(mode=0o700, exist_ok=True)
            self.check()
            self._sweep()
        except OSError as error:
            raise CacheError(
                f"the result cache {self.root} cannot be used: {error.strerror or error}. Give "
                "another directory (cache=..., or GRAIN_CACHE), or none: cache=False"
            ) from error

    def check(self, *, begun: bool = False) -> None:
        """Check that no other user may write to the directory.

        Args:
            begun: check, too, that missions have kept results there: else a file with the name of
                a result may be anything.

        Raises:
            CacheError: others may write to it, or it belongs to another user.
            OSError: missing, or no directory.
        """
        # A link is followed: it may lead to a larger disk.
        status = self.root.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if why := _exposed(status):
            raise CacheError(
                f"the result cache {self.root} is not used: it {why}, and what is in it is run as "
                "code. Give a directory of your own, or: chmod go-w "
                f"{shlex.quote(str(self.root))}"
            )
        if begun and not (self.root / _TMP).is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    # ---- results

    def read(self, key: Key) -> LookupResult:
        """Look for a result. Raises nothing: a file that cannot be read counts as missing."""
        try:
            data, stored = _parts(self.path(key))
            if stored.key[:5] != key[:5]:
                return LookupResult("damaged: it is another result's")
        except FileNotFoundError:
            return MISSING
        except NoResult as error:
            return LookupResult(f"damaged: {error}")
        except OSError as error:
            return LookupResult(f"unreadable: {error.strerror or error}")
        except MemoryError:
            return LookupResult("unreadable: there is no memory for it")
        try:
            return LookupResult("hit", pickle.loads(data))  # noqa: S301 - a private file of ours
        except Exception as error:
            # Its class has gone or changed.
            return LookupResult(f"cannot be loaded: {type(error).__name__}: {error}")

    def write(self, key: Key, value: Any, seconds: float) -> None:
        """Write a result; an older one with this key is replaced.

        Raises:
            Unpicklable: pickle cannot write the value.
            OSError: no space, ...
        """
        try:
            file = io.BytesIO()
            _ResultPickler(file, 5).dump(value)
        except Exception as error:  # of any class; an OSError here is not the disk's
            raise Unpicklable(f"{type(error).__name__}: {error}") from error
        about = {
            "key": key._asdict(), "created": time.time(), "seconds": seconds, "host": self._host
        }  # fmt: skip
        record = json.dumps(about).encode()
        body = file.getbuffer()
        rest: list[bytes | memoryview] = [_SIZES.pack(len(record), len(body)), record, body]
        checksum = hashlib.sha256()
        for part in rest:
            checksum.update(part)
        path = self.path(key)
        parts = [_HEAD.pack(_MAGIC, checksum.digest()), *rest]
        try:
            self._put(path, parts)
        except FileNotFoundError:  # the user removed the whole directory
            for parent in (self.root, self.root / _TMP):
                parent.mkdir(mode=0o700, exist_ok=True)
            self._put(path, parts)

    def results(self, *, check: bool = False) -> Iterator[StoredResult | DamagedFile]:
        """Yield the record of each result, and each damaged file, in no order.

        Args:
            check: read the results, too, and compare them with their checksums. Else only the
                records are read, and the lengths of the files checked.
        """
        for path in self._paths():
            try:
                stored = _parts(path, whole=check)[1]
            except FileNotFoundError:
                continue  # removed meanwhile
            except NoResult as error:
                yield DamagedFile(path, str(error))
            except OSError as error:
                yield DamagedFile(path, f"unreadable: {error.strerror or error}")
            except MemoryError:
                yield DamagedFile(path, "unreadable: there is no memory for it")
            else:
                own = self.path(stored.key) == path
                yield stored if own else DamagedFile(path, "it is another result's")

    def path(self, key: Key) -> Path:
        """Return the path of the file that a result has or would have."""
        return self.root / key.name[:2] / key.name

    # ---- files

    def _paths(self) -> Iterator[Path]:
        for folder in self.root.glob("[0-9a-f][0-9a-f]"):
            with suppress(FileNotFoundError, NotADirectoryError):
                yield from (path for path in folder.iterdir() if _RESULT.fullmatch(path.name))

    def _put(self, path: Path, parts: Sequence[bytes | memoryview]) -> None:
        aside = self.root / _TMP / f"{self._host}-{os.getpid()}-{os.urandom(6).hex()}"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with whole_file(path, aside=aside, sync=True) as file:
            file.writelines(parts)  # not joined: a result may be large

    def _sweep(self) -> None:
        """Remove the files of missions that were killed while they wrote a result."""
        for path in (self.root / _TMP).iterdir():
            with suppress(OSError):  # another mission did so; or the filesystem is read-only
                old = time.time() - path.lstat().st_mtime > _FORGOTTEN
                if old and _ASIDE.fullmatch(path.name):
                    path.unlink()


def _parts(path: Path, *, whole: bool = True) -> tuple[memoryview, StoredResult]:
    """Return the pickle in a file, and the record about it.

    Args:
        whole: read and check the pickle; else it is empty.

    Raises:
        NoResult: the file is not a result, not a whole one, or not private.
        OSError: the file is missing or unreadable.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NoResult("it is not a file")
        if why := _exposed(status):
            raise NoResult(f"it {why}")
        start = file.read(_START)
        if len(start) < _START:
            raise NoResult("it is too short")
        magic, checksum = _HEAD.unpack_from(start)
        if magic != _MAGIC:
            raise NoResult("it is not a result, or of another version of Grain")
        length, size = _SIZES.unpack_from(start, _HEAD.size)
        if length > _LONGEST_RECORD or _START + length + size != status.st_size:
            raise NoResult("its size is wrong")
        # Read only now: a file that is not a result may be of any size.
        data = memoryview(file.read() if whole else file.read(length))
    if whole:
        actual = hashlib.sha256(start[_HEAD.size :])
        actual.update(data)
        if actual.digest() != checksum:
            raise NoResult("its checksum is wrong")
    return data[length:], _record(bytes(data[:length]), status.st_size)


def _record(record: bytes, size: int) -> StoredResult:
    try:
        about = json.loads(record)
        key = Key(**about["key"])
        stored = StoredResult(
            key, float(about["created"]), float(about["seconds"]), about["host"], size
        )
        second(stored.created)  # raises if there is no such time
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError) as error:
        raise NoResult(f"its record makes no sense ({error})") from error
    if not all(isinstance(part, str) for part in key[:6]):
        raise NoResult("its record makes no sense")
    return stored


def _exposed(status: os.stat_result) -> str:
    """Return the fault of a file that others may change; empty if only this user may."""
    if status.st_uid != os.geteuid():
        return f"belongs to another user (id {status.st_uid})"
    if status.st_mode & 0o022:
        return f"may be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return ""
