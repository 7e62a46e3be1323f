"""The same work by Grain and by other tools, side by side in turns, as a table in Markdown.

Each measurement is a process of its own (`tools.bench._peers`). A tool from the package index has
an environment of its own; one that cannot be installed or fails has "-" in its cells, and the
reason below the table. Options:

- ``--quick``: small counts, once, to see that it runs; the numbers mean nothing
- ``--rounds=N``: so many rounds, of which cells are the medians; by default three
- ``--tools=NAME,NAME``, ``--measures=NAME,NAME``: only these
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from grain_testkit.tool_environments import NotInstalled, tool_environment

ROOT = Path(__file__).parents[2]
PATIENCE = 1200.0
"""Seconds that one measurement may take."""


class Measured(NamedTuple):
    """A measurement, which each tool makes with so many workers.

    Attributes:
        function: its name in `tools.bench._peers.measures`.
        counts: of calls, and of calls with --quick.
        workers: calls at the same time, and the same with --quick.
        size: bytes of an argument or a result.
        rows: the quantities that the table shows, with their titles.
    """

    function: str
    counts: tuple[int, int]
    rows: dict[str, str]
    workers: tuple[int, int] = (2, 2)
    size: int = 0


ALL = "the same, CPU of all processes, us each"
MEASURES = {
    "calls": Measured("calls", (20_000, 50), {"us": "20,000 no-op calls, us each"}),
    "serial": Measured(
        "serial", (2000, 20), {"us": "one call after the other, p50, us", "cpu": ALL}
    ),
    "programs": Measured(
        "programs", (1000, 20), {"us": "`/bin/true`, two at a time, us each", "cpu": ALL}
    ),
    "results": Measured("results", (200, 3), {"ms": "results of 1 MB, ms"}, size=1_000_000),
    "arguments": Measured("arguments", (200, 3), {"ms": "arguments of 1 MB, ms"}, size=1_000_000),
    "large_results": Measured(
        "results", (5, 1), {"mb_s": "results of 100 MB, MB/s"}, size=100_000_000
    ),
    "large_arguments": Measured(
        "arguments", (5, 1), {"mb_s": "arguments of 100 MB, MB/s"}, size=100_000_000
    ),
    "results_at_once": Measured(
        "results_at_once", (50, 3), {"ms": "50 results of 1 MB at once, ms each"}, size=1_000_000
    ),
    "arguments_at_once": Measured(
        "arguments_at_once",
        (50, 3),
        {"ms": "50 arguments of 1 MB at once, ms each"},
        size=1_000_000,
    ),
    "large_results_at_once": Measured(
        "results_at_once",
        (5, 1),
        {"mb_s": "5 results of 100 MB at once, MB/s", "cpu": ALL},
        size=100_000_000,
    ),
    "large_arguments_at_once": Measured(
        "arguments_at_once",
        (5, 1),
        {"mb_s": "5 arguments of 100 MB at once, MB/s", "cpu": ALL},
        size=100_000_000,
    ),
    "waiting": Measured(
        "waiting",
        (100_000, 500),
        {"us": "100,000 calls that wait, us each", "bytes": "the same, memory of all, bytes each"},
    ),
    "crowd": Measured(
        "calls",
        (10_000, 50),
        {"us": "10,000 no-op calls, 50 workers with one core, us each", "cpu": ALL},
        workers=(50, 3),
    ),
    "cold": Measured(
        "cold",
        (10_000, 50),
        {"us": "10,000 no-op calls, 50 workers that have just come, us each", "cpu": ALL},
        workers=(50, 3),
    ),
}

_OF_BYTES = frozenset(name for name, one in MEASURES.items() if one.size)


class Compared(NamedTuple):
    """A tool: its column, what it needs from the package index, and what it cannot do."""

    title: str
    requirement: str = ""
    lacks: frozenset[str] = frozenset()


TOOLS = {
    "gnaw": Compared("Grain"),
    "tls": Compared("Grain over TLS"),
    "within": Compared("Grain, scheduler within the mission"),
    "processes": Compared("process pool"),
    "executorlib": Compared("executorlib", "executorlib==1.11.0"),
    "hyperqueue": Compared(
        "HyperQueue",
        "hyperqueue==0.27.0",
        frozenset({"calls", "cold"}) | _OF_BYTES,
    ),
    "xargs": Compared("xargs", lacks=frozenset(MEASURES) - {"programs"}),
}


class Failed(Exception):
    """A tool could not be measured; the text says why."""


def main(*options: str) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser("peers")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--tools", type=chosen, default=[*TOOLS])
    parser.add_argument("--measures", type=chosen, default=[*MEASURES])
    words = parser.parse_args(options)
    rounds = words.rounds or (1 if words.quick else 3)
    before = os.getloadavg()[0]
    values, reasons = measured(words.tools, words.measures, rounds, quick=words.quick)
    print(table(words.tools, words.measures, values, reasons))
    print(
        f"\nMedians of rounds ({rounds}), in brackets their ratio to the first column; Python "
        f"{platform.python_version()}, {os.cpu_count()} cores, load {before:.1f} before and "
        f"{os.getloadavg()[0]:.1f} after{'; --quick: they mean nothing' if words.quick else ''}."
    )


def chosen(words: str) -> list[str]:
    """Return names that are separated by commas."""
    names = words.split(",")
    if unknown := set(names) - {*TOOLS, *MEASURES}:
        raise argparse.ArgumentTypeError(f"there is no {', '.join(sorted(unknown))}")
    return names


Values = dict[tuple[str, str, str], list[float]]
"""The values of all rounds, by tool, measurement and quantity."""


def measured(
    tools: list[str], measures: list[str], rounds: int, *, quick: bool
) -> tuple[Values, dict[str, str]]:
    """Return all values, and the reasons why some are not there, by tool or tool and measurement.

    The tools take turns, and each round begins with another one.
    """
    values: Values = {}
    reasons: dict[str, str] = {}
    interpreters: dict[str, Path] = {}
    for tool in tools:
        try:
            interpreters[tool] = interpreter(tool)
        except (Failed, NotInstalled) as error:
            reasons[TOOLS[tool].title] = str(error)
    for measure in measures:
        able = [tool for tool in interpreters if measure not in TOOLS[tool].lacks]
        for number in range(rounds):
            first = number % len(able) if able else 0
            for tool in able[first:] + able[:first]:
                try:
                    quantities = one(interpreters[tool], tool, MEASURES[measure], quick=quick)
                except Failed as error:
                    reasons[f"{TOOLS[tool].title}, {measure}"] = str(error)
                    continue
                print(f"{measure} {tool} {quantities}", file=sys.stderr)
                for quantity, value in quantities.items():
                    values.setdefault((tool, measure, quantity), []).append(value)
    return values, reasons


def interpreter(tool: str) -> Path:
    """Return the interpreter that measures a tool.

    Raises:
        Failed, NotInstalled: the tool is not there, and cannot be installed.
    """
    if tool == "xargs" and not shutil.which("xargs"):
        raise Failed("there is no xargs on PATH")
    if requirement := TOOLS[tool].requirement:
        return tool_environment(requirement)
    return Path(sys.executable)


def one(python: Path, tool: str, what: Measured, *, quick: bool) -> dict[str, float]:
    """Return the quantities of one measurement.

    Raises:
        Failed: it failed, or took longer than `PATIENCE`.
    """
    numbers = what.workers[quick], what.counts[quick], what.size
    words = [str(python), "-m", "tools.bench._peers", tool, what.function, *map(str, numbers)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=env
    ) as process:
        try:
            output, errors = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed(f"it took longer than {PATIENCE:.0f} s") from None
        finally:
            process.terminate()
    if process.returncode:
        last = errors.strip().splitlines() or [f"it ended with {process.returncode}"]
        raise Failed(last[-1])
    quantities: dict[str, float] = json.loads(output.splitlines()[-1])
    return quantities


def table(tools: list[str], measures: list[str], values: Values, reasons: dict[str, str]) -> str:
    """Return a table in Markdown, with the reasons below it for what is not there.

    A cell is the median of the rounds and, in brackets, that of its ratios to the first tool in the
    same round.
    """
    lines = [
        f"| | {' | '.join(TOOLS[tool].title for tool in tools)} |",
        f"|---{'|---' * len(tools)}|",
    ]
    for measure in measures:
        for quantity, title in MEASURES[measure].rows.items():
            base = values.get((tools[0], measure, quantity), [])
            rows = [values.get((tool, measure, quantity), []) for tool in tools]
            cells = [cell(rows[0], []), *(cell(row, base) for row in rows[1:])]
            lines.append(f"| {title} | {' | '.join(cells)} |")
    below = [f"- {what}: {reason}" for what, reason in reasons.items()]
    return "\n".join([*lines, "", *below] if below else lines)


def cell(rounds: list[float], base: list[float]) -> str:
    """Return the text of a cell."""
    if not rounds:
        return "-"
    median = statistics.median(rounds)
    text = f"{median:,.{0 if median >= 10 else 2}f}"
    # A tool that failed in some round has values of other rounds.
    if len(base) != len(rounds) or not all(base):
        return text
    return f"{text} ({statistics.median(a / b for a, b in zip(rounds, base, strict=True)):.2f})"


if __name__ == "__main__":
    main(*sys.argv[1:])
