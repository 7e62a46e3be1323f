"""Each message that the documentation quotes is in the sources: `python tools/check_messages.py`.

A page takes part by the line ``<!-- checked: every message is in the sources -->``. Its quotes are
its headings of the third level, with or without backquotes, and the first column of each table
whose first heading is ``message``. In a quote, ``...`` stands for a part that differs from place to
place; what is left must stand in one string of the sources, in that order. So a change of a message
changes the page, and no page quotes a message that Grain no longer prints.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MARK = "<!-- checked: every message is in the sources -->"
SOURCES = "packages/*/src/**/*.py"
LEAST = 8
"""The least number of letters that a quote must have, as a shorter one proves nothing."""

GAP = "\0"
"""The place of a value in a message."""


def missing_messages(root: Path) -> Iterator[str]:
    """Yield a line for each quote of a repository's documentation that its sources lack."""
    messages = [
        message
        for path in sorted(root.glob(SOURCES))
        for _, message in messages_of(path.read_text(encoding="utf-8"))
    ]
    for page in sorted(root.glob("docs/**/*.md")):
        text = page.read_text(encoding="utf-8")
        if MARK not in text.splitlines():
            continue
        quotes = list(quotes_of(text))
        if not quotes:
            yield f"{page.relative_to(root)}: quotes no message"
        for line, quote in quotes:
            if sum(map(str.isalpha, quote)) < LEAST:
                yield f"{page.relative_to(root)}:{line}: is too short to be looked for: {quote}"
            elif not is_printed(quote, messages):
                yield f"{page.relative_to(root)}:{line}: is in no source: {quote}"


def quotes_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and the text of each message that a page quotes."""
    column = fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced:
            pass
        elif heading := re.match(r"### (`*) ?(?P<quote>.+?) ?\1$", line):
            yield number, heading["quote"]
        elif not line.startswith("|"):
            column = False
        elif re.match(r"\| *message *\|", line):
            column = True
        elif column and (cell := re.match(r"\| *(`+)(?P<quote>.+?)\1 *\|", line)):
            yield number, cell["quote"].strip()


def is_printed(quote: str, messages: Iterable[str]) -> bool:
    """Return True if one of the messages has every part of a quote, in order."""
    parts = [re.escape(part.strip()) for part in quote.split("...") if part.strip()]
    pattern = re.compile(".*?".join(parts), re.DOTALL)
    return any(pattern.search(message) for message in messages)


def messages_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of the strings of a module, with a gap for each value in one.

    Docstrings are not messages, and neither are comments.
    """
    tree = ast.parse(source)
    inner: set[ast.AST] = set()
    for node in ast.walk(tree):  # breadth first, so a string comes before its parts
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(node.value)  # a docstring
        if node in inner:
            inner.update(ast.iter_child_nodes(node))
        elif isinstance(node, ast.expr) and (text := joined(node)) is not None:
            inner.update(ast.iter_child_nodes(node))
            yield node.lineno, text.replace("\n", " ")


def joined(node: ast.AST) -> str | None:
    """Return the text of a string, also of a composed one; None for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(joined(value) or GAP for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            ends = joined(left), joined(right)
            return None if ends == (None, None) else "".join(end or GAP for end in ends)
    return None


if __name__ == "__main__":
    missing = list(missing_messages(Path(__file__).parents[1]))
    print(*missing, sep="\n", end="\n" if missing else "")
    sys.exit(bool(missing))
