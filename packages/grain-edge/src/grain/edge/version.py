"""The versions of this process, which it states to its peers; looked up when they are needed."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMES = {"cpython": "Python", "pypy": "PyPy"}

INTERPRETER = "{} {}.{}".format(
    _NAMES.get(sys.implementation.name, sys.implementation.name), *sys.version_info
)
"""The implementation and minor version of this interpreter, as in "Python 3.12".

Two interpreters with the same version tag run each other's bytecode; any others do not.
"""


class Versions(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The versions of a process, as it states them when it registers.

    Attributes:
        interpreter: as `INTERPRETER`; empty if not stated.
        python: the whole version of its Python, as in "3.12.1".
        numpy: the version of the installed NumPy; empty if there is none.
    """

    interpreter: str = ""
    python: str = ""
    grain: str = ""
    numpy: str = ""

    def runs_code_of(self, other: Versions) -> bool:
        """Return True unless the two are known to run different bytecode."""
        return not (self.interpreter and other.interpreter) or self.interpreter == other.interpreter

    def loads_arrays_of(self, other: Versions) -> bool:
        """Return True unless the two are known to have NumPy of different major versions.

        Arrays that NumPy 2 pickled cannot be loaded by most releases of NumPy 1.
        """
        if not (self.numpy and other.numpy):
            return True
        return self.numpy.partition(".")[0] == other.numpy.partition(".")[0]

    def __str__(self) -> str:
        if not self.interpreter:
            return "unknown versions"
        name = self.interpreter.rpartition(" ")[0]
        return f"{name} {self.python}, Grain {self.grain}"


@functools.cache
def package_version() -> str:
    """Return the version, as in "1.0.0"; "unknown" if the package is not installed."""
    return _installed("grain-edge") or "unknown"


@functools.cache
def own_versions() -> Versions:
    """Return the versions of this process. Nothing is imported to find them out."""
    python = "{}.{}.{}".format(*sys.version_info)
    return Versions(INTERPRETER, python, package_version(), _installed("numpy"))


class CodeFiles:
    """The files of the modules that a process has loaded, as they are when this is made.

    Two are taken for the same if time and size agree, as Python does for what it has compiled.

    Attributes:
        files: each with its time and size.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self.files = {file: _stamp(file) for file in files}

    def are_replaced(self) -> bool:
        """Return True if a file is gone by now, or another one is in its place."""
        return any(_stamp(file) not in (stamp, None) for file, stamp in self.files.items())


def _stamp(file: str) -> tuple[int, int] | None:
    """Return time and size of a file, (0, 0) if there is none; None if they cannot be read now."""
    try:
        # Opened, as a network file system may take long to notice a change otherwise.
        with Path(file).open("rb") as opened:
            found = os.fstat(opened.fileno())
    except (FileNotFoundError, NotADirectoryError):
        return 0, 0
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@functools.cache
def code_at_start() -> CodeFiles:
    """Return the files of Grain's modules, as they were at the first call.

    A process that starts others of Grain's later calls it when it begins.
    """
    modules = [one for name, one in list(sys.modules.items()) if name.split(".")[0] == "grain"]
    return CodeFiles(file for one in modules if (file := getattr(one, "__file__", None)))


def replaced_code() -> str:
    """Return a clause if other code of Grain is installed than this process runs; else "".

    What it starts would run that: the two may not agree. It reads from the disk for some ms.
    """
    if not code_at_start().are_replaced():
        return ""
    now = _installed("grain-edge")
    return f"Grain was replaced while it runs here, by {now}" if now else "Grain was removed here"


def _installed(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # 20 ms, so not at import

    try:
        return version(name)
    except PackageNotFoundError:
        return ""
