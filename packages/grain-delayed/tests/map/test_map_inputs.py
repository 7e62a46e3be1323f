"""Inputs of ``grain map``: from words of the command line and bytes of files to records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.inputs.errors import InputError
from grain.inputs.splitting import Columns
from grain.map.inputs.sources import Inputs
from grain.map.inputs.words import InputSource, take_apart

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


async def records(*words: str, colsep: str | None = None, **more: Any) -> list[tuple[str, ...]]:
    columns = Columns(colsep, csv=more.pop("csv", False))
    results = []
    async with Inputs(take_apart(["p", *words])[1], columns, **more) as inputs:
        while (record := await inputs.next()) is not None:
            results.append(record)
    return results


def test_the_template_ends_at_the_first_mark() -> None:
    assert (("p", "-x"), (InputSource(file="-"),)) == take_apart(["p", "-x"])
    assert (("p",), (InputSource(file="f"), InputSource(values=("a", "--")))) == take_apart(
        ["p", ":::", "a", "--"], ["f"]
    )
    assert (("p",), (InputSource(file="a"), InputSource(file="b", linked=True))) == take_apart(
        ["p", "::::", "a", "::::+", "b"]
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([":::+", "a"], "there is none"),
        (["::::"], "names of files"),
        (["::::", "-", "-"], "once"),
    ],
)
def test_sources_that_make_no_sense_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        take_apart(words)


async def test_sources_are_combined_and_linked_ones_go_side_by_side() -> None:
    assert [("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")] == await records(
        ":::", "a", "b", ":::", "c", "d"
    )
    assert [("a", "c", "e"), ("a", "d", "f")] == await records(
        ":::", "a", ":::", "c", "d", ":::+", "e", "f"
    )
    assert [] == await records(":::")


async def test_inputs_are_the_lines_of_files_and_nothing_else(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b" a \n\nb")
    two.write_bytes(b"x\0y\nz\0")

    assert [(" a ",), ("",), ("b",)] == await records("::::", str(one))
    assert [("x",), ("y\nz",)] == await records("::::", str(two), null=True)


async def test_the_first_record_of_each_source_names_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text('\ufefffile,T\r\n"a,b",300\r\n\r\nc,400\r\n', encoding="utf-8")
    sources = take_apart(["p", "::::", str(file), ":::", "n", "1"])[1]

    async with Inputs(sources, Columns(csv=True), header=True) as inputs:
        assert ("file", "T", "n") == inputs.names
        assert ("a,b", "300", "1") == await inputs.next()
        assert ("c", "400", "1") == await inputs.next()
        assert await inputs.next() is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a,a\n", "is there twice"),
        ("a,\n", "is empty"),
        ("", "no first line"),
        ("a,0.1\n1,2\n", r"has the number 0\.1, not a name of a column; leave --header out"),
        ("a,b\n1\n", "1 columns, where the header has 2"),
        ('a,b\n"1,2\n', "within a quoted column"),
        ('a,b\n5" pipe,1\n6" pipe,2\n', "not one row of CSV, but several"),
        ("a,b\r1,2\r", "not one row of CSV, but several"),
    ],
)
async def test_a_file_that_is_no_table_is_refused(tmp_path: Path, data: str, message: str) -> None:
    file = tmp_path / "f"
    file.write_bytes(data.encode())

    with pytest.raises(InputError, match=message):
        await records("::::", str(file), csv=True, header=True)


async def test_a_null_character(tmp_path: Path) -> None:
    """No command has one, and in the result log it stands for a newline; -0 is what was meant."""
    file = tmp_path / "f"
    file.write_bytes(b"a\0b\0")

    with pytest.raises(InputError, match=r"null character in it.* -0 reads inputs"):
        await records("::::", str(file))
    assert [("a",), ("b",)] == await records("::::", str(file), null=True)


async def test_linked_sources_of_different_length() -> None:
    """A link of what has no partner is a mistake, not something to guess at."""
    with pytest.raises(InputError, match="ended before"):
        await records(":::", "a", "b", ":::+", "c")
