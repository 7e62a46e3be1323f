"""The form of the structs in a file, as a number: a file of another form is made again. Pure.

A field that is added has its default in what was written before, and fields of an array that move
are taken for each other. So a file that can be made again says with which form it was written.
"""

from __future__ import annotations

from functools import cache
from typing import get_args
from zlib import crc32

import msgspec
from msgspec.structs import FieldInfo, fields


@cache
def form_of(kind: type[msgspec.Struct], rules: int = 0) -> int:
    """Return a number that changes with any field of a struct, or of a struct in it.

    Args:
        rules: to be raised when the same fields come to mean something else.
    """
    lines = [str(rules)]
    for one, its in structs_in(kind).items():
        lines.append(f"{one.__name__} {one.__struct_config__.array_like}")
        lines += [f"{field.encode_name} {field.type!r} {field.default!r}" for field in its]
    return crc32("\n".join(lines).encode())


def structs_in(kind: type[msgspec.Struct]) -> dict[type[msgspec.Struct], tuple[FieldInfo, ...]]:
    """Return the fields of a struct, and of all structs that these may have, in a fixed order."""
    found: dict[type[msgspec.Struct], tuple[FieldInfo, ...]] = {}
    types: list[object] = [kind]
    for each in types:  # it grows
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            if each in found:
                continue
            found[each] = fields(each)
            types += [field.type for field in found[each]]
        types += get_args(each)
    return found
