"""The main function of each command: ``client.py SYSTEM NAME ...``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fake_small.jobs import Refused, root


def main(system: str, name: str, argv: list[str]) -> int:
    """Run a command; return its exit code."""
    module = importlib.import_module(f"fake_small.{system}")
    try:
        if (root() / "deaf").exists():
            raise Refused(module.DEAF, 1)
        out, code = module.COMMANDS[name](argv)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return refused.code
    sys.stdout.write(out)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
