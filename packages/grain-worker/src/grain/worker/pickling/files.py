"""Files as copies: closed ones, which have the names and modes of the originals.

dill copies a file by opening its path again where the copy is loaded, in the mode of the original:
with ``w``, that empties the file. A closed copy keeps the result or the exception that refers to
the file, and every use of it raises the `ValueError` of a closed file.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

# Types of io's own that have their data in memory, and the one of tempfile that may have.
_IN_MEMORY = frozenset({"BytesIO", "StringIO", "SpooledTemporaryFile"})
_STANDARD = {"<stdin>": "__stdin__", "<stdout>": "__stdout__", "<stderr>": "__stderr__"}


def is_file(kind: type) -> bool:
    """Return True if objects of a type are files of the system, or made of one by the library.

    Other classes are not, such as a file of a package's own: they have ways to travel of their own,
    or travel by their parts.
    """
    if issubclass(kind, io.FileIO | io.BufferedReader | io.BufferedWriter | io.TextIOWrapper):
        return True
    if issubclass(kind, io.IOBase):
        if kind.__module__.partition(".")[0] not in sys.stdlib_module_names:
            return False
        return _IN_MEMORY.isdisjoint(base.__name__ for base in kind.__mro__)
    return _wraps_temporary(kind)


def reduce_standard(file: Any) -> Any:
    """Return the reduction of a standard stream, which goes by its name; None for other files."""
    if type(file) is not io.TextIOWrapper:
        return None
    name = getattr(file, "name", None)
    return (standard_stream, (name,)) if type(name) is str and name in _STANDARD else None


def reduce_file(file: Any) -> Any:
    """Return the reduction of a file to a closed one."""
    if _wraps_temporary(type(file)):
        file = file.file  # the wrapper removes the file when it is collected
    name, mode = getattr(file, "name", None), getattr(file, "mode", None)
    if not isinstance(name, str | bytes | int | os.PathLike):
        name = None
    if type(mode) is not str:
        mode = None  # a number, in a file of gzip
    if isinstance(file, io.TextIOBase):
        return closed_file, (io.TextIOWrapper, name, mode, file.encoding, file.errors)
    if isinstance(file, io.RawIOBase):
        return closed_file, (io.FileIO, name, mode)
    for kind in (io.BufferedReader, io.BufferedWriter):
        if isinstance(file, kind):
            return closed_file, (kind, name, mode)
    return closed_file, (io.BufferedRandom, name, mode)


def _wraps_temporary(kind: type) -> bool:
    return any(
        base.__name__ == "_TemporaryFileWrapper" and base.__module__ == "tempfile"
        for base in kind.__mro__
    )


# ---- loading


class _Closed(io.RawIOBase):
    """A layer below a file that is to be closed, with the name and mode that the file shows."""

    def __init__(self, name: Any, mode: str | None) -> None:
        self.name = name
        self.mode = mode

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, _whence: int = 0, /) -> int:
        return offset


def closed_file(
    kind: Any,
    name: Any,
    mode: str | None,
    encoding: str | None = None,
    errors: str | None = None,
) -> io.IOBase:
    """Return a closed file, which has never been open."""
    if kind is io.FileIO:
        file: Any = io.FileIO.__new__(io.FileIO)  # without its `__init__`, which would open it
        file.name = name
    elif kind is io.TextIOWrapper:
        file = io.TextIOWrapper(io.BufferedRandom(_Closed(name, mode)), encoding, errors)
        file.mode = mode
    else:
        file = kind(_Closed(name, mode))
    file.close()
    return file  # type: ignore[no-any-return]


def standard_stream(name: str) -> Any:
    """Return the standard stream of this process that has a name."""
    return getattr(sys, _STANDARD[name])
