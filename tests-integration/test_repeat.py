"""What `tools/repeat.py` reads in the output of runs, and what it lists."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tools.repeat import ROOT, Run, read, table

if TYPE_CHECKING:
    from pathlib import Path

OUTPUT = """\
==== tests/test_a.py::test_waits has not ended after 100 s
FAILED tests/test_b.py::test_says[a word - and more] - AssertionError: assert 1 == 2
\x1b[31mERROR\x1b[0m tests/test_b.py::test_begins - OSError: no room
FAILED tests/test_b.py::test_ends
3 failed, 12 passed, 2 skipped in 1.00s
nox > Session packages failed.
40 passed in 2.00s
"""


def test_the_output_of_several_runs_of_pytest_is_read_as_one() -> None:
    passed, red = read(OUTPUT)

    assert 52 == passed
    assert {
        "tests/test_a.py::test_waits": "slow",
        "tests/test_b.py::test_says[a word - and more]": "AssertionError: assert 1 == 2",
        "tests/test_b.py::test_begins": "OSError: no room",
        "tests/test_b.py::test_ends": "",
    } == red


def test_a_test_is_listed_with_the_runs_that_it_was_not_green_in() -> None:
    runs = [
        Run(1, "3.10.13", 0, 1, 60, 9, {"test_a": "no"}),
        Run(2, "3.13.0", 4, 0, 90, 10),
        Run(3, "3.13.0", 0, 1, 60, 8, {"test_a": "no", "test_b": "1|2"}),
    ]

    lines = table(runs).splitlines()

    assert "| 1 | 3.10.13 | 0 | 1.0 | 9 | 1 |" in lines
    assert "| 2 | 3.13.0 | 4 | 1.5 | 10 | green |" in lines
    assert ["| test_a | 1, 3 | no |", "| test_b | 3 | 1\\|2 |"] == lines[-2:]


def test_tests_run_as_often_as_one_asks_and_those_that_are_red_once_are_listed(
    tmp_path: Path,
) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "from pathlib import Path\n"
        "def test_runs_once():\n    Path(__file__).with_name('ran').touch(exist_ok=False)\n"
        "def test_ends():\n    pass\n"
    )
    command = [sys.executable, "tools/repeat.py", "--runs", "2", "--busy", "1", "--logs"]
    words = [str(tmp_path / "logs"), "--", "-q", "-p", "no:cacheprovider", str(test)]

    done = subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True, timeout=300)

    assert 1 == done.returncode, done.stdout + done.stderr
    assert "test_it.py::test_runs_once | 2 |" in done.stdout
    assert "test_ends" not in done.stdout
    assert ["run-1.log", "run-2.log"] == sorted(path.name for path in tmp_path.glob("logs/*"))
