"""The requests that differ only in the memory that they learn, as for each size of a problem."""

from __future__ import annotations

from functools import reduce
from math import frexp
from operator import or_
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grain.resource import Resource


class LearningFamily:
    """Requests that ask for the same but for memory that they learn.

    Which of them ask for no more than is free is found without a look at each: they are in buckets
    by their amounts, 16 from each power of two to the next.

    Attributes:
        number: distinguishes families.
        interpreter: of the requests.
        rest: what they ask for besides memory.
    """

    def __init__(self, number: int, interpreter: str, rest: Resource) -> None:
        self.number = number
        self.interpreter = interpreter
        self.rest = rest
        self._buckets: dict[int, dict[int, float]] = {}  # amounts in GB, by bit
        self._masks: dict[int, int] = {}
        self._bucket: dict[int, int] = {}  # by bit

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self._bucket)

    def add(self, bit: int, amount: float) -> None:
        """Add a request by its bit, or one again that was removed."""
        bucket = self._bucket[bit] = _bucket_of(amount)
        self._buckets.setdefault(bucket, {})[bit] = amount
        self._masks[bucket] = self._masks.get(bucket, 0) | bit

    def remove(self, bit: int) -> None:
        """Remove a request."""
        bucket = self._bucket.pop(bit)
        del self._buckets[bucket][bit]
        self._masks[bucket] &= ~bit
        if not self._masks[bucket]:
            del self._buckets[bucket], self._masks[bucket]

    def within(self, memory: float) -> int:
        """Return the bits of the requests that ask for so many GB or less."""
        last = _bucket_of(memory)
        mask = reduce(or_, [bits for bucket, bits in self._masks.items() if bucket < last], 0)
        for bit, amount in self._buckets.get(last, {}).items():
            if amount <= memory:
                mask |= bit
        return mask


def _bucket_of(amount: float) -> int:
    part, exponent = frexp(amount)
    return 16 * exponent + int(32 * part)
