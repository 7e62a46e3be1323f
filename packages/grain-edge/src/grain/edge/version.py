"""The versions of this process, which it states to its peers; looked up when they are needed."""

from __future__ import annotations

import functools
import sys

import msgspec

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


def _installed(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # 20 ms, so not at import

    try:
        return version(name)
    except PackageNotFoundError:
        return ""
