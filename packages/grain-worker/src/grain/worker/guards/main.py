"""The script of the guards: ``python -I -S main.py NAME ARGUMENT ...`` runs a module beside it.

The name is ``fork_server`` or ``subreaper``; it stands on the command line for readers of ``ps``.
"""

# ruff: noqa: PTH120
# (no pathlib here; see the package)

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Last, so that nothing of the library is hidden.
    sys.path.append(os.path.dirname(os.path.dirname(__file__)))
    # Not importlib, which would stay in the memory of every supervisor.
    __import__(f"guards.{sys.argv[1]}", fromlist=["main"]).main(*sys.argv[2:])
