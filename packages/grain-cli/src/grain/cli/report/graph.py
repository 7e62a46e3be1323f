"""The graph of functions: a box for each, and an arrow where tasks of one came after another's.

Rules:

1. Time goes down. A few arrows that would close a circle go up; of a circle, these are the ones
   that fewest tasks took. What comes after tasks of its own function has no arrow: its box says so.
2. A row has so many boxes at most, so that the picture fits its page: functions that could stand in
   one row take several.
3. An arrow that passes a row has a place of its own in it, between the boxes.
4. In each row, what is linked stands close together: the order is the best of some sweeps down and
   up, by the mean place of the neighbours (Sugiyama's way); the places are the closest to the mean
   of the neighbours that keep the order and the distances.
5. Beyond `MOST` functions, those with the fewest tasks are one box. Beyond `MOST_ARROWS`, those of
   the fewest tasks are not drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MOST = 30
"""Boxes of a graph."""

MOST_ARROWS = 90
"""Arrows of a graph: with more, no eye can follow one."""

WIDTH, HEIGHT = 172, 50
"""Pixels of a box."""

_GAP, _PASSING = 22, 12  # pixels between boxes, and for an arrow that passes
_ROW_GAP = 42  # pixels between rows
_FOR_EACH, _MOST_MORE = 2.0, 60.0  # and more for each arrow there, up to so many
_MARGIN = 4
_SWEEPS = 12
_HEAD = 6  # pixels of the head of an arrow, without its point
_LABEL_HEIGHT, _DIGIT = 14, 7.2  # pixels of a label


class FunctionBox(NamedTuple):
    """A function.

    Attributes:
        function: its place in the list of functions.
        x: pixels from the left of the picture to the left of the box.
        y: pixels from above.
        again: how many of its tasks came after others of its own.
    """

    function: int
    x: float
    y: float
    again: int


class Arrow(NamedTuple):
    """Tasks of one function that came after tasks of another one.

    Attributes:
        path: from the one to the other, in pixels.
        head: the triangle at its end.
        width: pixels of the line.
        up: True if it goes against the others.
        label: the number of tasks, and its place in pixels; None where there was no room for it.
    """

    tasks: int
    path: str
    head: str
    width: float
    up: bool
    label: tuple[float, float] | None


class Graph(NamedTuple):
    """The geometry of a graph, in pixels.

    Attributes:
        not_drawn: the arrows that are left out.
    """

    width: int
    height: int
    boxes: list[FunctionBox]
    arrows: list[Arrow]
    not_drawn: int


Edges = dict[tuple[int, int], int]


def summed(tasks: Sequence[int], edges: Mapping[tuple[int, int], int]) -> tuple[list[int], Edges]:
    """Return the functions that have boxes, and the arrows between the boxes.

    Args:
        tasks: how many tasks each function has.
        edges: how many tasks of the second function came after tasks of the first.

    Returns:
        The functions in their order, and the arrows by the places of boxes. If there are more
        functions than `MOST`, the last box is that of all others, and the list is one shorter.
    """
    functions = list(range(len(tasks)))
    if len(tasks) > MOST:
        functions = sorted(sorted(functions, key=lambda one: -tasks[one])[: MOST - 1])
    places = {function: place for place, function in enumerate(functions)}
    between: Counter[tuple[int, int]] = Counter()
    for (one, two), count in edges.items():
        between[places.get(one, len(places)), places.get(two, len(places))] += count
    return functions, dict(between)


def graph(count: int, edges: Mapping[tuple[int, int], int], per_row: int) -> Graph | None:
    """Return the picture; None if no box is linked with another.

    Args:
        count: the number of boxes, in the order in which their functions came.
        edges: the tasks of each arrow, by two boxes.
        per_row: boxes side by side, at most.
    """
    between = sorted(
        ((link, tasks) for link, tasks in edges.items() if link[0] != link[1]),
        key=lambda one: -one[1],
    )
    if not between:
        return None
    links = dict(between[:MOST_ARROWS])
    order = _acyclic_order(count, links)
    places = {box: at for at, box in enumerate(order)}
    # One that goes up is placed as if it went down, and turned when it is drawn.
    up = {(one, two): places[one] > places[two] for one, two in links}
    downward = {link: link[::-1] if up[link] else link for link in links}
    numbers = _rows(order, set(downward.values()), per_row)
    rows: list[list[_Item]] = [[] for _ in range(max(numbers.values()) + 1)]
    boxes = {box: _Item(WIDTH) for box in order}
    for box in order:
        rows[numbers[box]].append(boxes[box])
    chains = {
        link: _chained(boxes[one], rows[numbers[one] + 1 : numbers[two]], boxes[two])
        for link, (one, two) in downward.items()
    }
    rows = _ordered(rows)
    _place(rows)
    width, height = _moved(rows)
    heaviest = max(links.values())
    labels = _Labels()
    return Graph(
        width,
        height,
        [
            FunctionBox(box, round(one.x - WIDTH / 2, 1), round(one.y, 1), edges.get((box, box), 0))
            for box, one in boxes.items()
        ],
        [
            _arrow(chains[link], tasks, heaviest, labels, up=up[link])
            for link, tasks in links.items()
        ],
        len(between) - len(links),
    )


def _chained(one: _Item, between: Iterable[list[_Item]], two: _Item) -> list[_Item]:
    """Link two boxes, by a place in each row between them."""
    chain = [one]
    for row in between:
        chain.append(_Item(_PASSING))
        row.append(chain[-1])
    chain.append(two)
    for above, below in pairwise(chain):
        above.below.append(below)
        below.above.append(above)
    return chain


def _moved(rows: list[list[_Item]]) -> tuple[int, int]:
    """Move all to the left edge, and give rows their height; return width and height of all."""
    left = min(item.x - item.width / 2 for row in rows for item in row) - _MARGIN
    y = float(_MARGIN)
    for row in rows:
        for item in row:
            item.x -= left
            item.y = y
        arrows = sum(len(item.below) for item in row)
        y += HEIGHT + _ROW_GAP + min(_MOST_MORE, _FOR_EACH * arrows)
    right = max(item.x + item.width / 2 for row in rows for item in row)
    bottom = rows[-1][0].y + HEIGHT
    return math.ceil(right + _MARGIN), math.ceil(bottom + _MARGIN)


class _Item:
    """A box, or the place of an arrow that passes; `x` is its middle."""

    __slots__ = ("above", "below", "width", "x", "y")

    def __init__(self, width: float) -> None:
        self.width = width
        self.x = self.y = 0.0
        self.above: list[_Item] = []
        self.below: list[_Item] = []


def _acyclic_order(count: int, links: Mapping[tuple[int, int], int]) -> list[int]:
    """Return the boxes in an order against which few tasks go.

    The greedy way of P. Eades, X. Lin, W. F. Smyth, Information Processing Letters 47, 1993: what
    has no successor left goes to the end, what has no predecessor to the beginning; else the box
    goes to the beginning whose arrows lead away the most.
    """
    left = list(range(count))
    first: list[int] = []
    last: list[int] = []
    while left:
        there = set(left)
        out = dict.fromkeys(left, 0)
        into = dict.fromkeys(left, 0)
        for (one, two), tasks in links.items():
            if one in there and two in there:
                out[one] += tasks
                into[two] += tasks
        source = next((box for box in left if not into[box]), None)
        sink = next((box for box in reversed(left) if not out[box]), None)
        if source is not None:
            chosen = source
            first.append(chosen)
        elif sink is not None:
            chosen = sink
            last.append(chosen)
        else:
            chosen = max(left, key=lambda box: out[box] - into[box])
            first.append(chosen)
        left.remove(chosen)
    return first + last[::-1]


def _rows(order: Iterable[int], links: set[tuple[int, int]], per_row: int) -> dict[int, int]:
    """Return the row of each box: below all that it comes after, where there is room."""
    rows: dict[int, int] = {}
    filled: Counter[int] = Counter()
    for box in order:
        row = max((rows[one] + 1 for one, two in links if two == box), default=0)
        while filled[row] >= per_row:
            row += 1
        rows[box] = row
        filled[row] += 1
    # No row is empty: one that is passed has what made it so.
    used = {row: at for at, row in enumerate(sorted(filled))}
    return {box: used[row] for box, row in rows.items()}


def _ordered(rows: list[list[_Item]]) -> list[list[_Item]]:
    """Return the items of each row in the order in which arrows cross the least."""
    best, least = rows, _crossings(rows)
    for sweep in range(_SWEEPS):
        rows = [row[:] for row in rows]
        upward = sweep % 2 == 1
        for row in reversed(rows) if upward else rows:
            places = {id(item): at for one in rows for at, item in enumerate(one)}
            means = {
                id(item): _mean([places[id(other)] for other in near]) if near else at
                for at, item in enumerate(row)
                for near in [item.below if upward else item.above]
            }
            row.sort(key=lambda item: means[id(item)])
        crossings = _crossings(rows)
        if crossings < least:
            best, least = rows, crossings
    return best


def _crossings(rows: list[list[_Item]]) -> int:
    count = 0
    for row, below in pairwise(rows):
        places = {id(item): at for at, item in enumerate(below)}
        ends = [(at, places[id(other)]) for at, item in enumerate(row) for other in item.below]
        count += sum(
            (one[0] - two[0]) * (one[1] - two[1]) < 0
            for at, one in enumerate(ends)
            for two in ends[at + 1 :]
        )
    return count


def _mean(amounts: Sequence[float]) -> float:
    return sum(amounts) / len(amounts)


def _place(rows: list[list[_Item]]) -> None:
    """Give each item its middle."""
    for row in rows:
        _keep_apart(row, [0.0] * len(row))
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted = [
                _mean([other.x for other in near]) if near else item.x
                for item in row
                for near in [item.above + item.below]
            ]
            _keep_apart(row, wanted)


def _keep_apart(row: list[_Item], wanted: Sequence[float]) -> None:
    """Move items as close as can be to where they would be, with room between them.

    The least sum of squares, by pooling of neighbours that are too close.
    """
    offsets = [0.0]
    for one, two in pairwise(row):
        gap = _GAP if one.width == two.width == WIDTH else _PASSING
        offsets.append(offsets[-1] + (one.width + two.width) / 2 + gap)
    blocks: list[tuple[float, int]] = []  # the mean place of some neighbours, and how many
    for place, offset in zip(wanted, offsets, strict=True):
        blocks.append((place - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (mean, many), (other, more) = blocks[-2:]
            blocks[-2:] = [((mean * many + other * more) / (many + more), many + more)]
    pooled = [mean for mean, many in blocks for _ in range(many)]
    for item, mean, offset in zip(row, pooled, offsets, strict=True):
        item.x = mean + offset


class _Labels:
    """The places of labels, which do not touch each other."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, float, float]] = []

    def take(self, points: Iterable[tuple[float, float]], text: str) -> tuple[float, float] | None:
        """Take the first of some points at which there is room; None if there is at none."""
        half = _DIGIT * len(text) / 2 + 2
        for x, y in points:
            if all(
                abs(x - at) >= half + other or abs(y - line) >= _LABEL_HEIGHT
                for at, line, other in self._taken
            ):
                self._taken.append((x, y, half))
                return round(x, 1), round(y, 1)
        return None


