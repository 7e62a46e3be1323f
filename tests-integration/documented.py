"""Programs in the documents: where they stand, what they print, and how they are run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from grain_testkit.programs import run

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


def programs() -> list[Block]:
    """Return the programs of all documents."""
    blocks = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text) if MARK in text.splitlines() else ():
            line = text.count("\n", 0, match.start()) + 1
            where = f"{document.relative_to(ROOT)}:{line}"
            blocks.append(Block(where, match["code"], match["printed"]))
    return blocks


def check(block: Block, folder: Path) -> None:
    """Run a program in an empty folder: it runs to its end, and prints what the document says."""
    program = folder / "program.py"
    program.write_text(block.code, encoding="utf-8")
    home = folder / ".home"  # some programs meet at a file there
    home.mkdir()

    done = run(
        "-W", "error", program, cwd=folder, timeout=240, env={**os.environ, "HOME": str(home)}
    )

    assert done.returncode == 0, f"{block.where}\n{done.stderr}"
    if block.printed is not None:
        assert block.printed == done.stdout, block.where
