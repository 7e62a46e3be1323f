"""The version of the installed package, looked up when it is needed."""

from __future__ import annotations

import functools


@functools.cache
def package_version() -> str:
    """Return the version, as in "1.0.0"; "unknown" if the package is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # 20 ms, so not at import

    try:
        return version("grain-edge")
    except PackageNotFoundError:
        return "unknown"
