"""Text for users and programs: tables, times, resources, JSON. Pure but for `print_json`.

Nothing here writes an escape code, and `clean` removes those of other processes: a worker's name
must not move the cursor of the user who lists it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from grain.edge.questions import ProgramState, WhyAnswer
    from grain.facts.rows import Worker

_LONGEST = 1000  # characters of a cell
_WIDEST = 80  # characters of a column without a limit; a longer cell widens only its own line
_NARROWEST = 5  # characters of a column that is narrowed: one of each end, and the dots


_ENDINGS = {
    "value": "is done",
    "error": "has failed",
    "crashed": "was given up after crashes",
    "cancelled": "was cancelled",
    "lost": "was lost with its worker",
    "unfinished": "had not ended when its mission did",
}


# Unicode's categories: C0, C1 and DEL; ends of lines and paragraphs.
_CONTROLS = frozenset({"Cc", "Zl", "Zp"})
# Also such as marks that turn the direction of writing, and bytes that are not text.
_INVISIBLE = _CONTROLS | {"Cf", "Cs"}
_PERHAPS = re.compile(r"[^ -~]")


def clean(text: object, *, keep: str = "") -> str:
    """Replace every character that controls a terminal by a question mark.

    These are Unicode's categories Cc (C0, C1, DEL), Cf (such as marks that turn the direction of
    writing), Cs (bytes that are not UTF-8), Zl and Zp.
    """
    return _without(_INVISIBLE, str(text), keep)


def one_line(text: object, *, keep: str = "") -> str:
    """Replace controls and line breaks by question marks, in text that programs read by the line.

    Marks of direction, and bytes that are not UTF-8, are part of a name that a program may look
    for; on a terminal `grain.cli.streams` replaces these as well.
    """
    return _without(_CONTROLS, str(text), keep)


def _without(categories: Collection[str], text: str, keep: str) -> str:
    def shown(found: re.Match[str]) -> str:
        one = found[0]
        return one if one in keep or unicodedata.category(one) not in categories else "?"

    return _PERHAPS.sub(shown, text)


def in_several_clusters(workers: Iterable[Worker]) -> bool:
    """Return True if workers of an answer state different clusters, or some state none."""
    return len({worker.cluster for worker in workers}) > 1


class Row(NamedTuple):
    """A row of a table."""

    cells: Sequence[object]
    more: Sequence[str] = ()


def table(
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[object] | Row],
    most: int | None = None,
    elastic: Collection[int] = (),
) -> str:
    """Format rows below their heads, in columns as wide as needed; return "" without rows.

    Args:
        most: columns of the terminal, which no line exceeds: the widest cells are shortened in the
            middle, and sentences folded between words. None for no limit but one of a cell.
        elastic: which columns are shortened, by number; others only where that is not enough. None
            of them means all.
    """
    given = [row if isinstance(row, Row) else Row(row) for row in rows]
    if not given:
        return ""
    lines = [list(heads), *([_cell(cell) for cell in row.cells] for row in given)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    padding = [min(width, _WIDEST) for width in widths]
    if most is not None:
        room = most - 2 * (len(widths) - 1)
        for columns in (elastic, range(len(widths))):
            widths = _narrowed(widths, room, columns)
        padding = widths
    text = [title]
    for line, row in zip(lines, [Row(heads), *given], strict=True):
        cells = (shortened(cell, width) for cell, width in zip(line, widths, strict=True))
        padded = (cell.ljust(width) for cell, width in zip(cells, padding, strict=True))
        text.append("  ".join(padded).rstrip())
        text += (one for sentence in row.more for one in folded(clean(sentence), most, "  "))
    return "\n".join([*text, ""])


def _cell(value: object) -> str:
    return clean(shortened(str(value), _LONGEST))


def _narrowed(widths: list[int], most: int, columns: Collection[int]) -> list[int]:
    """Return widths of at most a sum, by making the widest of these columns smaller."""
    widths = list(widths)
    while sum(widths) > most and columns:
        widest = max(columns, key=widths.__getitem__)
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
    return widths


def shortened(text: str, width: int) -> str:
    """Return a text of at most so many characters, without its middle if it is longer."""
    if len(text) <= width:
        return text
    left = (width - 3) // 2
    return f"{text[:left]}...{text[len(text) - (width - 3 - left) :]}"


def folded(text: str, most: int | None, indent: str = "") -> list[str]:
    """Return the lines of a text, folded between words; only longer words are cut."""
    import textwrap

    if most is None:
        return [indent + text]
    return textwrap.wrap(
        text, most, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )


def terminal_width() -> int:
    """Return the columns of the terminal, 40 at least; 80 where there is none."""
    import shutil

    return max(40, shutil.get_terminal_size().columns)


def typed(command: Sequence[str]) -> str:
    """Return a command line as users type it: without the path of Python, and with `grain`.

    >>> typed(["/usr/bin/python3.11", "-P", "-m", "grain.cli", "map", "gzip", "a b"])
    "grain map gzip 'a b'"
    >>> typed(["/env/bin/python3.11", "opt.py"])
    'python opt.py'
    """
    import re
    import shlex
    from pathlib import PurePath

    words = list(command)
    if not words:
        return ""
    name = PurePath(words[0]).name
    if "grain.cli" in words[1:4]:
        words = ["grain", *words[words.index("grain.cli") + 1 :]]
    elif re.fullmatch(r"python[0-9.]*", name):
        # `grain` itself is a Python program, whose first argument is its path.
        script = PurePath(words[1]).name if len(words) > 1 else ""
        words = ["grain", *words[2:]] if script == "grain" else ["python", *words[1:]]
    return shlex.join(words)


def program_text(program: ProgramState) -> str:
    """Return what is known of a program that runs."""
    used = []
    if program.cpu is not None:
        used.append(f"{program.cpu:.1f} s of CPU time")
    if program.memory is not None:
        used.append(f"{program.memory:.3g} GB of memory now")
    with_these = f", with {' and '.join(used)}" if used else ""
    from grain.resource.figures import span

    return f"it has run for {span(program.seconds)}{with_these}: {program.command}"


def explanation_state(why: WhyAnswer) -> str:
    """Return the state of a task as the end of a sentence."""
    return _ENDINGS.get(why.ended or "", "") or f"is {clean(why.state)}"


def explanation_facts(
    why: WhyAnswer, call: str | None, programs: Sequence[ProgramState] | None
) -> list[str]:
    """Return what is known of a task beside the reasons for its state, a line each."""
    from grain.resource.figures import moment, span

    lines = []
    if text := call or why.function:
        lines.append(f"it calls {text}")
    if why.worker and why.began is not None:
        host = f" (host {why.host})" if why.host else ""
        verb = "runs" if why.ended is None else "ran"
        times = f"from {moment(why.began)}, for {span(why.seconds or 0.0)}"
        lines.append(f"it {verb} on worker {why.worker}{host}, {times}")
    if why.why:
        lines.append(f"the reason: {why.why}")
    return lines + [program_text(program) for program in programs or ()]


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

    import click  # which commands that speak Slurm begin without

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): plain(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [plain(one) for one in value]
        return None if isinstance(value, float) and not isfinite(value) else value

    click.echo(json.dumps(plain(data), indent=2))
