"""Old names of pages: each leads a browser to the page that has its answers now."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# A link to an old heading keeps it, as the new page has most of them.
PAGE = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>Moved</title>
<meta http-equiv="refresh" content="1; url={0}">
<script>location.replace(location.hash ? "{1}" + location.hash : "{0}")</script>
</head><body><p>This page is now a part of <a href="{0}">another one</a>.</p></body></html>
"""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_config_value("moved", {}, "env")
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True}


def write(app: Sphinx, error: Exception | None) -> None:
    """Write a page for each old name; `tools/check_site.py` checks where it leads."""
    if error is not None or app.builder.format != "html":
        return
    for name, target in app.config.moved.items():
        page, _, heading = target.partition("#")
        to = f"{page}.html" + (f"#{heading}" if heading else "")
        text = PAGE.format(html.escape(to), f"{page}.html")
        Path(app.outdir, f"{name}.html").write_text(text, encoding="utf-8")
