"""The cost of importing: minimum over several fresh interpreters, warm caches."""

from __future__ import annotations

import subprocess
import sys
import time

from tools.bench import say

ROUNDS = 15


def seconds(code: str) -> float:
    """Return the shortest time in which a fresh interpreter runs the code."""

    def once() -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began

    return min(once() for _ in range(ROUNDS))


def main() -> None:
    """Print what is measured."""
    bare = seconds("pass")
    trio = seconds("import trio")
    delayed = seconds("import grain.delayed")
    say("import_delayed_over_trio", delayed / trio, "ratio", budget=1.5)
    say("import_gvar", (seconds("from grain import GVAR") - bare) * 1e3, "ms", budget=20)
    # The command until it does something; each command imports what it needs when it runs.
    for name, words in (("version", ["--version"]), ("ls_help", ["ls", "--help"])):
        code = f"from grain.cli import main; main({words!r}, prog_name='grain')"
        say(f"grain_{name}", seconds(code) * 1e3, "ms", budget=150)
    say("import_edge_over_trio", seconds("import grain.edge") / trio, "ratio")


if __name__ == "__main__":
    main()
