"""A small report within the site, of a mission that never was: `grain report` makes it each time.

The page of the site has a comment in its place, so that code hosts show nothing there.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grain.cli.report.collecting import collect
from grain.cli.report.page import render
from grain_testkit.event_logs import SyntheticMission

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PLACE = "<!-- a small report -->"
FILE = "_static/small-report.html"
FRAME = f"""
```{{raw}} html
<iframe class="report" src="{FILE}" title="A small report" loading="lazy"></iframe>
<p><a href="{FILE}">The small report in a window of its own</a></p>
```
"""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", put)
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True}


def put(_app: Sphinx, _docname: str, content: list[str]) -> None:
    """Put the report where a page has the comment."""
    content[0] = content[0].replace(PLACE, FRAME)


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the report into the site: the same for the same sources."""
    if error is not None or app.builder.format != "html":
        return
    zone = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        report = collect(SyntheticMission(120, seed=6, workers=3, failing=0.08).lines())
        page = render(report, written=False, version=str(app.config.release), notes=[])
    finally:
        if zone is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = zone
        time.tzset()
    file = Path(app.outdir) / FILE
    file.parent.mkdir(exist_ok=True)
    file.write_text(page, encoding="utf-8")
