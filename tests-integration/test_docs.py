"""The Python in the documents runs, and prints what it says.

The convention, for README.md, that of each package, and the documents of docs/ that have the line
``<!-- tested: every python block is a program -->``:

- a block that begins with ```` ```python ```` is a complete program. It is run as one, in an empty
  directory, and must end well;
- if a block ```` ```text ```` comes next, with nothing but blank lines between them, it is what
  the program writes to standard output, character by character;
- what is not a complete program begins with ```` ```py ````, and is not looked at.

`test_docs_others.py` has half of them, as one process runs all tests of a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from documented import Block, check, programs

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = programs()


@pytest.mark.parametrize("block", PROGRAMS[::2], ids=lambda block: block.where)
def test_a_program_of_the_docs_prints_what_its_page_says(block: Block, tmp_path: Path) -> None:
    check(block, tmp_path)


def test_there_are_programs() -> None:
    """The runner finds the blocks it is there for."""
    documents = {block.where.split(":")[0] for block in PROGRAMS}

    assert "README.md" in documents
    assert "docs/delayed.md" in documents
    assert "packages/grain-delayed/README.md" in documents
