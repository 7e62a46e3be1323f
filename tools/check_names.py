"""Check that the name of a class means one thing in all packages: `python tools/check_names.py`.

A reader who searches for a name finds one class, or one idea in two rooms. `IN_TWO_ROOMS` lists
these with the reason; private names belong to their module and may recur.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
IN_TWO_ROOMS = {
    "Ended": "the end of a run or of an attempt, as a message and as a file",
    "Executor": "what takes work, in the words of `concurrent.futures` and in those of Snakemake",
    "Function": "the tasks of a function, and the function as it travels to a runner",
    "Mission": "a mission as displays have it, and in its own process",
    "Queue": "tasks that wait, and jobs: for workers of Grain, or for nodes of a batch system",
    "Remark": "a sentence on what may surprise the user, as an event and as a line of a log",
    "Run": "a run of a task, as displays have it, and of a job, as files of the queue have it",
    "RunEnded": "the end of a run, as a message and as a line of a log",
    "Shape": "workers that are alike, as configured and as the scheduler has them",
    "System": "a batch system, opened by the name of its module: each one has this class",
    "Task": "a task as displays have it, and as the scheduler has it",
    "TasksPrinted": "lines that tasks have printed, as a message and as an event",
    "Worker": "a worker as displays have it, and the settings of one",
    "Wish": "the end or another change that is asked for, within a worker and by a user",
    "WorkerJoined": "a worker that joins, as an event and as a line of a log",
    "WorkerLeft": "a worker that leaves, as an event and as a line of a log",
}


def classes(sources: list[Path]) -> dict[str, list[Path]]:
    """Return the modules in which each public class is defined, by its name."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path)
    return found


def problems(found: dict[str, list[Path]]) -> list[str]:
    """Return one line for each name that is used twice, and for each needless exception."""
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    faults = [
        f"{name}: a class in {' and in '.join(str(path) for path in paths)}; rename one"
        for name, paths in sorted(twice.items())
        if name not in IN_TWO_ROOMS
    ]
    needless = IN_TWO_ROOMS.keys() - twice.keys()
    return faults + [f"{name}: occurs once, so it needs no exception" for name in sorted(needless)]


def main() -> int:
    """Print every fault; return 1 if there is one."""
    sources = sorted(ROOT.glob("packages/*/src/**/*.py"))
    found = classes(sources)
    faults = problems({n: [p.relative_to(ROOT) for p in ps] for n, ps in found.items()})
    print("\n".join(faults) or f"each of {len(found)} class names means one thing")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
