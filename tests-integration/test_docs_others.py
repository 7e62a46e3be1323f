"""The other half of the Python in the documents, see `test_docs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from documented import Block, check, programs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("block", programs()[1::2], ids=lambda block: block.where)
def test_a_program_of_the_docs_prints_what_its_page_says(block: Block, tmp_path: Path) -> None:
    check(block, tmp_path)
