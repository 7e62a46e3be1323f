"""The main function of each command."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from fake_small.jobs import Refused, root


def main() -> int:
    """Run the command whose name this process has; return its exit code."""
    system, name = Path(sys.argv[0]).parent.name, Path(sys.argv[0]).name
    module = importlib.import_module(f"fake_small.{system}")
    try:
        if (root() / "deaf").exists():
            raise Refused(module.DEAF, 1)
        out, code = module.COMMANDS[name](sys.argv[1:])
    except Refused as refused:
        print(refused, file=sys.stderr)
        return refused.code
    sys.stdout.write(out)
    return int(code)
