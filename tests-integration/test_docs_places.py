"""The Python in the documents does the same on an isolated worker, and on one elsewhere.

`test_docs` runs it as it stands there, and has the convention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from documented import Block, check, moved, programs

if TYPE_CHECKING:
    from pathlib import Path

    from documented import Place

LOCAL = "executor.submit(outer, executor)"  # an executor cannot travel
PROGRAMS = [
    one for one in programs() if moved(one.code, "worker") != one.code and LOCAL not in one.code
]


@pytest.mark.parametrize("place", ["isolated", "worker"])
@pytest.mark.parametrize(
    "block",
    [PROGRAMS[0], *(pytest.param(one, marks=pytest.mark.nightly) for one in PROGRAMS[1:])],
    ids=lambda block: block.where,
)
def test_a_program_of_the_docs_prints_the_same_wherever_its_leaves_run(
    block: Block, place: Place, tmp_path: Path
) -> None:
    check(block, tmp_path, place)


def test_there_are_programs() -> None:
    assert len(PROGRAMS) > 20
