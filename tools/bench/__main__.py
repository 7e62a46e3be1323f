"""python -m tools.bench [NAME ...]: run the modules whose names begin so, or all."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import tools.bench


def main(wanted: list[str]) -> None:
    """Run what was asked for, one after the other."""
    names = sorted(m.name for m in pkgutil.iter_modules(tools.bench.__path__))
    chosen = [
        name
        for name in names
        if not name.startswith("_") and (not wanted or name.startswith(tuple(wanted)))
    ]
    if not chosen:
        sys.exit(f"no such benchmark; there are: {', '.join(names)}")
    for name in chosen:
        importlib.import_module(f"tools.bench.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
