"""The page about the format: each field of a line has a meaning, and the page names the version."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from grain.eventlog import schema
from grain.eventlog.causes import RunFailure
from grain.eventlog.usage import LearnedAmount, RunMember, Usage

if TYPE_CHECKING:
    import msgspec

PAGE = Path(__file__).parents[4] / "docs" / "event-log.md"
KINDS: tuple[type[msgspec.Struct], ...] = (
    *get_args(schema.AnyLine), Usage, LearnedAmount, RunMember, schema.FunctionStanding, RunFailure,
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_field_of_a_line_has_a_meaning(kind: type[msgspec.Struct]) -> None:
    """The site has them as a table, see `tools/page_tables.py`."""
    said = "\n".join(inspect.getdoc(cls) or "" for cls in kind.__mro__)

    assert [] == [
        name
        for name in kind.__struct_fields__
        if not re.search(rf"^    {name}: \S", said, re.MULTILINE)
    ]


@pytest.mark.skipif(not PAGE.exists(), reason="docs/ is not part of a source package")
def test_the_page_names_the_version() -> None:
    assert f"The version is {schema.VERSION}." in PAGE.read_text(encoding="utf-8")
