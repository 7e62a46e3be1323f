"""The shell in the documents runs, and prints what it says.

The convention, for the documents of docs/ that have the line
``<!-- tested: every shell block is run -->``:

- a block that begins with ```` ```sh ```` is run by ``sh -e``, all blocks of a document in one
  directory, which is empty at first, and must end well;
- if a block ```` ```text ```` comes next, with nothing but blank lines between them, it is what
  the block writes to standard output, character by character;
- what is not to be run begins with ```` ``` ````.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MARK = "<!-- tested: every shell block is run -->"
DOCUMENTS = [
    document
    for document in sorted(ROOT.glob("docs/*.md"))
    if MARK in document.read_text(encoding="utf-8").splitlines()
]
BLOCK = re.compile(
    r"^```sh\n(?P<code>.*?)^```\n(?:\s*^```text\n(?P<printed>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_the_shell_blocks_of_a_page_print_what_it_says(document: Path, tmp_path: Path) -> None:
    """The blocks of a document run one after another, and print what it says."""
    text = document.read_text(encoding="utf-8")
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"HOME": str(home), "PATH": path, "LC_ALL": "C.UTF-8"}
    blocks = list(BLOCK.finditer(text))
    assert blocks
    for block in blocks:
        where = f"{document.name}:{text.count(chr(10), 0, block.start()) + 1}"
        done = subprocess.run(
            ["sh", "-e", "-c", block["code"]],
            cwd=work, env=env, capture_output=True, encoding="utf-8", timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{where}\n{done.stderr}"
        if block["printed"] is not None:
            assert block["printed"] == done.stdout, where


def test_there_are_documents() -> None:
    """The runner finds the documents it is there for."""
    assert "map.md" in [document.name for document in DOCUMENTS]