def _port(item: _Item, other: _Item, others: list[_Item], *, up: bool) -> float:
    """Return where an arrow leaves a box or comes to it: those of one side stand side by side."""
    if item.width == _PASSING:
        return item.x
    side = sorted(range(len(others)), key=lambda at: (others[at].x, at))
    # Two boxes that follow each other both ways have two arrows between them.
    at = [place for place, one in enumerate(side) if others[one] is other][-1 if up else 0]
    step = min(18.0, 0.7 * item.width / len(others))
    return item.x + step * (at - (len(others) - 1) / 2)


def _arrow(chain: list[_Item], tasks: int, heaviest: int, labels: _Labels, *, up: bool) -> Arrow:
    curves = []
    for one, two in pairwise(chain):
        start = _port(one, two, one.below, up=up), one.y + HEIGHT
        curves.append((*start, _port(two, one, two.above, up=up), two.y))
    (x, y), (last_x, last_y) = curves[0][:2], curves[-1][2:]
    # The line ends within its head.
    if up:
        head = f"M{x - 4.5:.1f} {y + 9:.1f}h9l-4.5 -8z"
        curves[0] = (x, y + _HEAD, *curves[0][2:])
    else:
        head = f"M{last_x - 4.5:.1f} {last_y - 9:.1f}h9l-4.5 8z"
        curves[-1] = (*curves[-1][:3], last_y - _HEAD)
    parts = [f"M{curves[0][0]:.1f} {curves[0][1]:.1f}"]
    for one_x, top, two_x, end in curves:
        middle = (top + end) / 2
        # Straight through the row that it passes, then on.
        parts.append(
            f"V{top:.1f}C{one_x:.1f} {middle:.1f} {two_x:.1f} {middle:.1f} {two_x:.1f} {end:.1f}"
        )
    return Arrow(
        tasks,
        "".join(parts),
        head,
        round(1.2 + 2.2 * math.sqrt(tasks / heaviest), 2),
        up,
        labels.take(_along(curves), f"{tasks:,}"),
    )


def _along(curves: Iterable[tuple[float, float, float, float]]) -> Iterator[tuple[float, float]]:
    """Yield points of an arrow, the middle of its first part first."""
    for one, top, two, end in curves:
        for t in (0.5, 0.4, 0.6, 0.3, 0.7):
            bent = t * t * (3 - 2 * t)  # of the curve whose ends are upright
            yield one + (two - one) * bent, top + (end - top) * (1.5 * t * (1 - t) + t**3)
