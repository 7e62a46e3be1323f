"""Mermaid pictures as SVG within the page: nothing is loaded or computed where it is read.

mermaidx runs the library that code hosts run (mermaid.js), without a browser. Pictures are drawn
in colours that stand for a role; these become variables of site.css, which has them light and dark.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import mermaidx
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

TEXT, BORDER, LINE, FRAME = "#010102", "#010203", "#010204", "#010205"
BOX, GROUP, LABEL, NOTE = "#f0f101", "#f0f104", "#f0f105", "#f0f106"
ROLES = {
    TEXT: "text", BORDER: "border", LINE: "line", FRAME: "frame",
    BOX: "box", GROUP: "group", LABEL: "label", NOTE: "note",
}  # fmt: skip
THEME = {
    "background": LABEL,
    **dict.fromkeys(
        ("textColor", "primaryTextColor", "nodeTextColor", "titleColor", "actorTextColor",
         "signalTextColor", "labelTextColor", "loopTextColor", "noteTextColor",
         "transitionLabelColor", "stateLabelColor"),
        TEXT,
    ),
    **dict.fromkeys(
        ("primaryBorderColor", "nodeBorder", "actorBorder", "stateBorder", "activationBorderColor"),
        BORDER,
    ),
    **dict.fromkeys(
        ("lineColor", "signalColor", "transitionColor", "specialStateColor", "innerEndBackground"),
        LINE,
    ),
    **dict.fromkeys(
        ("clusterBorder", "actorLineColor", "labelBoxBorderColor", "noteBorderColor"), FRAME
    ),
    **dict.fromkeys(
        ("primaryColor", "mainBkg", "actorBkg", "stateBkg", "activationBkgColor"), BOX
    ),
    **dict.fromkeys(
        ("clusterBkg", "labelBoxBkgColor", "compositeBackground", "altBackground",
         "compositeTitleBackground", "secondaryColor", "tertiaryColor"),
        GROUP,
    ),
    **dict.fromkeys(("edgeLabelBackground", "labelBackgroundColor"), LABEL),
    "noteBkgColor": NOTE,
}  # fmt: skip


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("mermaid", Picture)
    return {"version": "1", "parallel_read_safe": True}


class Picture(SphinxDirective):
    """A picture: a fence of Markdown whose language is ``mermaid``."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Draw the picture; a mistake in it is an error of the build."""
        source = "\n".join(self.content)
        try:
            drawn = draw(source)
        except Exception as error:
            raise self.error(f"this is no Mermaid picture: {error}") from error
        html = f'<div class="picture">{drawn}</div>'
        return [nodes.raw(html, html, format="html")]


def draw(source: str) -> str:
    """Return the SVG of a picture, in colours that the page's style decides."""
    svg: str = mermaidx.render(
        source,
        config={
            "theme": "base",
            "fontFamily": "sans-serif",
            "themeVariables": THEME,
            "sequence": {"mirrorActors": False, "actorMargin": 90, "width": 130},
        },
    ).svg()
    # Several pictures can be on one page.
    svg = svg.replace("my-svg", f"picture-{hashlib.sha256(source.encode()).hexdigest()[:8]}")
    for colour, role in ROLES.items():
        svg = re.sub(re.escape(colour) + r"\b", f"var(--picture-{role})", svg)
    return svg
