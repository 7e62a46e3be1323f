"""`Topology`: which ids of a worker are near each other, and the choice among those that are free.

A set of ids is a bit mask, as in `grain.resource.identities`. A level is a partition of the ids
into groups: the threads of each core, the CPUs of each last-level cache, of each memory node, of
each socket. Each level has larger groups than the one before.

Topology never decides whether a request fits, only which of the free ids it gets.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MOST = 1 << 20
"""Ids are below this: a larger one, from a typing error or from a peer, would take memory in
proportion. No node comes near it."""


class Topology(NamedTuple):
    """The groups of a worker's ids, or the CPUs that are near each of its GPUs.

    Attributes:
        levels: the groups of each level as masks, the level with the smallest groups first.
        near: for GPUs, the mask of the CPUs near each; empty for cores.
    """

    levels: tuple[tuple[int, ...], ...] = ()
    near: Mapping[int, int] = {}

    @classmethod
    def of_data(cls, ids: Sequence[int], data: Mapping[str, Any]) -> Topology | None:
        """Return the topology that plain data state beside the ids; None if they state none.

        Raises:
            TypeError, ValueError: the data make no sense.
        """
        if unknown := data.keys() - {"ids", "groups", "near"}:
            raise ValueError(f"{min(unknown)!r} is not one of ids, groups and near")
        owned = mask_of(ids)
        near = list(data.get("near") or ())
        if near:
            if len(near) != len(ids):
                raise ValueError("near has not as many lists of CPUs as there are ids")
            cpus = dict(zip(ids, map(parse_spans, near), strict=True))
            alike: dict[int, int] = {}
            for one, mask in cpus.items():
                alike[mask] = alike.get(mask, 0) | 1 << one
            return cls(simple([alike.values()], owned), cpus)
        levels = [[parse_spans(group) for group in level] for level in data.get("groups") or ()]
        kept = simple(levels, owned)
        return cls(kept) if kept else None

    def data(self, ids: Iterable[int]) -> dict[str, Any]:
        """Return it as `of_data` takes it."""
        if self.near:
            return {"near": [spans(bits(self.near.get(one, 0))) for one in ids]}
        return {"groups": [[spans(bits(group)) for group in level] for level in self.levels]}

    def compact(self, free: int, n: int) -> int:
        """Return ``n`` of the free ids, in the smallest group that has so many.

        Of several such groups it is the one with the fewest, so that larger ones stay whole. Where
        no group has so many, they are in as few groups as possible.
        """
        return _compact(free, n, self.levels)

    def spread(self, free: int, n: int) -> int:
        """Return ``n`` of the free ids, as far from each other as possible.

        Each further one is taken from the groups of which the fewest are taken, and of these from
        the ones that have the most left.
        """
        taken = 0
        for _ in range(n):
            left = free & ~taken
            for level in reversed(self.levels):
                groups = [group for group in level if group & left]
                if groups:
                    left &= min(groups, key=lambda group: _order_of_spreading(group, taken, left))
            taken |= left & -left
        return taken

    def near_any(self, ids: int) -> int:
        """Return the CPUs that are near any of the GPUs of a mask."""
        return mask_union(self.near.get(one, 0) for one in bits(ids))


def lowest(free: int, n: int) -> int:
    """Return the ``n`` lowest ids of a mask that has as many."""
    left = free
    for _ in range(n):
        left &= left - 1
    return free ^ left


def simple(levels: Iterable[Iterable[int]], owned: int) -> tuple[tuple[int, ...], ...]:
    """Return the levels that say something about some ids, the one with the smallest groups first.

    Left out are ids that are not among them, a level of which every group has one id, a level with
    one group, a level like another one, and a level whose groups overlap those of a smaller one
    without holding them whole.
    """
    clean = set()
    for level in levels:
        groups = tuple(sorted(rest for group in level if (rest := group & owned)))
        if sum(group.bit_count() for group in groups) != mask_union(groups).bit_count():
            raise ValueError("an id is in two groups of one level")
        if len(groups) > 1 and any(group.bit_count() > 1 for group in groups):
            clean.add(groups)
    kept: list[tuple[int, ...]] = []
    for level in sorted(clean, key=lambda level: (-len(level), level)):
        if not kept or all(_holds(group, kept[-1]) for group in level):
            kept.append(level)
    return tuple(kept)


def mask_union(masks: Iterable[int]) -> int:
    """Return the ids of any of the masks."""
    union = 0
    for mask in masks:
        union |= mask
    return union


def mask_of(ids: Iterable[int]) -> int:
    """Return the mask of some ids."""
    return mask_union(1 << one for one in ids)


def bits(mask: int) -> list[int]:
    """Return the ids of a mask, ascending."""
    ids = []
    left = mask
    for _ in range(min(left.bit_count(), _FEW)):
        lowest = left & -left
        ids.append(lowest.bit_length() - 1)
        left ^= lowest
    if left:  # many: by their digits, in a time that grows with their number, not its square
        ids += [i for i, bit in enumerate(bin(left)[:1:-1]) if bit == "1"]
    return ids


# So many ids are read off the bits one by one, which is the fastest way for few.
_FEW = 16


def spans(ids: list[int]) -> str:
    """Return ascending ids as ``0-2,5``."""
    out: list[str] = []
    start = None
    for k, i in enumerate(ids):
        start = i if start is None else start
        if k + 1 == len(ids) or ids[k + 1] != i + 1:
            out.append(str(i) if i == start else f"{start}-{i}")
            start = None
    return ",".join(out)


def parse_spans(text: object) -> int:
    """Return the mask of ids as the kernel writes them, ``0-2,5``, or as a list of them.

    Raises:
        TypeError: it is neither.
        ValueError: it is not such a text, or an id is too large.
    """
    if not isinstance(text, str):
        ids = [operator.index(one) for one in text]  # type: ignore[attr-defined]
        if any(not 0 <= one < MOST for one in ids):
            raise ValueError(f"an id is from 0 to {MOST - 1}")
        return mask_of(ids)
    mask = 0
    for part in text.split(",") if text.strip() else ():
        first, _, last = part.strip().partition("-")
        words = (first, last or first)
        if not all(word.isascii() and word.isdigit() and len(word) < 8 for word in words):
            raise ValueError(f"{text!r} is not a list of ids such as 0-2,5")
        low, high = map(int, words)
        if not low <= high < MOST:
            raise ValueError(f"{text!r} is not a list of ids such as 0-2,5, from 0 to {MOST - 1}")
        mask |= (1 << high + 1) - (1 << low)
    return mask


def _compact(free: int, n: int, levels: Sequence[Sequence[int]]) -> int:
    if n == 0:
        return 0
    within = levels
    for depth, level in enumerate(levels):
        fewest, tightest = MOST + 1, 0
        for group in level:
            count = (group & free).bit_count()
            if n <= count < fewest:
                fewest, tightest = count, group
                if count == n:
                    return group & free
        if tightest:
            free &= tightest
            within = levels[:depth]
            break
    # Of the groups within, none has so many: take the fullest whole, and choose the rest.
    fullest = max(within[-1], key=lambda group: (group & free).bit_count()) & free if within else 0
    if not fullest:
        return lowest(free, n)
    return fullest | _compact(free & ~fullest, n - fullest.bit_count(), within)


def _order_of_spreading(group: int, taken: int, left: int) -> tuple[int, int, int]:
    return (group & taken).bit_count(), -(group & left).bit_count(), group & -group


def _holds(group: int, smaller: Sequence[int]) -> bool:
    """Return True if a group holds each of the smaller groups whole, or nothing of it."""
    return all(not group & one or not one & ~group for one in smaller)
