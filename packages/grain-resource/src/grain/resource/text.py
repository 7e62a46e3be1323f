"""Resources as one word of a command line: ``Cores=4,Memory=8,WTime=1:00:00``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from grain.resource.errors import UnknownKind
from grain.resource.kinds import from_data

if TYPE_CHECKING:
    from grain.resource.base import Resource

_EXAMPLE = "as in Cores=4,Memory=8,WTime=1:00:00"
# A comma in brackets or in double quotes separates nothing.
_PART = re.compile(r'(?:[^,\[\]{}"]|\[[^\]]*\]|\{[^}]*\}|"[^"]*")+')


def from_text(text: str) -> Resource:
    """Return the resource that a text states.

    The text is a list of ``Kind=value``, separated by commas. A kind is one of Grain's or one of
    your own (see `grain.resource.resource_kind`), and a value is an argument of its class: a number
    (of GB for Memory, of seconds for WTime), a word or ``h:mm:ss``, or a JSON list or object of
    these.

    Raises:
        ValueError: the text states none; the message names the part that is wrong.
    """
    if re.search(r"\w\(", text):
        raise ValueError(f"{text!r} is Python; here, write Kind=value, {_EXAMPLE}")
    parts = [part.strip() for part in _PART.findall(text)]
    if not parts or _PART.sub("", text).strip(", ") or text.strip().endswith(","):
        raise ValueError(f"{text!r} is no list of Kind=value, {_EXAMPLE}")
    data: dict[str, Any] = {}
    for part in parts:
        kind, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not kind or not value:
            raise ValueError(f"{part!r} in {text!r}: write Kind=value, {_EXAMPLE}")
        if kind in data:
            raise ValueError(f"{text!r} states {kind} twice; state it once")
        data[kind] = _value(value)
    try:
        return from_data(data)
    except UnknownKind as error:
        raise ValueError(f"{text!r}: {error}{_hint(data)}") from None
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None


def _value(text: str) -> Any:
    """Return a number, a list or an object if the text is one in JSON, else the text."""
    if not re.match(r"[-+\d.\[{\"]", text):
        return text
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text


def _hint(data: dict[str, Any]) -> str:
    """Return a hint at the kind that was probably meant."""
    usual = ("Cores", "GPUs", "Memory", "WTime", "Token", "Capacity")
    if "Node" in data:
        return ". A node is cores and memory: Cores=4,Memory=8"
    for kind in data:
        for name in usual:
            if kind not in usual and kind.lower().rstrip("s") == name.lower().rstrip("s"):
                return f". Did you mean {name}?"
    return ""
