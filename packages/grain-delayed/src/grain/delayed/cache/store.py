"""The results on disk: a directory with one file for each. Synchronous, and safe for many writers.

    <root>/<2 digits>/<64 digits>   a result, under the name of its `Key`
    <root>/tmp/                     results that are being written
    <root>/log/                     what the last missions looked up, see `_lookups`

1. A result is written aside, synced, and renamed to its name; it is never changed afterwards.
   Whoever reads sees nothing, or a whole result; there are no locks, so NFS will do.
2. A file begins with the digest of the rest. What does not match is as good as missing.
3. A result is unpickled, which can run any code: so only files that belong to this user and that
   nobody else may write are read, and only in such a directory.
4. The directory may have other things in it, even a ``tmp`` and a ``log`` with other files: only
   what has a name that this module or `_lookups` gives is ever removed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import re
import socket
import stat
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.delayed.cache.key import Key
from grain.delayed.errors import CacheError
from grain.delayed.times import when

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MAGIC = b"grain-cache 1\n\0\0"
# Magic, digest of what follows it; then the sizes of the two parts that come next.
_HEAD = struct.Struct("<16s32s")
_SIZES = struct.Struct("<QQ")
_START = _HEAD.size + _SIZES.size
_LONGEST_RECORD = 1 << 16
# Seconds after which what is still being written belongs to nobody any more.
_FORGOTTEN = 24 * 3600.0
# What is being written: <host>-<process>-<12 digits>; and a result's own name.
_ASIDE = re.compile(r".+-[0-9]+-[0-9a-f]{12}")
_RESULT = re.compile(r"[0-9a-f]{64}")


class StoredResult(NamedTuple):
    """What a file says of the result in it.

    Attributes:
        key: its key.
        created: when it was written, in seconds since 1970.
        seconds: from the submission of the call to its result, the wait for room included.
        host: the mission's host.
        size: of the file, in bytes.
    """

    key: Key
    created: float
    seconds: float
    host: str
    size: int = 0


class DamagedFile(NamedTuple):
    """A file that is no result, and why."""

    path: Path
    why: str


class LookupResult(NamedTuple):
    """What a look for a result gave.

    Attributes:
        status: ``hit``; or why there is no value: ``missing``, or ``damaged: ...`` and the like.
        value: the result.
    """

    status: str
    value: Any = None

    @property
    def hit(self) -> bool:
        """Whether there is a result."""
        return self.status == "hit"


MISSING = LookupResult("missing")


class Unpicklable(Exception):
    """A result cannot be pickled; the cause says why."""


class NoResult(Exception):
    """A file is no result, or not a whole one; says why."""


class Store:
    """The results in one directory. All methods may be called in any thread.

    Args:
        root: the directory; `open` makes it.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()
        self._host = socket.gethostname()

    def open(self) -> None:
        """Make the directory if there is none, and check that nobody else may write to it.

        Raises:
            CacheError: it cannot be made, or is not private.
        """
        try:
            self.root.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.root.mkdir(mode=0o700)
                # Results do not belong into the history of a program.
                (self.root / ".gitignore").write_text("*\n")
            for name in ("tmp", "log"):
                (self.root / name).mkdir(mode=0o700, exist_ok=True)
            self.check()
            self._sweep()
        except OSError as error:
            raise CacheError(
                f"the result cache {self.root} cannot be used: {error.strerror or error}. Give "
                "another directory (cache=..., or GRAIN_CACHE), or none: cache=False"
            ) from error

    def check(self, *, begun: bool = False) -> None:
        """Check that nobody else may write to the directory.

        Args:
            begun: also that results were kept there; else what looks like one may be anything.

        Raises:
            CacheError: others may, or it belongs to somebody else.
            OSError: missing, or no directory.
        """
        # One that is a link is followed: to a larger disk, perhaps.
        status = self.root.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if why := _exposed(status):
            raise CacheError(
                f"the result cache {self.root} is not used: it {why}, and what is in it is run as "
                f"code. Give a directory of your own, or: chmod go-w {self.root}"
            )
        if begun and not all((self.root / name).is_dir() for name in ("tmp", "log")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    # ---- results

    def read(self, key: Key) -> LookupResult:
        """Look for a result. Raises nothing: what cannot be read is as good as missing."""
        try:
            data, entry = _parts(self.path(key))
            if entry.key[:5] != key[:5]:
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
            # Of a class that is no more, or is not what it was.
            return LookupResult(f"cannot be loaded: {type(error).__name__}: {error}")

    def write(self, key: Key, value: Any, seconds: float) -> None:
        """Keep a result; one of the same key is replaced.

        Args:
            key: its key.
            value: the result.
            seconds: how long it took.

        Raises:
            Unpicklable: pickle cannot write the value.
            OSError: no space, ...
        """
        try:
            body = pickle.dumps(value, 5)
        except Exception as error:  # pickle raises what it likes, and an OSError is not the disk's
            raise Unpicklable(f"{type(error).__name__}: {error}") from error
        told = {
            "key": key._asdict(), "created": time.time(), "seconds": seconds, "host": self._host
        }  # fmt: skip
        record = json.dumps(told).encode()
        rest = [_SIZES.pack(len(record), len(body)), record, body]
        checksum = hashlib.sha256()
        for part in rest:
            checksum.update(part)
        path = self.path(key)
        parts = [_HEAD.pack(_MAGIC, checksum.digest()), *rest]
        try:
            self._put(path, parts)
        except FileNotFoundError:  # somebody removed everything
            for parent in (self.root, self.root / "tmp"):
                parent.mkdir(mode=0o700, exist_ok=True)
            self._put(path, parts)

    def entries(self, *, check: bool = False) -> Iterator[StoredResult | DamagedFile]:
        """What is there, unordered.

        Args:
            check: whether results are read and compared with their checksums, too; else only what
                the files say of themselves, and whether they are as long as that.
        """
        for path in self._paths():
            try:
                entry = _parts(path, whole=check)[1]
            except FileNotFoundError:
                continue  # removed meanwhile
            except NoResult as error:
                yield DamagedFile(path, str(error))
            except OSError as error:
                yield DamagedFile(path, f"unreadable: {error.strerror or error}")
            except MemoryError:
                yield DamagedFile(path, "unreadable: there is no memory for it")
            else:
                own = self.path(entry.key) == path
                yield entry if own else DamagedFile(path, "it is another result's")

    def path(self, key: Key) -> Path:
        """The file of a result, whether it is there or not."""
        return self.root / key.name[:2] / key.name

    # ---- files

    def _paths(self) -> Iterator[Path]:
        for folder in self.root.glob("[0-9a-f][0-9a-f]"):
            with suppress(FileNotFoundError, NotADirectoryError):
                yield from (path for path in folder.iterdir() if _RESULT.fullmatch(path.name))

    def _put(self, path: Path, parts: Sequence[bytes]) -> None:
        aside = self.root / "tmp" / f"{self._host}-{os.getpid()}-{os.urandom(6).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(aside, flags, 0o600)
        try:
            try:
                for part in parts:  # not joined: a result may be large
                    view = memoryview(part)
                    while view:
                        view = view[os.write(fd, view) :]
                os.fsync(fd)
            finally:
                os.close(fd)
            try:
                aside.rename(path)
            except FileNotFoundError:  # the first one here
                path.parent.mkdir(mode=0o700, exist_ok=True)
                aside.rename(path)
        except BaseException:
            with suppress(OSError):
                aside.unlink()
            raise

    def _sweep(self) -> None:
        """Remove what missions left that were killed amid writing."""
        for path in (self.root / "tmp").iterdir():
            with suppress(OSError):  # somebody else did; or the filesystem is read-only
                old = time.time() - path.lstat().st_mtime > _FORGOTTEN
                if old and _ASIDE.fullmatch(path.name):
                    path.unlink()


def _parts(path: Path, *, whole: bool = True) -> tuple[memoryview, StoredResult]:
    """The pickle in a file, and what the file says of it.

    Args:
        path: the file.
        whole: whether the pickle is read and checked.

    Raises:
        NoResult: it is no result, not a whole one, or not private.
        OSError: missing, unreadable.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NoResult("it is no file")
        if why := _exposed(status):
            raise NoResult(f"it {why}")
        start = file.read(_START)
        if len(start) < _START:
            raise NoResult("it is too short")
        magic, checksum = _HEAD.unpack_from(start)
        if magic != _MAGIC:
            raise NoResult("it is no result, or of another version of Grain")
        length, size = _SIZES.unpack_from(start, _HEAD.size)
        if length > _LONGEST_RECORD or _START + length + size != status.st_size:
            raise NoResult("its size is wrong")
        # Read only now: what is no result may be of any size.
        data = memoryview(file.read() if whole else file.read(length))
    if whole:
        actual = hashlib.sha256(start[_HEAD.size :])
        actual.update(data)
        if actual.digest() != checksum:
            raise NoResult("its checksum is wrong")
    return data[length:], _entry(bytes(data[:length]), status.st_size)


def _entry(record: bytes, size: int) -> StoredResult:
    try:
        told = json.loads(record)
        key = Key(**told["key"])
        entry = StoredResult(
            key, float(told["created"]), float(told["seconds"]), told["host"], size
        )
        when(entry.created)  # is there such a time?
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError) as error:
        raise NoResult(f"its record makes no sense ({error})") from error
    if not all(isinstance(part, str) for part in key[:6]):
        raise NoResult("its record makes no sense")
    return entry


def _exposed(status: os.stat_result) -> str:
    """Who else may change a file: what to say of it, or nothing."""
    if status.st_uid != os.geteuid():
        return f"belongs to another user (id {status.st_uid})"
    if status.st_mode & 0o022:
        return f"may be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return ""
