"""Resources as one word of a command line: ``Cores=4,Memory=8,WTime=1:00:00``.

A vertical bar separates alternatives: ``GPUs=1|Cores=16``. A number before a list asks for so many
workers: ``4 * Cores=32,Memory=100``. All of that may be written as in Python, too:
``4 * Node(32, 100) | GPUs(1)``.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from typing import Any

from grain.resource.amounts import Node
from grain.resource.base import Either, Gang, Resource, gang
from grain.resource.errors import UnknownKind
from grain.resource.kinds import from_data, kind_class

_EXAMPLE = "as in Cores=4,Memory=8,WTime=1:00:00"
# A comma or a bar in brackets or in double quotes separates nothing.
_PART, _ALTERNATIVE = (
    re.compile(rf'(?:[^{separator}\[\]{{}}"]|\[[^\]]*\]|\{{[^}}]*\}}|"[^"]*")+')
    for separator in ",|"
)
_MEMBERS = re.compile(r"\s*([^=*]*?)\s*\*(.*)", re.DOTALL)
_PYTHON = re.compile(r"\w\s*\(")
_JOINED = {ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.Mult: operator.mul}
_CALLED = {"Node": Node, "Either": Either, "gang": gang}
_PREFER, _SAME = "prefer", "same"
_EITHER = "alternatives are written as in GPUs=1|Cores=16"


def from_text(text: str) -> Resource:
    """Return the resource that a text states.

    The text is a list of ``Kind=value``, separated by commas. A kind is one of Grain's or one of
    your own (see `grain.resource.resource_kind`), and a value is an argument of its class: a number
    (of GB for Memory, of seconds for WTime), a word or ``h:mm:ss``, or a JSON list or object of
    these.

    Alternatives are such lists, separated by vertical bars. ``prefer=seconds`` in the first one
    says how long to wait for that: ``GPUs=1,prefer=60|Cores=16``; see `grain.resource.Either`.

    ``4 * `` before a list asks for four workers with that each. ``same=job`` in the list says that
    they are in one batch job: ``4 * Cores=32,same=job``; see `grain.resource.Gang`.

    A text with a bracket after a name is read as Python: ``4 * Node(32, 100) & WTime(T=60)``. So
    ``from_text(request.ask())`` is the request. Nothing of it is executed but the calls of kinds,
    with arguments that are plain data.

    Raises:
        ValueError: the text states none; the message names the part that is wrong.
    """
    if _PYTHON.search(re.sub(r'"[^"]*"', "", text)):
        return _python(text)
    if "|" not in _ALTERNATIVE.sub("", text):
        count, data = _counted(text)
        if _PREFER in data:
            raise ValueError(
                f"{text!r}: {_PREFER} is the time to wait for the first of several alternatives, "
                f"as in GPUs=1,{_PREFER}=60|Cores=16"
            )
        return _made(text, count, data)
    if _ALTERNATIVE.sub("", text).strip("|") or re.search(r"(^|\|)\s*(\||$)", text):
        raise ValueError(f"{text!r}: an alternative is missing; {_EITHER}")
    first, *others = [_counted(one) for one in _ALTERNATIVE.findall(text)]
    prefer = first[1].pop(_PREFER, 0)
    if not first[1] or any(_PREFER in one for _, one in others):
        raise ValueError(
            f"{text!r}: {_PREFER} stands in the first alternative, as in "
            f"GPUs=1,{_PREFER}=60|Cores=16"
        )
    made = [_made(text, count, one) for count, one in (first, *others)]
    try:
        return Either(*made, prefer=prefer)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{text!r}: {error}") from None


def _python(text: str) -> Resource:
    """Return the resource of a text as ``2 * Cores(4) | GPUs(1)``."""
    try:
        made = _evaluated(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError, OverflowError):
        raise ValueError(
            f"{text!r} is not a resource: write {_EXAMPLE}; or as in Python, Cores(4) & Memory(8)"
        ) from None
    except (TypeError, ValueError, UnknownKind) as error:
        raise ValueError(f"{text!r}: {error}") from None
    if isinstance(made, Resource):
        return made
    raise ValueError(f"{text!r} is not a resource: write {_EXAMPLE}")


def _evaluated(node: ast.expr) -> Any:
    """Return the value of a part of an expression: a resource, or plain data."""
    if isinstance(node, ast.BinOp) and type(node.op) in _JOINED:
        left, right = _evaluated(node.left), _evaluated(node.right)
        return _JOINED[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if any(word.arg is None for word in node.keywords):
            raise ValueError("write each argument by itself")
        called: Any = _CALLED.get(node.func.id) or kind_class(node.func.id)
        arguments = [_evaluated(one) for one in node.args]
        return called(*arguments, **{str(w.arg): _evaluated(w.value) for w in node.keywords})
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(
            f"{ast.unparse(node)} is neither a resource nor a value; write {_EXAMPLE}"
        ) from None


def _counted(text: str) -> tuple[list[int], dict[str, Any]]:
    """Return the numbers of workers before a list of ``Kind=value``, and the list as data."""
    counts = []
    while match := _MEMBERS.fullmatch(text):
        if not re.fullmatch(r"[-+]?\d+", match[1]):
            raise ValueError(
                f"{match[1]!r} * ...: the number of workers is a whole number, as in 4"
            )
        counts.append(int(match[1]))
        text = match[2]
    return counts, _listed(text)


def _listed(text: str) -> dict[str, Any]:
    """Return the kinds of a list of ``Kind=value``, as data."""
    parts = [part.strip() for part in _PART.findall(text)]
    if not parts or _PART.sub("", text).strip(", ") or text.strip().endswith(","):
        raise ValueError(f"{text!r} is not a list of Kind=value, {_EXAMPLE}")
    data: dict[str, Any] = {}
    for part in parts:
        kind, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not kind or not value:
            raise ValueError(f"{part!r} in {text!r}: write Kind=value, {_EXAMPLE}")
        if kind in data:
            raise ValueError(f"{text!r} states {kind} twice; state it once")
        data[kind] = _value(value)
    return data


def _made(text: str, counts: list[int], data: dict[str, Any]) -> Resource:
    """Return the resource of data that a text states."""
    same = data.pop(_SAME, None)
    if same is not None and not counts:
        raise ValueError(f"{text!r}: {_SAME} is for several workers, as in 4 * Cores=8,{_SAME}=job")
    try:
        made = from_data(data)
        for count in reversed(counts):
            made = Gang(count, made, "group" if same is None else same)
    except (UnknownKind, ValueError) as error:
        raise ValueError(f"{text!r}: {error}") from None
    return made


def _value(text: str) -> Any:
    """Return a number, a list or an object if the text is one in JSON, else the text."""
    if not re.match(r"[-+\d.\[{\"]", text):
        return text
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text
