"""The report of an invented campaign within the site, and pictures of it: made each time.

A page of the site has a comment in the place of the report, so that code hosts show nothing there.
The pictures are in docs/_static as well, where code hosts find them; those of the site are new.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from grain_testkit import report_picture

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PLACE = "<!-- an example of a report -->"
FILE = "_static/example-report.html"
FRAME = f"""
```{{raw}} html
<iframe class="report" src="{FILE}" title="An example of a report" loading="lazy"></iframe>
<p><a href="{FILE}">The example in a window of its own</a></p>
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
    """Write the report and its pictures into the site: the same for the same sources."""
    if error is not None or app.builder.format != "html":
        return
    page = report_picture.page(str(app.config.release))
    file = Path(app.outdir) / FILE
    file.parent.mkdir(exist_ok=True)
    file.write_text(page, encoding="utf-8")
    for name, dark in report_picture.FILES.items():
        picture = report_picture.picture(page, dark=dark)
        (file.parent / name).write_text(picture, encoding="utf-8")
