"""What `grain top` and `grain report` do where the libraries of `grain-cli[displays]` are not."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from grain_testkit.overviews import overview
from grain_testkit.small_log import END, HEADER, body, write

if TYPE_CHECKING:
    from pathlib import Path

# The command `grain`, in a Python that finds none of these libraries.
WITHOUT = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jinja2", "markupsafe", "rich", "textual"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
from grain.cli import main
main(prog_name="grain")
"""


def grain(*words: str, terminal: bool = False) -> tuple[int, str]:
    """Run the command without the libraries; return its exit code, and what it printed."""
    ours, its = pty.openpty() if terminal else os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT, *words],
            stdin=its if terminal else subprocess.DEVNULL,
            stdout=its,
            stderr=its,
            env={**os.environ, "TERM": "xterm"},
            check=False,
            timeout=120,
        )
        return done.returncode, os.read(ours, 65536).decode().replace("\r\n", "\n")
    finally:
        os.close(ours)
        os.close(its)


@pytest.mark.usefixtures("alone")
def test_on_a_terminal_top_says_in_a_sentence_what_to_install() -> None:
    code, printed = grain("top", terminal=True)

    assert 2 == code, printed
    assert printed.endswith(
        "Error: `grain top` on a terminal needs textual, which cannot be imported here (No module "
        "named 'textual'): pip install 'grain-cli[displays]'; or print text, as `grain top --once` "
        "and `grain top | cat` do\n"
    )


def test_top_prints_text_without_the_libraries(address: str, answering: Any) -> None:
    with answering(address, overview=overview()):
        code, printed = grain("top", "--once")

    assert 0 == code, printed
    assert "WORKERS" in printed


def test_report_says_in_a_sentence_what_a_page_needs_and_writes_none(alone: Path) -> None:
    write(HEADER, [*body(), END])

    code, printed = grain("report")

    assert 2 == code, printed
    assert printed.endswith(
        "Error: the page of `grain report` needs jinja2, which cannot be imported here (No module "
        "named 'jinja2'): pip install 'grain-cli[displays]'; or write a trace with --trace, or "
        "see `grain history`\n"
    )
    assert [] == list(alone.glob("*.html"))


def test_report_writes_a_trace_without_the_libraries(alone: Path) -> None:
    write(HEADER, [*body(), END])

    code, printed = grain("report", "--trace", "opt.json")

    assert 0 == code, printed
    assert json.loads((alone / "opt.json").read_text())["traceEvents"]
