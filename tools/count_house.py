"""Count what a maintainer has to read: ``python tools/count_house.py [--json]``.

Lines of source and tests by package, the forms of each idea, classes with many attributes, changes
that begin in many places, pages and words. The figures say whether a change made the house smaller.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]

_MANY = 25  # attributes of a class
_PLACES = 4  # in which a change begins

FORMS = {
    "run": (
        "EndedRun", "RunRow", "FailureRow", "PastRun", "LoggedRun", "_TimedRun", "queue.states.Run",
        "facts.rows.Run",
    ),
    "task": (
        "Submission", "OpenTask", "LoggedTask", "TaskFacts", "WhyAnswer", "Explanation", "PastTask",
        "RowTask", "facts.rows.Task",
    ),
    "function": (
        "FunctionTotals", "OpenCounts", "FunctionSummary", "FunctionRow", "CallKindNow",
        "FunctionUse", "Overtime", "facts.rows.Function",
    ),
    "cause": (
        "totals.Cause", "Failures", "CauseSummary", "CauseRow", "AlikeFailures", "FailedTasks",
        "FailureCounts", "facts.rows.Cause",
    ),
    "worker": (
        "WorkerState", "WorkerRow", "LossRow", "WorkerSupply", "DrainingWorker", "WorkerTrack",
        "trace._Process", "Stay", "SlurmNode", "facts.rows.Worker",
    ),
    "mission": (
        "MissionState", "questions.EndedMission", "MissionOutlook", "MissionRow", "LogSummary",
        "LocalMission", "_Listed", "Workload", "facts.rows.Mission",
    ),
    "queue": ("QueueState", "QueueRow", "ClassDemand", "facts.rows.Queue"),
    "job": (
        "Standing", "ListedJob", "JobRow", "TaskRow", "SlurmTask", "AccountLine", "SlurmStep",
        "facts.rows.Job",
    ),
}  # fmt: skip
"""The classes of each idea: by name, or by the end of the module's name and the name."""


def source_files(package: Path) -> list[Path]:
    """Return the sources of a package."""
    return sorted((package / "src").rglob("*.py"))


def test_files() -> Iterator[Path]:
    """Yield the tests of all packages, and what only they use."""
    for folder in (
        *ROOT.glob("packages/*/tests"),
        ROOT / "tests-integration",
        ROOT / "tools/testkit",
    ):
        yield from sorted(folder.rglob("*.py"))


def count_lines(files: Iterable[Path]) -> int:
    """Return the number of lines of some files."""
    return sum(file.read_bytes().count(b"\n") for file in files)


def count_comments(files: Iterable[Path]) -> int:
    """Return the number of lines that are comments, without rulers and marks for tools."""
    found = 0
    for file in files:
        lines = (line.strip() for line in file.read_text().splitlines())
        found += sum(line.startswith("# ") and not line.startswith("# ----") for line in lines)
    return found


def classes(files: Iterable[Path]) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield each class with its module's name."""
    for file in files:
        module = ".".join(file.with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ClassDef):
                yield module, node


def attributes(node: ast.ClassDef) -> set[str]:
    """Return the names of what an object of a class has: declared, or assigned to ``self``."""
    found = {
        one.target.id
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    for one in ast.walk(node):
        if (
            isinstance(one, ast.Attribute)
            and isinstance(one.ctx, ast.Store)
            and isinstance(one.value, ast.Name)
            and one.value.id == "self"
        ):
            found.add(one.attr)
    return found


def forms(known: Iterable[tuple[str, ast.ClassDef]]) -> dict[str, list[str]]:
    """Return the forms of each idea that are there."""
    names = [f".{module}.{node.name}" for module, node in known]
    return {
        idea: [form for form in listed if any(name.endswith(f".{form}") for name in names)]
        for idea, listed in FORMS.items()
    }


def beginnings() -> list[int]:
    """Return of each row of architecture.md's table "to change" how many paths it names."""
    text = (ROOT / "docs/architecture.md").read_text()
    table = text.partition("| to change ... |")[2].partition("\n\n")[0].splitlines()[2:]
    return [len(re.findall(r"`[\w/.]+(?:/|\.py)`", row)) for row in table]


def counted() -> dict[str, Any]:
    """Return all counts."""
    packages = sorted(one for one in (ROOT / "packages").iterdir() if (one / "src").is_dir())
    by_package = {one.name: source_files(one) for one in packages}
    sources = [file for files in by_package.values() for file in files]
    all_classes = list(classes(sources))
    pages = sorted((ROOT / "docs").glob("*.md"))
    lines = count_lines(sources)
    of_ideas = forms(all_classes)
    large = {node.name: size for _, node in all_classes if (size := len(attributes(node))) > _MANY}
    begins = beginnings()
    return {
        "source lines": {
            **{name: count_lines(files) for name, files in by_package.items()},
            "all": lines,
        },
        "test lines per source line": round(count_lines(test_files()) / lines, 3),
        "comments per 1,000 lines": round(1000 * count_comments(sources) / lines, 1),
        "forms": {**{idea: len(some) for idea, some in of_ideas.items()},
                  "all": sum(map(len, of_ideas.values()))},
        "classes with many attributes": dict(sorted(large.items(), key=lambda item: -item[1])),
        "changes that begin in four places or more":
            f"{sum(places >= _PLACES for places in begins)} of {len(begins)}",
        "pages": len(pages),
        "words of pages": sum(len(page.read_text().split()) for page in pages),
    }  # fmt: skip


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="as JSON")
    counts = counted()
    if parser.parse_args().json:
        print(json.dumps(counts, indent=1))
        return
    for name, value in counts.items():
        if isinstance(value, dict):
            print(f"{name}:")
            for one, number in value.items():
                print(f"  {one:32} {number:>8,}")
        else:
            print(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")


if __name__ == "__main__":
    main()
