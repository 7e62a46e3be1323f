"""Old names of pages lead to the pages that have their text now: `moved` in conf.py.

An address that names a heading keeps it, as headings mostly kept their names. Without a script, or
where the heading has another name now, a reader arrives at the place that conf.py says.
"""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>This page has moved</title>
<script>location.replace("{page}" + (location.hash || "{place}"))</script>
<meta http-equiv="refresh" content="1; url={page}{place}">
</head><body><p>This page has moved: <a href="{page}{place}">{page}</a></p></body></html>
"""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_config_value("moved", {}, "html")
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True}


def write(app: Sphinx, error: Exception | None) -> None:
    """Write a page at each old name."""
    if error or app.builder.format != "html":
        return
    for old, new in app.config.moved.items():
        name, mark, heading = new.partition("#")
        page = posixpath.relpath(f"{name}.html", posixpath.dirname(old) or ".")
        text = PAGE.format(page=page, place=mark + heading)
        Path(app.outdir, f"{old}.html").write_text(text, encoding="utf-8")
