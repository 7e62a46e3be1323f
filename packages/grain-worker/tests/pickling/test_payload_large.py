"""Large bytes and strings: not copied where they are sent, copied once where they are loaded."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import outcome
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.edge.buffers import FOREIGN, LARGE
from grain.edge.messages import Pieces
from grain.worker.errors import PayloadError
from grain.worker.payload import Payloads, failed, failure_in, whole
from grain.worker.pickling.by_value import Classes
from grain.worker.pickling.pickler import loads
from grain.worker.pickling.reading import Reader

SIZE = 2 * LARGE


def travelled(payload: Any) -> memoryview:
    """Return the payload as it arrives: one piece that can be written to."""
    parts = payload.parts if isinstance(payload, Pieces) else [payload]
    return memoryview(bytearray(b"".join(parts)))


@pytest.mark.parametrize(
    "args",
    [
        (bytes(SIZE),),
        (b"a" * SIZE, 3, "x", b"b" * SIZE),
        ("a" * SIZE,),
        ("\u00e4\u20ac\U0001f600" * LARGE,),
        ([b"c" * SIZE, {"k": "d" * SIZE}],),
        (bytearray(b"e") * SIZE,),
        (list(range(3_000_000)),),
        (b"f" * (LARGE - 30),),
        (b"g" * (FOREIGN + 5),),
    ],
    ids=["bytes", "several", "str", "unicode", "nested", "bytearray", "list", "limit", "huge"],
)
def test_large_arguments_arrive_as_they_were(args: tuple[Any, ...]) -> None:
    """Large arguments arrive with their types, over a wire and within the process."""
    payload = Payloads().dump_arguments(args, {"n": args[0]})
    for data in (travelled(payload), payload, whole(payload)):
        got, named = Payloads().load_arguments(data)
        assert (args, {"n": args[0]}) == (got, named)
        assert [type(one) for one in args] == [type(one) for one in got]


def test_large_bytes_beside_what_travels_by_value_arrive() -> None:
    """A class of this test, and a function in a closure."""

    class Local:
        def __init__(self, data: bytes) -> None:
            self.data = data

    ours, theirs = Payloads(), Payloads()
    data = b"z" * SIZE
    payload = ours.dump_outcome(outcome.Value([Local(data), lambda: data[:3], data]))

    local, function, plain = theirs.load_outcome(travelled(payload)).unwrap()

    assert (data, b"zzz", data) == (local.data, function(), plain)


def test_large_bytes_are_not_copied_to_be_sent_and_copied_once_to_be_loaded() -> None:
    """They cannot be changed meanwhile; and arrive in an object of their own."""
    data = b"x" * SIZE
    payloads = Payloads()
    received = travelled(payloads.dump_outcome(outcome.Value(data)))
    tracemalloc.start()
    try:
        payload = payloads.dump_outcome(outcome.Value(data))
        _, dumping = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        back = payloads.load_outcome(received).unwrap()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert isinstance(payload, Pieces)
    assert any(part is data for part in payload.parts)
    assert dumping < 100_000
    assert peak - before < 1.01 * SIZE
    assert data == back


@pytest.mark.parametrize("size", [65_537, 1_000_000])
def test_bytes_that_a_channel_sends_by_themselves_are_not_copied(size: int) -> None:
    data = b"x" * size
    for payload in (
        Payloads().dump_outcome(outcome.Value(data)),
        Payloads().dump_arguments((data, 3), {}),
        Payloads().dump_outcome(outcome.Value({"key": [data]})),
    ):
        assert isinstance(payload, Pieces)
        assert any(part is data for part in payload.parts)


def test_a_large_string_is_loaded_without_another_copy() -> None:
    """The unpickler takes a view where it asks for a string."""
    received = travelled(Payloads().dump_outcome(outcome.Value("x" * SIZE)))
    tracemalloc.start()
    try:
        back = Payloads().load_outcome(received).unwrap()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert "x" * SIZE == back
    assert peak < 1.5 * SIZE


def test_a_bytearray_is_copied_when_the_call_is_made() -> None:
    """Alone and among bytes."""
    data = bytearray(b"a" * SIZE)
    alone = Payloads().dump_arguments((data,), {})
    among = Payloads().dump_arguments(([b"b" * SIZE, data],), {})
    data[:] = b"c" * SIZE

    assert b"a" * SIZE == Payloads().load_arguments(alone)[0][0]
    assert b"a" * SIZE == Payloads().load_arguments(among)[0][0][1]


def test_a_large_outcome_need_not_be_joined_to_see_whether_it_is_a_failure() -> None:
    payload = Payloads().dump_outcome(outcome.Value(b"x" * SIZE))
    assert isinstance(payload, Pieces)
    assert (False, None) == (failed(payload), failure_in(payload))

    error = Payloads().dump_outcome(outcome.Error(ValueError("y" * SIZE)))
    assert failed(error)
    assert isinstance(Payloads().load_outcome(error), outcome.Error)


@given(st.integers(0, 40), st.integers(0, 300), st.integers(1, 255))
@settings(deadline=None)
def test_damaged_large_payloads_are_an_error_of_the_task(cut: int, at: int, flip: int) -> None:
    """Cut short anywhere, or with a wrong size within."""
    good = bytes(travelled(Payloads().dump_arguments((bytes(LARGE), b"end"), {})))
    for bad in (good[: -1 - cut], good[: LARGE + 3 - cut]):
        with pytest.raises(PayloadError):
            Payloads().load_arguments(bad)

    flipped = bytearray(good)
    flipped[1 + at % 20] ^= flip
    try:
        Payloads().load_arguments(flipped)
    except PayloadError:
        pass


def test_a_pickle_that_announces_more_bytes_than_it_has_is_an_error() -> None:
    for size in (1 << 33, 1 << 62):
        body = b"\x80\x05\x8e" + size.to_bytes(8, "little") + bytes(LARGE)
        with pytest.raises((MemoryError, OverflowError, EOFError, pickle.UnpicklingError)):
            loads(b"\0" + body, Classes())
        with pytest.raises(PayloadError):
            Payloads().load_arguments(b"A\0" + body)


@given(st.recursive(st.one_of(st.integers(), st.text(), st.binary()), st.lists), st.integers(0, 5))
@settings(deadline=None)
def test_the_reader_reads_pickles_of_any_protocol(value: Any, protocol: int) -> None:
    """Those of old protocols have lines."""
    file: Any = Reader(memoryview(pickle.dumps(value, protocol)))

    assert value == pickle.Unpickler(file).load()


def test_the_reader_returns_less_then_nothing_at_the_end_of_its_data() -> None:
    reader = Reader(memoryview(b"abc\ndef"))
    room = bytearray(10)
    assert (b"ab", b"c\n", 3) == (
        reader.read(2),
        reader.readline(),
        reader.readinto(memoryview(room)),
    )
    assert (b"", b"", 0) == (reader.read(5), reader.readline(), reader.readinto(memoryview(room)))
    assert b"def" == room[:3]
