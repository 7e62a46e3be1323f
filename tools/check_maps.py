"""Check that the map of every source folder names its modules and folders, and no others.

A map stands in the docstring of a folder's `__init__.py`, one item for each module or folder::

    Map:

    - ``hub``: the scheduler for many missions and workers, without I/O
    - ``scheduler/``: which task starts where
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 12
"""Modules in one folder, so that a reader takes the listing in at a glance."""


def mapped(docstring: str) -> list[str]:
    """Return the names in a docstring's map."""
    _, _, after = docstring.partition("\nMap:\n")
    return re.findall(r"^- ``(\w+/?)``", after, re.MULTILINE)


def contents(folder: Path) -> set[str]:
    """Return the modules of a source folder and, with a slash, its folders."""
    modules = {p.stem for p in folder.glob("*.py")} - {"__init__", "__main__"}
    return modules | {f"{p.parent.name}/" for p in folder.glob("*/__init__.py")}


def problems(folder: Path) -> list[str]:
    """Return one line for each fault of a folder and its map."""
    where = folder.relative_to(ROOT)
    names = mapped(ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "")
    there = contents(folder)
    faults = [f"{where}: the map lacks {name}" for name in sorted(there - set(names))]
    faults += [
        f"{where}: the map names {name}, which is not there" for name in names if name not in there
    ]
    faults += [
        f"{where}: the map names {name} twice" for name in set(names) if names.count(name) > 1
    ]
    modules = [name for name in there if not name.endswith("/")]
    if len(modules) > MOST:
        faults.append(f"{where}: {len(modules)} modules, more than {MOST}; make a room of some")
    return faults


def main() -> int:
    """Print every fault; return 1 if there is one."""
    # The package `grain` itself has the facade only.
    inits = sorted(ROOT.glob("packages/*/src/*/**/__init__.py"))
    folders = [p.parent for p in inits if p.parts[-3:-1] != ("src", "grain")]
    folders.append(ROOT / "tools/chaos")
    faults = [line for folder in folders for line in problems(folder)]
    print("\n".join(faults) or f"{len(folders)} maps are complete")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
