"""`set_numpy_oneline_repr`: arrays in one short line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from grain.util import set_numpy_oneline_repr

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def oneline() -> Iterator[None]:
    set_numpy_oneline_repr()
    yield
    np.set_printoptions(override_repr=None)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.arange(3), "<array int64 3: 0 1 2>"),
        (np.zeros((100, 200)), "<array float64 100x200: 0. 0. 0. ... 0. 0. 0.>"),
        (np.linspace(0, 1, 7), "<array float64 7: 0. 0.1667 0.3333 ... 0.6667 0.8333 1.>"),
        (np.array(5), "<array int64 0-d: 5>"),
        (np.zeros((0, 3)), "<array float64 0x3: >"),
        (np.array(["a b", "c\nd"]), r"<array <U3 2: 'a b' 'c\nd'>"),
        (np.array([[1, 2], None], dtype=object), "<array object 2: list([1, 2]) None>"),
        (np.arange(20).reshape(4, 5).T[::2], "<array int64 3x4: 0 5 10 ... 9 14 19>"),
    ],
)
def test_the_repr_has_dtype_shape_and_the_items_at_either_end(
    oneline: None, array: Any, text: str
) -> None:
    assert text == repr(array)


def test_inside_of_others(oneline: None) -> None:
    """It is one line within arguments as well; what is printed stays as it was."""
    array = np.arange(10_000.0).reshape(100, 100)
    assert "([<array float64 100x100: 0. 1. 2. ... 9997. 9998. 9999.>], {})" == repr(([array], {}))
    nested = np.empty(1, dtype=object)
    nested[0] = array
    assert "\n" not in repr(nested)
    assert "\n" in str(array)


def test_before_numpy_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions have another function for it, and one of them has none."""

    def old(**options: Any) -> None:
        raise TypeError("unexpected keyword argument 'override_repr'")

    functions: list[Any] = []

    def set_string_function(f: Any, **options: bool) -> None:
        assert {"repr": True} == options
        functions.append(f)

    monkeypatch.setattr(np, "set_printoptions", old)
    monkeypatch.setattr(np, "set_string_function", set_string_function, raising=False)
    set_numpy_oneline_repr()
    assert "<array int64 1: 0>" == functions[0](np.arange(1))

    monkeypatch.delattr(np, "set_string_function")
    with pytest.raises(RuntimeError, match="use a newer one"):
        set_numpy_oneline_repr()
