"""A label of a call shows which input it was, in one short line, whatever the arguments are."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from grain.worker.call import LONGEST_LABEL, CallLabels


@dataclass
class Molecule:
    name: str


class Basis(enum.Enum):
    SMALL = 1


class Says:
    """An object with a text of the test's choice."""

    def __init__(self, text: Any) -> None:
        self.text = text

    def __repr__(self) -> str:
        if isinstance(self.text, BaseException):
            raise self.text
        return self.text  # type: ignore[no-any-return]


def label(*args: Any, **kwargs: Any) -> str:
    return CallLabels().of("f", args, kwargs)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("mol7.xyz", 2, 1.5, None, True, 1j), "'mol7.xyz', 2, 1.5, None, True, 1j"),
        (([1, 2], (1,), ()), "[1, 2], (1,), ()"),
        (({1}, set(), frozenset({2})), "{1}, set(), frozenset({2})"),
        (({"a": [1]}, {}, [], b"x"), "{'a': [1]}, {}, [], b'x'"),
        ((Path("/a/b c"), PurePosixPath("d")), "Path('/a/b c'), PurePosixPath('d')"),
        ((Molecule("water"), Basis.SMALL), "Molecule(name='water'), <Basis.SMALL: 1>"),
        ((Says("a\n  b"), Says("<T at 0x7f12ab>")), "a b, <T>"),
    ],
)
def test_a_call_is_shown_as_one_would_type_it(args: tuple[Any, ...], expected: str) -> None:
    assert f"f({expected})" == label(*args)
    assert f"f({expected}, x=1)" == label(*args, x=1)


def test_a_path_of_an_input_stays_whole_beside_large_arguments() -> None:
    path = f"/scratch/me/campaign/{'conformers/' * 4}mol_000123.xyz"

    text = label(path, "H 0.0 0.0 0.0\n" * 100, level="gfn2")

    assert text.startswith(f"f({path!r}, 'H 0.0")
    assert text.endswith("0.0\\n', level='gfn2')")
    assert "…" in text
    assert len(text) <= LONGEST_LABEL


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["xtb", "my mol.xyz", "--opt"], "xtb 'my mol.xyz' --opt"),
        (("sh", "-c", "a  b", Path("c")), "sh -c 'a  b' c"),
    ],
)
def test_a_program_is_shown_as_its_command_line(words: Any, expected: str) -> None:
    assert expected == CallLabels().of("run_external", (words,), {"cwd": "/tmp"})


@pytest.mark.parametrize("word", ["a\nb", "a\x1b[2J", "x" * 500])
def test_a_command_that_cannot_be_shown_whole_is_marked(word: str) -> None:
    text = CallLabels().of("run_external", (["xtb", word],), {})

    assert text.startswith("xtb ")
    assert "…" in text
    assert text.isprintable()
    assert len(text) <= LONGEST_LABEL


class Deep(list[Any]):
    """A list of the user's."""


def nested() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    "args",
    [
        (list(range(1_000_000)),),
        (dict.fromkeys(range(1_000_000)),),
        (set(range(1_000_000)),),
        (bytes(10_000_000),),
        ("é" * 10_000_000,),
        (10**100_000,),
        (nested(),),
        tuple(range(1000)),
        ("a" * 100,) * 9,
        (Says("x" * 10_000_000),),
        (Says("\x1b[2J\u202e\x00\udc80"),),
        ("\x1b[2J\u202e\x00\udc80",),
        (Says(ValueError()), Says(RecursionError()), Says(SystemExit(1)), Says(None)),
        (Deep([1]),),
    ],
    ids=lambda args: f"{type(args[0]).__name__}-{len(args)}",
)
def test_no_argument_makes_a_label_long_or_unfit_for_a_terminal(args: tuple[Any, ...]) -> None:
    text = label(*args)

    assert text.startswith("f(")
    assert len(text) <= LONGEST_LABEL
    assert text.isprintable()
    text.encode()


def test_names_are_short_and_in_one_line_as_well() -> None:
    text = CallLabels().of("f\x1b\n" * 100, (1,), {"k" * 1000: 2})

    assert text.isprintable()
    assert "…" in text
    assert len(text) <= LONGEST_LABEL


def test_arguments_that_are_left_out_are_marked() -> None:
    assert "f(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …)" == label(*range(11))
    assert "f(…)" == CallLabels().without_arguments("f")
    assert "…" not in label(*range(10))


class Slow:
    """An object whose text takes seconds of a clock that the test moves."""

    calls = 0

    def __init__(self, clock: list[float], seconds: float) -> None:
        self.clock, self.seconds = clock, seconds

    def __repr__(self) -> str:
        self.clock[0] += self.seconds
        return "asked"


def test_a_class_that_is_slow_three_times_in_a_row_is_not_asked_again() -> None:
    clock = [0.0]
    labels = CallLabels(lambda: clock[0])
    times = (1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0)

    texts = [labels.of("f", (Slow(clock, seconds),), {}) for seconds in times]

    assert ["f(asked)"] * 6 + ["f(<Slow>)"] * 2 == texts
    assert 5.0 == clock[0]
