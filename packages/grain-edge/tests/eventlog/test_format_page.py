"""The page about the format has every kind of line with every field, as the types have them."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from grain.eventlog import schema
from grain.eventlog.usage import RunMember, Usage

PAGE = Path(__file__).parents[4] / "docs" / "event-log.md"
PARTS = (Usage, RunMember, schema.FunctionStanding)
KINDS: tuple[type[msgspec.Struct], ...] = (*get_args(schema.AnyLine), *PARTS)


def meanings(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the meaning of each field, from the docstrings of a type and its bases."""
    found = {}
    for cls in reversed(kind.__mro__):
        _, _, attributes = (inspect.getdoc(cls) or "").partition("Attributes:\n")
        for name, text in re.findall(r"^    (\w+): (.*(?:\n     .*)*)", attributes, re.MULTILINE):
            found[name] = " ".join(text.split())
    return found


def type_name(type_: Any) -> str:
    """Return the type of a field in JSON's words."""
    match type_:
        case msgspec.inspect.FloatType() | msgspec.inspect.IntType():
            return "number"
        case msgspec.inspect.StrType() | msgspec.inspect.LiteralType():
            return "string"
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.VarTupleType():
            first, *rest = re.split("(?=[ ,])", type_name(type_.item_type), maxsplit=1)
            return f"array of {first}s{''.join(rest)}"
        case msgspec.inspect.DictType():
            return f"object of {type_name(type_.value_type)}s"
        case msgspec.inspect.UnionType():
            return " or ".join(type_name(one) for one in type_.types)
        case msgspec.inspect.NoneType():
            return "null"
        case msgspec.inspect.StructType():
            return f"object, see {type_.cls.__name__.lower()}"
    raise AssertionError(type_)


def section(kind: type[msgspec.Struct]) -> str:
    """Return the section of the page on a kind of line."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    title = f"`{info.tag}`" if info.tag else kind.__name__
    first = (inspect.getdoc(kind) or "").splitlines()[0].replace("``", "`")
    rows = [f"## {title}", "", first, "", "| field | | |", "|---|---|---|"]
    own = meanings(kind)
    for field in info.fields:
        if field.name == "time" and kind is not schema.LogStarted:
            continue
        meaning = own[field.name].replace("``", "`").replace("|", "\\|")
        needed = "always" if field.required else "optional"
        rows.append(f"| `{field.name}` | {type_name(field.type)}, {needed} | {meaning} |")
    return "\n".join(rows) + "\n"


@pytest.mark.skipif(not PAGE.exists(), reason="docs/ is not part of a source package")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_page_has_each_kind_of_line_as_its_type_does(kind: type[msgspec.Struct]) -> None:
    assert section(kind) in PAGE.read_text(encoding="utf-8")


@pytest.mark.skipif(not PAGE.exists(), reason="docs/ is not part of a source package")
def test_the_page_names_the_version_and_no_other_kinds() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"The version is {schema.VERSION}." in page
    headings = re.findall(r"^## (?=`|Usage|RunMember|FunctionStanding)(.*)$", page, re.MULTILINE)
    assert len(KINDS) == len(headings)
