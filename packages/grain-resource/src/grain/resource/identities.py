"""Cores and GPUs: requested by number, allocated by identity."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, ClassVar

from grain.resource.base import Resource, with_usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self


# Ids are bits of one integer: a larger one, from a typing error or from a peer, would take
# memory in proportion. No node comes near it.
_MOST = 1 << 20
# So many ids are read off the bits one by one, which is the fastest way for few.
_FEW = 16


class Identities(Resource):
    """Numbered things, one bit each in ``_mask``, so that taking and giving back are exact.

    As a request only the number counts; as a supply, a number N stands for the ids 0 to N-1.
    """

    # The last one is there only if the resource was stated as a number.
    __slots__ = ("_mask", "_owned", "_stated")

    _noun: ClassVar[str]
    _label: ClassVar[str]

    @with_usage(lambda _: "only the number, as in Cores(4) or GPUs(1)")
    def __init__(self, N: int | Iterable[int]) -> None:  # noqa: N803 - the user's name for it
        self._mask = self._owned = _mask_of(type(self).__name__, self._noun, N)
        if hasattr(N, "__index__"):
            self._stated = int(N)  # type: ignore[arg-type]

    @classmethod
    def _of_mask(cls, mask: int) -> Self:
        new = cls.__new__(cls)
        new._mask = new._owned = mask
        return new

    @property
    def N(self) -> int:  # noqa: N802 - the user's name for it
        """The number of them."""
        return self._mask.bit_count()

    @property
    def by_number(self) -> bool:
        """True if no user chose the ids: ``Cores(2)``, not ``Cores([0, 1])``, its equal."""
        return hasattr(self, "_stated")

    @property
    def ids(self) -> list[int]:
        """The ids, ascending."""
        ids = []
        left = self._mask
        for _ in range(min(left.bit_count(), _FEW)):
            lowest = left & -left
            ids.append(lowest.bit_length() - 1)
            left ^= lowest
        if left:  # many: by their digits, in a time that grows with their number, not its square
            ids += [i for i, bit in enumerate(bin(left)[:1:-1]) if bit == "1"]
        return ids

    def _request(self, res: Self) -> bool:
        return res._mask.bit_count() <= self._mask.bit_count()

    def _alloc(self, res: Self) -> Self:
        free = self._mask
        n = res._mask.bit_count()
        # The lowest free ids, which most often are n in a row: n bits from the lowest free one on.
        taken = ((1 << n) - 1) * (free & -free)
        if taken & ~free:
            # There is a gap: clear the lowest bit n times, and take what is missing then.
            left = free
            for _ in range(n):
                left &= left - 1
            taken = free ^ left
        self._mask = free ^ taken
        return self._of_mask(taken)

    def _dealloc(self, res: Self) -> None:
        if res._mask & ~self._owned:
            raise ValueError(f"{res!r} was not allocated from {self._of_mask(self._owned)!r}")
        if self._mask & res._mask:
            raise ValueError(f"{res!r} was given back twice")
        self._mask |= res._mask

    def _reclaim(self, res: Self) -> None:
        if res._mask & ~self._mask:
            raise ValueError(f"{res!r} is not free in {self!r}")
        self._mask &= ~res._mask

    def _repr(self) -> str:
        return f"{self._label}([{_spans(self.ids)}])"

    def _ask(self) -> str:
        return f"{type(self).__name__}({self.N})"

    def _stat(self) -> tuple[int, int]:
        return (self._mask.bit_count(), self._owned.bit_count())

    def _data(self) -> int | list[int]:
        n = self._mask.bit_count()
        return n if self._mask == (1 << n) - 1 else self.ids

    def _level(self) -> int:
        return self._mask.bit_count()

    # Equal to those of Resource but faster, as requests are looked up at every submission.
    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._mask == other._mask

    def __hash__(self) -> int:
        return hash((self._kind, self._mask))

    def _slack(self, res: Self) -> float:
        free = self._mask.bit_count()
        return (free - res._mask.bit_count()) / free if free else 0.0

    def _supplied(self) -> Self:
        return self._of_mask(self._mask)


class Cores(Identities):
    """CPU cores.

    Args:
        N: a number, to request any N of them; or a list of CPU ids, to state which ones a worker
            owns. A worker that states a number N owns the ids 0 to N-1.

    Attributes:
        c: the ids, a sorted list.
        N: the number of them.

    Raises:
        ValueError: N is negative, the ids are negative or not distinct, or they go beyond a
            million.
        TypeError: N is not an integer.
    """

    __slots__ = ()
    _kind = "Cores"
    _exports = ("c", "N")
    _noun = "core"
    _label = "CPU_Cores"

    @property
    def c(self) -> list[int]:
        """The CPU ids, ascending."""
        return self.ids


class GPUs(Identities):
    """GPUs, with identities like `Cores`.

    Attributes:
        g: the ids, a sorted list.
        N: the number of them. In a combination with `Cores`, ``.N`` is that of cores; use
            ``len(res.g)``.
    """

    __slots__ = ()
    _kind = "GPUs"
    _exports = ("g",)
    _noun = "GPU"
    _label = "GPUs"

    @property
    def g(self) -> list[int]:
        """The GPU ids, ascending."""
        return self.ids


def _mask_of(kind: str, noun: str, given: Any) -> int:
    if isinstance(given, (bool, str, bytes)):
        write = ""
        if isinstance(given, str) and given.strip().isdecimal():
            write = f": write {kind}({given.strip()})"
        raise TypeError(f"{kind} takes a number of {noun}s or a list of ids, not {given!r}{write}")
    try:
        n = operator.index(given)
    except TypeError:
        pass
    else:
        if n < 0:
            raise ValueError(f"{kind}({n}): a number of {noun}s cannot be negative")
        if n > _MOST:
            raise ValueError(f"{kind}({n}): more than {_MOST} {noun}s on one worker")
        return (1 << n) - 1
    try:
        ids = [operator.index(i) for i in given]
    except TypeError:
        raise TypeError(
            f"{kind}({given!r}): a number of {noun}s is a whole number, as in {kind}(4), "
            f"or a list of ids, as in {kind}([0, 2])"
        ) from None
    mask = 0
    for i in ids:
        if i < 0:
            raise ValueError(f"{kind}({given!r}): the {noun} id {i} is negative")
        if i >= _MOST:
            raise ValueError(f"{kind}({given!r}): the {noun} id {i} is not below {_MOST}")
        if mask >> i & 1:
            raise ValueError(f"{kind}({given!r}): the {noun} id {i} appears twice")
        mask |= 1 << i
    return mask


def _spans(ids: list[int]) -> str:
    """Return ascending ids as ``0-2,5``."""
    out: list[str] = []
    start = None
    for k, i in enumerate(ids):
        start = i if start is None else start
        if k + 1 == len(ids) or ids[k + 1] != i + 1:
            out.append(str(i) if i == start else f"{start}-{i}")
            start = None
    return ",".join(out)
