"""The version of the installed package, looked up only when it is needed."""

from __future__ import annotations

import functools


@functools.cache
def package_version() -> str:
    """As in "1.0.0"; "unknown" where the code runs without being installed."""
    from importlib.metadata import PackageNotFoundError, version  # 20 ms, so not at import

    try:
        return version("grain-edge")
    except PackageNotFoundError:
        return "unknown"
