"""The places in a line for sh(1) where a quoted value means itself.

A value is put in single quotes. That is right wherever the shell reads plain words, and wrong in
quotes: the quotes around the value would end those of the template, and the shell would execute the
value. So a place in quotes is refused; it is never needed, since words may touch:
``"result of "{}``. (POSIX.1-2017, Shell Command Language, 2.2 Quoting, 2.3 Token Recognition.)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grain.map.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLAIN, _SINGLE, _DOUBLE, _COMMENT = "", "single quotes", "double quotes", "a comment"
# The text that ends each state, or that makes later places unsafe.
_STEPS = {
    _PLAIN: re.compile(r"\\.|\\\Z|'|\"|`|<<|\$\Z|\$'|(?:(?<=[\s;&|()])|\A)#", re.DOTALL),
    _SINGLE: re.compile(r"'"),
    _DOUBLE: re.compile(r"\\.|\\\Z|\"|`|\$[({]", re.DOTALL),
    _COMMENT: re.compile(r"\n"),
}
_NEXT = {"'": _SINGLE, '"': _DOUBLE, "#": _COMMENT}
_WITHOUT = "the value is quoted already: leave out the quotes around it"


def check_places(parts: Sequence[str | None]) -> None:
    """Check that values stand where they can be quoted.

    Args:
        parts: the text of the template; None for a value.

    Raises:
        TemplateError: a value stands in quotes, in a comment, or where that cannot be decided.
    """
    state, danger, before = _PLAIN, "", ""
    for part in parts:
        if part is not None:
            state, danger = _read(part, state, danger, first=not before)
            before = part
            continue
        before = "''"
        if danger:
            raise TemplateError(
                f"a value after {danger} cannot be quoted safely: use variables, as in "
                "--shell 'x={}; ...', or put the command into a script"
            )
        if state:
            why = _WITHOUT if state != _COMMENT else "leave it out"
            raise TemplateError(f"a value stands in {state} of the shell command; {why}")


def _read(text: str, state: str, danger: str, *, first: bool) -> tuple[str, str]:
    """Return the state after some text, and the part of it that makes later places unsafe."""
    position = 0
    while step := _STEPS[state].search(text, position):
        mark, position = step[0], step.end()
        if mark == "#" and step.start() == 0 and not first:
            continue  # it goes on with the word of the value before it
        if mark in ("\\", "$"):  # the last character before a value
            danger = danger or f"a {mark}"
        elif mark in ("`", "<<", "$'") or mark.startswith("$"):
            danger = danger or {"<<": "a here-document (<<)", "`": "a backquote"}.get(mark, mark)
            if mark == "$'":
                state = _SINGLE
        elif not mark.startswith("\\"):
            state = _PLAIN if state else _NEXT[mark]
    return state, danger
