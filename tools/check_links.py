"""Every link in the Markdown of the repository leads somewhere: `python tools/check_links.py`.

Relative links need a file, and a heading where they name one. Addresses of other sites are only
read, not visited. None of them may be that of a Grain: this one has no address yet, and the sites
of that name are other projects'.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = ["*.md", "docs/**/*.md", "packages/*/README.md", ".github/**/*.md"]
FENCE = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
PICTURE = re.compile(r'<(?:img|source)\b[^>]*? (?:src|srcset)="([^"]*)"')
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
HOST = re.compile(r"[\w-]+(\.[\w-]+)+(:\d+)?")


def dead_links(root: Path) -> Iterator[str]:
    """Yield a sentence for each link of a repository that leads nowhere."""
    for page in sorted({page for pattern in PAGES for page in root.glob(pattern)}):
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        text = CODE.sub("", text)
        for target in LINK.findall(text) + PICTURE.findall(text):
            if why := trouble(page, target, root):
                yield f"{page.relative_to(root)}: ({target}) {why}"


def trouble(page: Path, target: str, root: Path) -> str:
    """Return what is wrong with a link, or an empty string."""
    try:
        parts = urlsplit(target)
    except ValueError as error:
        return f"is no address: {error}"
    if parts.scheme in ("http", "https"):
        if "grain" in f"{parts.netloc}{parts.path}".lower():
            return "is the site of another project of that name"
        return "" if HOST.fullmatch(parts.netloc) else "has no host"
    if parts.scheme or parts.netloc:
        return "" if parts.scheme == "mailto" else "is of a kind that is not expected here"
    file = (page.parent / parts.path).resolve() if parts.path else page.resolve()
    if not file.is_relative_to(root.resolve()):
        return "is outside of the repository"
    if not file.exists():
        return "does not exist"
    if parts.fragment and file.suffix == ".md" and parts.fragment not in anchors(file):
        return "names a heading that is not there"
    return ""


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as code hosts make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    counts: dict[str, int] = {}
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        counts[slug] = counts.get(slug, -1) + 1
        if counts[slug]:
            counts[f"{slug}-{counts[slug]}"] = 0
    return set(counts)


if __name__ == "__main__":
    dead = list(dead_links(Path(__file__).parents[1]))
    print(*dead, sep="\n", end="\n" if dead else "")
    sys.exit(bool(dead))
