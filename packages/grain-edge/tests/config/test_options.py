"""Keys of the configuration that are options of the worker, too: written, and read again."""

from __future__ import annotations

import argparse
import shlex
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.config import WorkerSettings, add_options, kinds, option_words, read_options
from grain.config.schema import ConfigTable, Option


class Sample(ConfigTable, frozen=True, kw_only=True):
    """A key of each form."""

    place: Annotated[str, kinds.DIRECTORY, Option("DIR", "a place")] = ""
    how_many: Annotated[int, kinds.POSITIVE, Option("N", "a number")] = 3
    size: Annotated[float, kinds.GIGABYTES, Option("GB", "an amount", "gigabytes")] = 0.5
    span: Annotated[int, kinds.SPAN, Option("TIME", "a time")] = 60
    most: Annotated[int | None, kinds.LIMIT, Option("N", "a limit")] = None
    loud: Annotated[bool, kinds.FLAG, Option("", "a flag")] = False
    waits: Annotated[bool, kinds.FLAG, Option("", "a flag that is set")] = True
    more: Annotated[tuple[str, ...], kinds.STRINGS, Option("JSON", "words")] = ()
    other: Annotated[str, kinds.LINE] = "no option"


class Wider(Sample, frozen=True, kw_only=True):
    """A table that has more keys."""

    besides: Annotated[str, kinds.LINE, Option("X", "of another table")] = ""


def parsed(line: str) -> Sample:
    parser = argparse.ArgumentParser()
    add_options(parser, Sample)
    return read_options(parser.parse_args(shlex.split(line)), Sample)


lines = st.text(st.characters(exclude_categories=("C", "Z"))).map(str.strip)
samples = st.builds(
    Wider,
    place=lines.filter(lambda text: not text.startswith("-")),
    how_many=st.integers(1, 1000),
    size=st.floats(0, 1e6),
    span=st.integers(0, 10**6),
    most=st.none() | st.integers(1, 1000),
    loud=st.booleans(),
    waits=st.booleans(),
    more=st.lists(lines).map(tuple),
    besides=lines,
)


@given(samples)
def test_the_options_that_a_job_gets_state_what_was_configured(wanted: Wider) -> None:
    assert parsed(" ".join(option_words(Sample, wanted))) == Sample(
        **{name: getattr(wanted, name) for name in Sample.__struct_fields__ if name != "other"}
    )


def test_what_is_as_by_default_is_not_stated() -> None:
    assert [] == option_words(Sample, Wider(besides="x", other="y"))
    assert ["--how-many 4", "--loud"] == option_words(Sample, Sample(how_many=4, loud=True))


def test_a_flag_that_is_set_by_default_has_an_option_that_clears_it() -> None:
    assert ["--no-waits"] == option_words(Sample, Sample(waits=False))
    assert not parsed("--no-waits").waits
    assert parsed("").waits


def test_a_person_may_write_values_as_in_the_file() -> None:
    assert Sample(span=1800, size=2.0, place="$HOME") == parsed(
        "--span 30m --gigabytes 2 --place '$HOME'"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--how-many 0", "'0' is not a whole number from 1 to 1000000"),
        ("--how-many x", "'x' is not a whole number from 1 to 1000000"),
        ("--span 1y", "'1y' is not a span of time"),
        ("--other x", "unrecognized arguments"),
    ],
)
def test_what_does_not_fit_is_refused_in_the_words_of_the_configuration(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(line)
    assert message in capsys.readouterr().err


def test_every_setting_of_a_worker_is_an_option() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, WorkerSettings)
    assert set(WorkerSettings.__struct_fields__) <= vars(parser.parse_args([])).keys()
