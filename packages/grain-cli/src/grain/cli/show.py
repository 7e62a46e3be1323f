"""Text for people and programs: tables, times, resources, JSON. Pure but for `print_json`.

Nothing here writes an escape code, and `clean` removes those of other processes: a worker's name
must not move the cursor of the user who lists it.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def clean(text: object, *, keep: str = "") -> str:
    """Replace every character that controls a terminal by a question mark.

    These are Unicode's categories Cc (C0, C1, DEL), Cf (such as marks that turn the direction of
    writing), Cs, Zl and Zp.

    Args:
        text: The text to show.
        keep: Characters to keep.
    """
    return "".join(
        one
        if one in keep or unicodedata.category(one) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        else "?"
        for one in str(text)
    )


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format rows below their heads, in columns as wide as needed; return "" without rows."""
    cells = [[clean(cell) for cell in row] for row in rows]
    if not cells:
        return ""
    lines = [list(heads), *cells]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    shown = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
             for line in lines)  # fmt: skip
    return "\n".join([title, *(line.rstrip() for line in shown), ""])


def span(seconds: float | None) -> str:
    """Format seconds as ``00:42:10`` or ``2-03:00:00``; None as ``-``."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def resources(data: Any) -> str:
    """Format resources from plain data as a user would write them; unknown kinds are shown, too."""
    from grain.resource import from_data

    try:
        return from_data(data, unknown="keep").ask()
    except (TypeError, ValueError, AttributeError):
        import json

        return json.dumps(data)


def print_json(data: Any) -> None:
    """Print data as JSON; infinities and NaN become null."""
    import json
    from math import isfinite

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): plain(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [plain(one) for one in value]
        return None if isinstance(value, float) and not isfinite(value) else value

    click.echo(json.dumps(plain(data), indent=2))
