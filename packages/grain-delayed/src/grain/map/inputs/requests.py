"""Requests and supplies as one word: ``Cores=4,Memory=8,WTime=1:00:00``; the jobs at a time."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from grain.map.errors import RequestError
from grain.resource import UnknownKind, from_data

if TYPE_CHECKING:
    from grain.resource import Resource

_EXAMPLE = "as in Cores=4,Memory=8,WTime=1:00:00"
# A comma in brackets or in double quotes separates nothing.
_PART = re.compile(r'(?:[^,\[\]{}"]|\[[^\]]*\]|\{[^}]*\}|"[^"]*")+')


def parse_request(text: str) -> Resource:
    """Return the resource that a text states.

    The text is a list of ``Kind=value``, separated by commas. A kind is one of Grain's or one of
    your own (see `grain.resource.resource_kind`), and a value is an argument of its class: a number
    (of GB for Memory, of seconds for WTime), a word or ``h:mm:ss``, or a JSON list or object of
    these.

    Raises:
        RequestError: the text states none; the message names the part that is wrong.
    """
    if re.search(r"\w\(", text):
        raise RequestError(f"{text!r} is Python; here, write Kind=value, {_EXAMPLE}")
    parts = [part.strip() for part in _PART.findall(text)]
    if not parts or _PART.sub("", text).strip(", ") or text.strip().endswith(","):
        raise RequestError(f"{text!r} is no list of Kind=value, {_EXAMPLE}")
    data: dict[str, Any] = {}
    for part in parts:
        kind, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not kind or not value:
            raise RequestError(f"{part!r} in {text!r}: write Kind=value, {_EXAMPLE}")
        if kind in data:
            raise RequestError(f"{text!r} states {kind} twice; state it once")
        data[kind] = _value(value)
    try:
        return from_data(data)
    except UnknownKind as error:
        raise RequestError(f"{text!r}: {error}{_hint(data)}") from None
    except ValueError as error:
        raise RequestError(f"{text!r}: {error}") from None


def parse_jobs(text: str, cpus: int) -> int:
    """Return the number of jobs at a time that the text of ``-j`` states.

    As in GNU parallel, it is a number, or relative to the CPUs: ``+1``, ``-1``, ``50%``. It is 1 if
    that would be less.

    Args:
        text: the text.
        cpus: the number of CPUs that this process may use.

    Raises:
        RequestError: the text states none.
    """
    match = re.fullmatch(r"([+-]?)([0-9]{1,6})|([0-9]{1,6})%", text, re.ASCII)
    if match is None:
        raise RequestError(
            f"-j {text}: write a number of jobs, as 8; or one relative to the {cpus} CPUs here, as "
            '+1, -1 or 50%; a number in a file is -j "$(cat FILE)"'
        )
    sign, number, percent = match.groups()
    if percent is not None:
        count = cpus * int(percent) // 100
    else:
        count = {"": 0, "+": cpus, "-": cpus}[sign] + int(f"{sign}{number}")
    if not sign and not count and percent is None:
        raise RequestError("-j 0: write how many jobs may run at a time, as in -j 100")
    return max(count, 1)


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
