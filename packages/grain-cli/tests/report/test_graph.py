"""The graph of functions: what its picture promises, for any functions and arrows."""

from __future__ import annotations

import re
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from grain.cli.report.graph import HEIGHT, MOST, MOST_ARROWS, WIDTH, Graph, graph, summed

LINKS = st.integers(2, 30).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.dictionaries(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)),
            st.integers(1, 10**6),
            min_size=1,
            max_size=60,
        ),
        st.integers(2, 5),
    )
)


def places(drawn: Graph) -> dict[int, tuple[float, float]]:
    return {box.function: (box.x, box.y) for box in drawn.boxes}


def upright(path: str) -> list[tuple[float, float, float]]:
    """Return the upright parts of an arrow: the place, and from where to where."""
    found = []
    x, y = map(float, re.findall(r"^M(\S+) ([^V]+)", path)[0])
    for top, end_x, end_y in re.findall(r"V([^C]+)C\S+ \S+ \S+ \S+ (\S+) ([^V]+)", path):
        found.append((x, y, float(top)))
        x, y = float(end_x), float(end_y)
    return found


@given(LINKS)
def test_boxes_stand_apart_and_no_arrow_runs_through_one(
    given_: tuple[int, dict[tuple[int, int], int], int],
) -> None:
    count, edges, per_row = given_
    drawn = graph(count, edges, per_row)
    links = {link: tasks for link, tasks in edges.items() if link[0] != link[1]}
    if not links:
        assert drawn is None
        return

    assert drawn is not None
    at = places(drawn)
    assert list(range(count)) == sorted(at)
    assert all(
        0 <= x <= drawn.width - WIDTH and 0 <= y <= drawn.height - HEIGHT for x, y in at.values()
    )
    for (x, y), (other_x, other_y) in combinations(at.values(), 2):
        assert abs(x - other_x) >= WIDTH + 10 or abs(y - other_y) >= HEIGHT + 20
    rows = [y for _, y in at.values()]
    assert max(rows.count(y) for y in rows) <= per_row
    assert sorted(links.values()) == sorted(arrow.tasks for arrow in drawn.arrows)
    for arrow in drawn.arrows:
        for line, top, bottom in upright(arrow.path):
            assert not any(
                x < line < x + WIDTH and top < y + HEIGHT - 0.1 and y + 0.1 < bottom
                for x, y in at.values()
            )
    labels = [(*arrow.label, len(f"{arrow.tasks:,}")) for arrow in drawn.arrows if arrow.label]
    for (x, y, one), (other_x, other_y, other) in combinations(labels, 2):
        assert abs(y - other_y) >= 13.9 or abs(x - other_x) >= 7 * (one + other) / 2
    assert drawn == graph(count, edges, per_row)


def test_what_comes_after_stands_below() -> None:
    edges = {(0, 1): 630, (1, 2): 609, (2, 3): 8, (1, 3): 4}
    drawn = graph(4, edges, 5)

    assert drawn is not None
    at = places(drawn)
    assert [0, 1, 2, 3] == sorted(at, key=lambda box: at[box][1])
    assert not any(arrow.up for arrow in drawn.arrows)
    assert all(arrow.label for arrow in drawn.arrows)
    widths = {arrow.tasks: arrow.width for arrow in drawn.arrows}
    assert sorted(widths) == sorted(widths, key=lambda tasks: widths[tasks])


def test_of_a_circle_the_arrow_of_fewest_tasks_goes_up() -> None:
    drawn = graph(3, {(0, 1): 50, (1, 2): 40, (2, 0): 3, (1, 1): 7}, 5)

    assert drawn is not None
    assert [3] == [arrow.tasks for arrow in drawn.arrows if arrow.up]
    assert [0, 7, 0] == [box.again for box in drawn.boxes]


def test_two_functions_that_follow_each_other_have_two_arrows() -> None:
    drawn = graph(2, {(0, 1): 50, (1, 0): 40}, 5)

    assert drawn is not None
    down, up = drawn.arrows
    assert (False, True) == (down.up, up.up)
    assert upright(down.path)[0][0] != upright(up.path)[0][0]


def test_the_functions_with_the_fewest_tasks_are_one_box() -> None:
    tasks = [*range(100, 100 + MOST), 1, 2]
    edges = {(0, 30): 4, (0, 31): 5, (30, 31): 6, (2, 3): 7}
    shown, between = summed(tasks, edges)

    # The three with the fewest: 100, 1 and 2.
    assert list(range(1, MOST)) == shown
    assert {(29, 29): 15, (1, 2): 7} == between
    assert (list(range(MOST)), {(2, 3): 7}) == summed(tasks[:MOST], {(2, 3): 7})


def test_of_very_many_arrows_those_of_the_most_tasks_are_drawn() -> None:
    links = {(one, two): 1 + 20 * one + two for one in range(20) for two in range(20)}
    drawn = graph(20, links, 5)

    assert drawn is not None
    between = [tasks for (one, two), tasks in links.items() if one != two]
    assert sorted(between)[-MOST_ARROWS:] == sorted(arrow.tasks for arrow in drawn.arrows)
    assert len(between) - MOST_ARROWS == drawn.not_drawn
