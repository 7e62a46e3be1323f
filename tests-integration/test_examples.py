"""The programs under docs/examples, run as users run them."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest
from tools.recording import STATIC, text_of

from grain_testkit.programs import run

DOCS = Path(__file__).parent.parent / "docs"
EXAMPLES = DOCS / "examples"
NUMBERS = range(1, 10)


def run_example(name: str, *words: str) -> tuple[list[str], list[str]]:
    """Return the lines that a program writes to standard output and to standard error."""
    return run_program(str(EXAMPLES / name), *words)


# Of two that end a tenth of a second apart, a process that was stopped meanwhile finds both due,
# and may resume either first. So the order is looked at where time passes while all tasks sleep.
VIRTUAL = """\
import sys
from functools import partial
from pathlib import Path
import trio
from trio.testing import MockClock
trio.run = partial(trio.run, clock=MockClock(autojump_threshold=0))
exec(compile(Path(sys.argv[1]).read_text(), sys.argv[1], "exec"))
"""


def in_order(name: str) -> list[str]:
    """Return the lines that the program writes to standard output in virtual time."""
    return run_program("-c", VIRTUAL, str(EXAMPLES / name))[0]


def run_program(*words: str) -> tuple[list[str], list[str]]:
    """The lines of standard output and standard error of ``python WORDS``."""
    done = run(*words, timeout=600)
    done.check_returncode()
    return done.stdout.splitlines(), done.stderr.splitlines()


def printed_on_the_page(number: int) -> list[str]:
    """Return what a program of the tutorial prints itself, by the block of that number there."""
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    lines = blocks[number].splitlines()
    return [line for line in lines if re.match(r"(start|done) adding|elevated_sum", line)]


def shape(line: str) -> str:
    """Return a line of the main job without its numbers."""
    line = re.sub(r"\d+(\.\d+)?", "#", " ".join(line.split()))
    return re.sub(r"( x #)+$", "", line.replace("+", "-"))


def check_frame(stderr: list[str], shortest: float) -> None:
    """The lines that a mission adds to what the program itself prints."""
    # Where it takes ten seconds, it names its report.
    config, cleaning, clear, *summary, elapsed = (x for x in stderr if "grain report" not in x)

    assert config == "Config file is disabled, using default settings."
    assert re.fullmatch(r"worker \S+\(local\) starts cleaning up", cleaning)
    assert re.fullmatch(r"worker \S+\(local\) clear", clear)
    ended = re.compile(r"\d+ done(, cores \d+ % given(, \d+ % of that computing)?)?")
    assert all(ended.fullmatch(line) for line in summary)
    match = re.fullmatch(r"Time elapsed for all jobs: (\d+\.\d{3})s", elapsed)
    assert match
    assert float(match[1]) >= shortest


def test_tutorial_without_resources() -> None:
    """Three tasklets that ask for nothing all start before the first is done, as the page says."""
    stdout = in_order("tutorial_1_delayed.py")
    shuffled, stderr = run_example("tutorial_1_delayed.py")

    assert printed_on_the_page(1) == stdout
    assert [f"start adding to {x} with resource Ø" for x in (1, 2, 3)] == shuffled[:3]
    assert sorted(stdout) == sorted(shuffled)
    check_frame(stderr, 0.3)


def test_tutorial_with_resources() -> None:
    """With two cores, the third tasklet starts on the core that the first gave back."""
    stdout = in_order("tutorial_2_resources.py")
    _, stderr = run_example("tutorial_2_resources.py")

    expected = printed_on_the_page(2)
    # Two that start in the same instant may speak in either order.
    assert set(expected[:2]) == set(stdout[:2])
    assert expected[2:] == stdout[2:]
    check_frame(stderr, 0.4)


def test_tutorial_with_branches() -> None:
    """Branches run in parallel; never are more leaves under way than there are cores."""
    stdout, stderr = run_example("tutorial_3_branches.py")

    under_way: dict[int, str] = {}
    for line in stdout:
        if start := re.fullmatch(r"start adding to (\d) with resource CPU_Cores\(\[(\d)\]\)", line):
            assert start[2] not in under_way.values()
            under_way[int(start[1])] = start[2]
        elif done := re.fullmatch(r"done adding to (\d)", line):
            del under_way[int(done[1])]
    sums = {"elevated_sum([1, 2, 3]) = 9", "elevated_sum([4, 5, 6]) = 18"}
    assert sums | {"elevated_sum([7, 8, 9]) = 27"} <= set(stdout)
    assert {f"done adding to {x}" for x in NUMBERS} <= set(stdout)
    check_frame(stderr, 2.3)


@pytest.mark.parametrize(
    ("largest", "count"), [(["97"], 50), pytest.param([], 73, marks=pytest.mark.nightly)]
)
def test_the_main_job_factors_every_number_on_each_cpu(largest: list[str], count: int) -> None:
    """The main job factors every number, checks the products, and uses each CPU that it has."""
    stdout, _ = run_example("factor.py", *largest)

    rows = [line.split() for line in stdout[1:-2]]
    assert count == len(rows)
    (mersenne_67,) = [row for row in rows if row[:3] == ["2^67", "-", "1"]]
    assert ["193707721", "x", "761838257287"] == mersenne_67[5:]
    assert stdout[-2].endswith("all products are right")
    assert re.fullmatch(r"\S+ s on 1 core, \S+ s on \d+: \S+ times as fast", stdout[-1])
    recorded = text_of(STATIC / "demo.svg").splitlines()[1:]
    assert {shape(line) for line in stdout[1:]} == {shape(line) for line in recorded}


@pytest.mark.skipif(shutil.which("xtb") is None, reason="needs the program xtb (Debian: xtb)")
def test_xtb_finds_the_more_stable_conformers() -> None:
    """A real chemistry code finds bent water and twisted hydrogen peroxide more stable."""
    stdout, _ = run_example("xtb_conformers.py")

    assert [
        "             water  bent        0.000 eV",
        "             water  linear      1.419 eV",
        " hydrogen peroxide  twisted     0.000 eV",
        " hydrogen peroxide  flat        0.417 eV",
    ] == stdout


def test_the_tutorial_quotes_its_programs_as_they_are() -> None:
    """Functions and calls of `run` in a fragment are those of a program that is run here."""
    tutorial = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    fragments = re.findall(r"^```py\n(.*?)^```$", tutorial, re.DOTALL | re.MULTILINE)
    programs = "".join(p.read_text(encoding="utf-8") for p in EXAMPLES.glob("tutorial_*.py"))

    quoted = [statement for fragment in fragments for statement in statements(fragment)]
    assert len(quoted) >= 5
    assert [] == [statement for statement in quoted if statement not in statements(programs)]


def statements(text: str) -> list[str]:
    """Return the functions and the calls of `run` in a text, without annotations."""
    tree = compile(text, "fragment", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AsyncFunctionDef):
            node.returns = None
    lines = [ast.unparse(node) for node in tree.body]
    return [line for line in lines if "async def " in line or line.startswith("run(")]
