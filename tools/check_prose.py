"""Pages name their subject and use the common word: `python tools/check_prose.py`.

It reads the Markdown of the repository without code, quotes and comments, and looks for a few
turns at which a reader stumbles. A word that is itself the topic stands in quotes or backquotes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = ["*.md", "changes/**/*.md", "docs/**/*.md", "packages/*/README.md", ".github/**/*.md"]

HIDDEN = re.compile(
    r"^ *(?P<fence>`{3,}|~{3,}).*?^ *(?P=fence) *$"
    r"|<!--.*?-->"
    r"|(?P<code>`+)(?!`).+?(?<!`)(?P=code)(?!`)"
    r'|(?<!\w)"[^"\n]+"'
    r"|(?<=\])\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)",
    re.DOTALL | re.MULTILINE,
)
"""Blocks of code, comments, code in a sentence, quotes, and the targets of links."""

BEGIN = r"(?:^[ |]*(?:[-*]|\d+\.)? *|[.;!?|] +)"
"""The beginning of a line, of an item, of a cell or of a sentence."""

TURNS = [
    (r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|fewer\b)\w+", "is not a ..."),
    (r"\bfor ?ever\b", "always, or without end"),
    (r"\banew\b", "again, or from the beginning"),
    (r"\b(?:no|some|any)body\b", "no process, another user, ...: say who"),
    (r"\bfor people\b", "for display, as text, or the display name"),
    # Not the name of a parameter or field, nor what is left as it is.
    (r"(?<!leave )(?<!leaves )(?<!left )(?<!let )\balone\b(?!:)", "only, or by itself"),
]
"""Turns that docstrings and comments do without, too; see `check_docstrings`."""

RULES = [
    *TURNS,
    (rf"{BEGIN}(?:so |and |but )?who(?:ever)? (?![^.|]*\?)\w+", "if you ..., or a user who ..."),
    (rf"{BEGIN}(?:those|the ones?|one) (?:that|which|who|whose|of which)\b", "the noun"),
]
"""Turns that pages do without, and what to write instead."""

PATTERNS = [(re.compile(turn, re.IGNORECASE | re.MULTILINE), hint) for turn, hint in RULES]


def stumbles(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the words and a hint for each such turn of a page."""
    shown = HIDDEN.sub(lambda hidden: re.sub(r"[^\n]", "_", hidden[0]), text)
    for pattern, hint in PATTERNS:
        for found in pattern.finditer(shown):
            words = re.sub(r"^[\W\d]+", "", found[0])
            yield shown.count("\n", 0, found.end()) + 1, words, hint


def faults(root: Path) -> Iterator[str]:
    """Yield a sentence for each such turn in the pages of a repository, in order."""
    for page in sorted({page for pattern in PAGES for page in root.glob(pattern)}):
        text = page.read_text(encoding="utf-8")
        for line, words, hint in sorted(stumbles(text)):
            yield f'{page.relative_to(root)}:{line}: instead of "{words}" write: {hint}'


if __name__ == "__main__":
    bad = list(faults(Path(__file__).parents[1]))
    print("\n".join(bad) or "no page has a turn at which a reader stumbles")
    sys.exit(bool(bad))
