"""Showing things: tables, spans of time, resources, JSON. Pure but for `print_json`.

Nothing here writes an escape code, and what other processes say of themselves cannot: a worker's
name must not be able to move the cursor of whoever lists it.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def clean(text: object, *, keep: str = "") -> str:
    """A text without what controls a terminal: each such character becomes a question mark.

    That is the categories Cc (C0, C1, DEL), Cf (which turns the direction of writing, say), Cs,
    Zl and Zp of Unicode.

    Args:
        text: What to show.
        keep: Characters to be left alone.
    """
    return "".join(
        one
        if one in keep or unicodedata.category(one) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        else "?"
        for one in str(text)
    )


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows below their heads, in columns as wide as they need to be; empty without rows."""
    cells = [[clean(cell) for cell in row] for row in rows]
    if not cells:
        return ""
    lines = [list(heads), *cells]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    shown = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
             for line in lines)  # fmt: skip
    return "\n".join([title, *(line.rstrip() for line in shown), ""])


def span(seconds: float | None) -> str:
    """A span of time: ``00:42:10``, ``2-03:00:00``; ``-`` for none."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def resources(data: Any) -> str:
    """Resources that came as data, as one would ask for them; a kind unknown here is shown, too."""
    from grain.resource import from_data

    try:
        return from_data(data, unknown="keep").ask()
    except (TypeError, ValueError, AttributeError):
        import json

        return json.dumps(data)


def print_json(data: Any) -> None:
    """Print data for programs; the numbers that JSON lacks become null."""
    import json
    from math import isfinite

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): plain(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [plain(one) for one in value]
        return None if isinstance(value, float) and not isfinite(value) else value

    click.echo(json.dumps(plain(data), indent=2))
