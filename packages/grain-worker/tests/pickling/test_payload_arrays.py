"""Large buffers: copied once on their way out, not at all on their way in."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import outcome
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.worker.errors import PayloadError
from grain.worker.payload import Payloads, whole
from grain.worker.pickling.by_value import Classes
from grain.worker.pickling.pickler import dump_pieces, loads, together

if TYPE_CHECKING:
    from numpy.typing import NDArray

numpy = pytest.importorskip("numpy")


@given(st.lists(st.sampled_from([0, 1, 100, 8191, 8192, 8193, 20_000]), max_size=4), st.binary())
def test_arrays_arrive_as_they_were(sizes: list[int], head: bytes) -> None:
    """Arrays of all sizes, several at a time and after a head of any length, arrive writable."""
    arrays = [numpy.arange(size, dtype="f8") for size in sizes]
    data = together(dump_pieces({"a": arrays, "n": 1}, Classes(), head))

    back = loads(data, Classes(), len(head))["a"]

    for sent, got in zip(arrays, back, strict=True):
        assert (sent == got).all()
        got += 1  # in place
    assert data[: len(head)] == head


def test_a_large_array_is_copied_once_and_lies_in_the_payload_on_arrival() -> None:
    array = numpy.ones(4_000_000)
    payloads = Payloads()
    tracemalloc.start()
    try:
        data = whole(payloads.dump_outcome(outcome.Value(array)))
        _, dumping = tracemalloc.get_traced_memory()
        received = bytearray(data)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        back = payloads.load_outcome(received).unwrap()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # The copy lies in memory of its own, which is not traced; there is no other.
    assert array.nbytes <= len(data) < 1.01 * array.nbytes
    assert dumping < 100_000
    assert peak - before < 100_000
    assert (back == array).all()
    assert back.flags.writeable


def test_changes_of_an_array_after_the_call_do_not_travel() -> None:
    array = numpy.zeros(100_000)
    data = Payloads().dump_arguments((array,), {})
    array += 1

    (back,), _ = Payloads().load_arguments(data)

    assert 0 == back.sum()


def test_arrays_travel_beside_a_pickle_of_dill_too() -> None:
    """A closure does not make the array beside it slow."""
    array = numpy.ones(100_000)
    data = Payloads().dump_outcome(outcome.Value((lambda: 3, array, {1: array}.keys())))

    function, back, _ = Payloads().load_outcome(data).unwrap()

    assert 3 == function()
    assert (array == back).all()


@given(st.integers(1, 60), st.integers(0, 250), st.integers(1, 255))
def test_damaged_parts_are_an_error_of_the_task(cut: int, position: int, flip: int) -> None:
    """Cut short, with more than there should be, or with a wrong table of sizes."""
    array: NDArray[Any] = numpy.ones(20_000)
    good = whole(Payloads().dump_arguments((array,), {}))
    for bad in (good[:cut], good[:-1], bytes(good) + b"x"):
        with pytest.raises(PayloadError):
            Payloads().load_arguments(bad)

    flipped = bytearray(good)
    flipped[position % 21 + 1] ^= flip
    try:
        Payloads().load_arguments(flipped)  # some bytes are padding
    except PayloadError:
        pass
