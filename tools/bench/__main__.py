"""Run benchmarks: python -m tools.bench [NAME ...] [--OPTION ...]; all of them without a name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main(words: list[str]) -> None:
    """Run the modules of this folder whose names begin with one of those given.

    Options go to the benchmark as they are; only some have any.
    """
    options = [word for word in words if word.startswith("--")]
    names = [word for word in words if word not in options]
    modules = sorted(p.stem for p in Path(__file__).parent.glob("[!_]*.py"))
    chosen = [module for module in modules if not names or module.startswith(tuple(names))]
    if not chosen:
        sys.exit(f"no such benchmark; there are: {', '.join(modules)}")
    for module in chosen:
        importlib.import_module(f"tools.bench.{module}").main(*options)


if __name__ == "__main__":
    main(sys.argv[1:])
