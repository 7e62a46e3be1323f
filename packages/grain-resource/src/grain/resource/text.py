"""Resources as one word of a command line: ``Cores=4,Memory=8,WTime=1:00:00``.

A vertical bar separates alternatives: ``GPUs=1|Cores=16``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from grain.resource.base import Either
from grain.resource.errors import UnknownKind
from grain.resource.kinds import from_data

if TYPE_CHECKING:
    from grain.resource.base import Resource

_EXAMPLE = "as in Cores=4,Memory=8,WTime=1:00:00"
# A comma or a bar in brackets or in double quotes separates nothing.
_PART, _ALTERNATIVE = (
    re.compile(rf'(?:[^{separator}\[\]{{}}"]|\[[^\]]*\]|\{{[^}}]*\}}|"[^"]*")+')
    for separator in ",|"
)
_PREFER = "prefer"
_EITHER = "alternatives are written as in GPUs=1|Cores=16"


def from_text(text: str) -> Resource:
    """Return the resource that a text states.

    The text is a list of ``Kind=value``, separated by commas. A kind is one of Grain's or one of
    your own (see `grain.resource.resource_kind`), and a value is an argument of its class: a number
    (of GB for Memory, of seconds for WTime), a word or ``h:mm:ss``, or a JSON list or object of
    these.

    Alternatives are such lists, separated by vertical bars. ``prefer=seconds`` in the first one
    says how long to wait for that: ``GPUs=1,prefer=60|Cores=16``; see `grain.resource.Either`.

    Raises:
        ValueError: the text states none; the message names the part that is wrong.
    """
    if re.search(r"\w\(", text):
        raise ValueError(f"{text!r} is Python; here, write Kind=value, {_EXAMPLE}")
    if "|" not in _ALTERNATIVE.sub("", text):
        data = _listed(text)
        if _PREFER in data:
            raise ValueError(
                f"{text!r}: {_PREFER} is the time to wait for the first of several alternatives, "
                f"as in GPUs=1,{_PREFER}=60|Cores=16"
            )
        return _made(text, data)
    if _ALTERNATIVE.sub("", text).strip("|") or re.search(r"(^|\|)\s*(\||$)", text):
        raise ValueError(f"{text!r}: an alternative is missing; {_EITHER}")
    first, *others = [_listed(one) for one in _ALTERNATIVE.findall(text)]
    prefer = first.pop(_PREFER, 0)
    if not first or any(_PREFER in one for one in others):
        raise ValueError(
            f"{text!r}: {_PREFER} stands in the first alternative, as in "
            f"GPUs=1,{_PREFER}=60|Cores=16"
        )
    made = [_made(text, one) for one in (first, *others)]
    try:
        return Either(*made, prefer=prefer)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{text!r}: {error}") from None


def _listed(text: str) -> dict[str, Any]:
    """Return the kinds of a list of ``Kind=value``, as data."""
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
    return data


def _made(text: str, data: dict[str, Any]) -> Resource:
    """Return the resource of data that a text states."""
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
    usual = ("Cores", "GPUs", "Memory", "WTime", "Token", "Capacity", "Licences")
    if "Node" in data:
        return ". A node is cores and memory: Cores=4,Memory=8"
    for kind in data:
        for name in usual:
            if kind not in usual and kind.lower().rstrip("s") == name.lower().rstrip("s"):
                return f". Did you mean {name}?"
    return ""
