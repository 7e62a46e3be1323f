"""The Python in the documents runs, and prints what it says.

The convention, for README.md, that of each package, and the documents of docs/ that have the line
``<!-- tested: every python block is a program -->``:

- a block that begins with ```` ```python ```` is a complete program. It is run as one, in an empty
  directory, and must end well;
- if a block ```` ```text ```` comes next, with nothing but blank lines between them, it is what
  the program writes to standard output, character by character;
- what is no complete program begins with ```` ```py ````, and is not looked at.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
MARK = "<!-- tested: every python block is a program -->"
DOCUMENTS = sorted(
    [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("packages/*/README.md")]
)
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\s*^```text\n(?P<printed>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A block of Python and where it stands."""

    where: str
    code: str
    printed: str | None


def blocks() -> list[Block]:
    """The programs of all documents."""
    blocks = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text) if MARK in text.splitlines() else ():
            line = text.count("\n", 0, match.start()) + 1
            where = f"{document.relative_to(ROOT)}:{line}"
            blocks.append(Block(where, match["code"], match["printed"]))
    return blocks


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block.where)
def test_a_program_of_the_docs_prints_what_its_page_says(block: Block, tmp_path: Path) -> None:
    """A program runs to its end, and prints what the document says."""
    program = tmp_path / "program.py"
    program.write_text(block.code, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-W", "error", program],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, f"{block.where}\n{done.stderr}"
    if block.printed is not None:
        assert block.printed == done.stdout, block.where


def test_there_are_programs() -> None:
    """The runner finds the blocks it is there for."""
    documents = {block.where.split(":")[0] for block in blocks()}

    assert "README.md" in documents
    assert "docs/delayed.md" in documents
    assert "packages/grain-delayed/README.md" in documents
