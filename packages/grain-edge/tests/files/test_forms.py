"""The number of a form changes with whatever would have a file misread."""

from __future__ import annotations

from types import GenericAlias
from typing import Any

import pytest
from msgspec import Struct, defstruct

from grain.files.forms import form_of, structs_in


def struct(*named: Any, **more: Any) -> type[Struct]:
    """Return a struct that differs from the others by its fields only."""
    return defstruct("Inner", [("count", int), *named], module="here", **more)


INNER = struct(("name", str, ""))

OTHERS = {
    "a further field": struct(("name", str, ""), ("peak", float, 0.0)),
    "a field less": struct(),
    "another name": struct(("label", str, "")),
    "another type": struct(("name", "str | None", "")),
    "another default": struct(("name", str, "x")),
    "no default": struct(("name", str)),
    "an array": struct(("name", str, ""), array_like=True),
}


def test_equal_fields_have_the_same_form() -> None:
    assert form_of(INNER) == form_of(struct(("name", str, "")))


@pytest.mark.parametrize("change", OTHERS)
def test_a_change_of_a_field_changes_the_form(change: str) -> None:
    assert form_of(INNER) != form_of(OTHERS[change])


def test_the_order_of_fields_belongs_to_the_form() -> None:
    one, two = ("one", str, ""), ("two", str, "")
    assert form_of(struct(one, two)) != form_of(struct(two, one))


@pytest.mark.parametrize(
    "inside",
    [
        lambda kind: kind,
        lambda kind: kind | None,
        lambda kind: GenericAlias(list, kind),
        lambda kind: GenericAlias(dict, (str, GenericAlias(tuple, (int, kind)))),
    ],
)
def test_a_change_of_a_struct_within_changes_the_form(inside: Any) -> None:
    def outer(kind: type[Struct]) -> type[Struct]:
        return defstruct("Outer", [("inner", inside(kind))], module="here")

    assert form_of(outer(INNER)) == form_of(outer(struct(("name", str, ""))))
    for other in OTHERS.values():
        assert form_of(outer(INNER)) != form_of(outer(other))
    assert INNER in structs_in(outer(INNER))


def test_other_rules_are_another_form() -> None:
    assert form_of(INNER) == form_of(INNER, 0) != form_of(INNER, 1)
