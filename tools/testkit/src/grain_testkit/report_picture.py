"""The report of an invented campaign, as a page and as a picture of its beginning.

The picture is the page itself in an SVG, without what a picture cannot use: its script, its other
sections, and the rules of style for other windows. It needs no browser to be made, is the same for
the same sources, and shows its text in the reader's own font.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from grain.cli.report.collecting import collect
from grain.cli.report.page import render
from grain.facts.clocks import clocks_of
from grain_testkit.campaign import Campaign

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH, HEIGHT = 1000, 930
"""Pixels of the picture."""

FILES = {"report-light.svg": False, "report-dark.svg": True}
"""The names of the pictures, and whether they are for dark pages."""

_VOID = {"br", "hr", "image", "img", "input", "line", "link", "meta", "path", "rect"}
# HTML's parser makes lower case of the names that SVG has.
_CAMEL = {"viewbox": "viewBox", "preserveaspectratio": "preserveAspectRatio"}


def page(version: str) -> str:
    """Return the page of the campaign.

    Args:
        version: the version of Grain that makes it.
    """
    lines = list(Campaign().lines())
    with _in_utc():
        report = collect(lines, clocks=clocks_of(lines))
        return render(report, written=False, version=version, notes=[])


def picture(html: str, *, dark: bool) -> str:
    """Return the picture of a page: its heading, its figures and its timeline."""
    parts = _Parts()
    parts.feed(html)
    dark_rules = r"@media screen and \(prefers-color-scheme: dark\) (\{.*?\n\})"
    style = re.sub(dark_rules, r"@media screen \1" if dark else "", parts.style, flags=re.DOTALL)
    style = style.partition("@media (max-width: 40rem)")[0]
    style = re.sub(r"^body \{", ".page {", style, flags=re.MULTILINE)
    style += _STYLE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">\n<style>{escape(style)}</style>\n'
        f'<foreignObject width="{WIDTH}" height="{HEIGHT}">'
        f'<div xmlns="http://www.w3.org/1999/xhtml" class="page">\n{parts.text}\n</div>'
        "</foreignObject>\n</svg>\n"
    )


_STYLE = f"""
.page {{
  width: {WIDTH}px; height: {HEIGHT}px; max-width: none; overflow: hidden;
  border: 1px solid var(--line); border-radius: 8px;
}}
.page h2 {{ margin-top: 1.5rem; }}
"""


class _Parts(HTMLParser):
    """The parts of a page that the picture has, as XML.

    Attributes:
        style: the style sheet of the page.
    """

    def __init__(self) -> None:
        super().__init__()
        self.style = ""
        self._out: list[str] = []
        self._within: list[str] = []
        self._depth = 0  # of the part that is taken, or left out of one
        self._left_out = 0

    @property
    def text(self) -> str:
        return "".join(self._out)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        closed = tag in _VOID
        if not closed:
            self._within.append(tag)
        if self._left_out:
            self._left_out += not closed
        elif self._depth and _is_left_out(tag, attributes):
            self._left_out = 1
        elif self._depth or tag == "header" or attributes.get("id") in {"headline", "timeline"}:
            self._depth += not closed
            if tag == "svg":
                attributes["xmlns"] = "http://www.w3.org/2000/svg"
            words = [
                f" {_CAMEL.get(name, name)}={quoteattr(value or '')}"
                for name, value in attributes.items()
            ]
            self._out.append(f"<{tag}{''.join(words)}{'/' if closed else ''}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        self._within.pop()
        if self._left_out:
            self._left_out -= 1
        elif self._depth:
            self._depth -= 1
            self._out.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._within and self._within[-1] == "style":
            self.style += data
        elif self._depth and not self._left_out:
            self._out.append(escape(data))


def _is_left_out(tag: str, attributes: dict[str, str | None]) -> bool:
    return tag == "nav" or attributes.get("class") in {"interactive", "hint"}


@contextmanager
def _in_utc() -> Iterator[None]:
    """Have local time be UTC meanwhile: the page is the same everywhere."""
    zone = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        if zone is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = zone
        time.tzset()
