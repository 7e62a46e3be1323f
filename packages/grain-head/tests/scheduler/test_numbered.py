"""The table of tasks by number: it does what a dict does, in less memory."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from grain.head.scheduler.numbered import Numbered

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERS = st.one_of(st.integers(-3, 130), st.integers(-(2**70), 2**70))


class Beside(RuleBasedStateMachine):
    """A table and a dict to which the same happens."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Numbered[str] = Numbered()
        self.plain: dict[int, str] = {}
        self.last = 0

    @rule(number=NUMBERS, record=st.text(max_size=2))
    def set(self, number: int, record: str) -> None:
        self.table[number] = record
        self.plain[number] = record

    @rule(count=st.integers(1, 80))
    def append(self, count: int) -> None:
        """Add records as tasks come: one after the other."""
        for number in range(self.last + 1, self.last + 1 + count):
            self.set(number, "new")
        self.last += count

    @rule(count=st.integers(1, 80))
    def end(self, count: int) -> None:
        """Remove records as tasks end: the oldest first."""
        for number in sorted(self.plain)[:count]:
            assert self.plain.pop(number) == self.table.pop(number)

    @rule(number=NUMBERS)
    def pop(self, number: int) -> None:
        assert self.plain.pop(number, "none") == self.table.pop(number, "none")

    @rule(number=NUMBERS)
    def delete(self, number: int) -> None:
        if number in self.plain:
            del self.plain[number], self.table[number]
        else:
            with pytest.raises(KeyError):
                del self.table[number]

    @rule()
    def clear(self) -> None:
        self.plain.clear()
        self.table.clear()

    @rule(number=NUMBERS)
    def look(self, number: int) -> None:
        assert self.plain.get(number) == self.table.get(number)
        assert self.plain.get(number, "none") == self.table.get(number, "none")
        assert (number in self.plain) == (number in self.table)
        if number in self.plain:
            assert self.plain[number] == self.table[number]
        else:
            with pytest.raises(KeyError):
                self.table[number]
            with pytest.raises(KeyError):
                self.table.pop(number)

    @invariant()
    def is_the_same_by_number(self) -> None:
        ordered = sorted(self.plain.items())

        assert self.plain == self.table
        assert ordered == list(self.table.items())
        assert ordered[::-1] == list(reversed(self.table.items()))
        assert [number for number, _ in ordered] == list(self.table)
        assert [number for number, _ in ordered][::-1] == list(reversed(self.table))
        assert [record for _, record in ordered] == list(self.table.values())
        assert [record for _, record in ordered][::-1] == list(reversed(self.table.values()))
        assert (len(self.plain), bool(self.plain)) == (len(self.table), bool(self.table))
        assert self.plain.keys() == self.table.keys()


TestBeside = Beside.TestCase


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def in_use() -> int:
    return tracemalloc.get_traced_memory()[0]


def filled(count: int) -> Numbered[str]:
    table: Numbered[str] = Numbered()
    for number in range(1, count + 1):
        table[number] = "record"
    return table


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("count", [10_000, 13_000, 18_000])
def test_a_record_takes_13_bytes_however_many_there_are(count: int) -> None:
    """A dict takes 30 to 60 bytes, and as much again while it grows."""
    before = in_use()
    table = filled(count)
    most = tracemalloc.get_traced_memory()[1] - before

    assert len(table) == count
    assert (in_use() - before) / count < 14
    assert most / count < 16


@pytest.mark.usefixtures("traced")
def test_old_records_keep_no_memory_for_those_that_are_gone() -> None:
    before = in_use()
    table = filled(20_000)
    for number in range(1, 20_001):
        if number % 5000:
            del table[number]

    assert [5000, 10_000, 15_000, 20_000] == list(table)
    # The dict of the lists keeps its size, as any dict does.
    assert in_use() - before < 20_000 / 32 * 64 + 5000
    for number in list(table):
        del table[number]
    assert not table


@given(st.sets(st.integers(0, 200)), st.sets(st.integers(0, 200)))
def test_records_may_come_and_go_while_it_iterates(present: set[int], gone: set[int]) -> None:
    """What stays is seen once, and what is seen is there."""
    table: Numbered[str] = Numbered()
    for number in present:
        table[number] = "record"
    seen = []
    for number, record in table.items():
        seen.append(number)
        assert record == "record"
        for other in gone:
            table.pop(other, None)
        table[number + 1000] = "record"

    assert sorted(set(seen)) == seen
    assert present - gone <= set(seen)
