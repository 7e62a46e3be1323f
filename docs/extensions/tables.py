"""Tables that follow from the code, in the place of comments: see `tools/page_tables.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.page_tables import filled

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", fill)
    return {"version": "1", "parallel_read_safe": True}


def fill(_app: Sphinx, _docname: str, content: list[str]) -> None:
    """Put the tables into a page."""
    content[0] = filled(content[0])
