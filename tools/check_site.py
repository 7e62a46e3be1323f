"""The site that `nox -s docs` builds is whole: `python tools/check_site.py build/docs`.

Every link within it leads somewhere, every page is in the navigation, and nothing is loaded from
elsewhere, so that it can be read on a node without a network.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

MADE = {"genindex.html", "py-modindex.html", "search.html", "_static/example-report.html"}
"""Pages that Sphinx and docs/extensions make; other pages link or show them."""

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "srcset"}


class Page(HTMLParser):
    """The links, anchors and loaded files of a page.

    Attributes:
        links: where links lead.
        loaded: what a browser loads to show it.
        anchors: what a link can name.
        navigation: the links of the side bar.
        moved: True for an old name, which leads to another page.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.navigation: set[str] = set()
        self.moved = False
        self._depth = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at a tag."""
        attributes = {name: value or "" for name, value in attrs}
        if "id" in attributes:
            self.anchors.add(attributes["id"])
        if attributes.get("http-equiv") == "refresh":
            self.moved = True
        if tag == "a" and "href" in attributes:
            self.links.add(attributes["href"])
            if self._depth:
                self.navigation.add(attributes["href"])
        if tag in LOADED and LOADED[tag] in attributes and attributes.get("rel") != "canonical":
            self.loaded.add(attributes[LOADED[tag]])
        if tag == "div" and (self._depth or "sidebar-tree" in attributes.get("class", "")):
            self._depth += 1

    def handle_endtag(self, tag: str) -> None:
        """Leave the side bar with its element."""
        if tag == "div" and self._depth:
            self._depth -= 1


def faults(site: Path) -> Iterator[str]:
    """Yield a sentence for each thing that is wrong."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        name = path.relative_to(site)
        for target in page.loaded:
            parts = urlsplit(target)
            if parts.scheme not in ("", "data") or parts.netloc:
                yield f"{name} loads {target}"
            elif not parts.scheme and not (path.parent / unquote(parts.path)).exists():
                yield f"{name} loads {target}, which does not exist"
        for target in page.links:
            parts = urlsplit(target)
            if parts.scheme:
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            if not to.exists():
                yield f"{name} links to {target}, which does not exist"
            elif parts.fragment and to.suffix == ".html":
                linked = pages.get(site.resolve() / to.relative_to(site.resolve())) or pages[to]
                if unquote(parts.fragment) not in linked.anchors:
                    yield f"{name} links to {target}, where nothing has that name"
    shown = {"index.html", *(link.split("#")[0] for link in pages[site / "index.html"].navigation)}
    for path, page in pages.items():
        name = path.relative_to(site)
        if str(name) not in shown | MADE and name.parts[0] != "_modules" and not page.moved:
            yield f"{name} is not in the navigation"


if __name__ == "__main__":
    lines = sorted(faults(Path(sys.argv[1]).resolve()))
    print(*lines, sep="\n", end="\n" if lines else "")
    sys.exit(bool(lines))
