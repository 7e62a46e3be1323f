"""The navigation, and pages that stand elsewhere in the repository.

Pages are Markdown for code hosts, too, where a `toctree` would be shown as a piece of code. So
conf.py has the navigation, and the landing page gets it when Sphinx reads it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")
"""Where a link leads, if not to another site."""

NAMED = re.compile(r"\[([\w./-]+\.md)\]\((\1(?:#[\w-]+)?)\)")
"""A link whose text is the name of a page: the site shows the title."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_config_value("navigation", {}, "env")
    app.add_config_value("navigation_below", {}, "env")
    app.add_config_value("from_the_root", {}, "env")
    app.connect("source-read", complete)
    return {"version": "1", "parallel_read_safe": True}


def complete(app: Sphinx, docname: str, content: list[str]) -> None:
    """Add to a page the navigation that its source lacks."""
    mirrored: dict[str, str] = app.config.from_the_root
    if docname in mirrored:
        root = Path(app.srcdir).parent
        content[0] = (root / mirrored[docname]).read_text(encoding="utf-8")
        here = posixpath.dirname(mirrored[docname])
    elif Path(app.env.doc2path(docname)).suffix == ".md":
        here = posixpath.join("docs", posixpath.dirname(docname))
    else:
        return
    pages = {path: f"docs/{name}.md" for name, path in mirrored.items()}
    at = posixpath.join("docs", posixpath.dirname(docname))

    def moved(link: re.Match[str]) -> str:
        """Return the link as the page of the site needs it."""
        target = posixpath.normpath(posixpath.join(here, link[0]))
        if target in pages:
            return posixpath.relpath(pages[target], at)
        return posixpath.relpath(target, at) if docname in mirrored else link[0]

    content[0] = LINK.sub(moved, NAMED.sub(r"[](\2)", content[0]))
    if docname == app.config.root_doc:
        content[0] += "".join(_toctree(*part) for part in app.config.navigation.items())
    if docname in app.config.navigation_below:
        content[0] += _toctree("", app.config.navigation_below[docname])


def _toctree(caption: str, pages: list[str]) -> str:
    above = f":caption: {caption}\n" if caption else ""
    return "\n".join([f"\n```{{toctree}}\n:hidden:\n:glob:\n{above}", *pages, "```\n"])
