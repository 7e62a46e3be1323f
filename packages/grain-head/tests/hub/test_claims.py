"""What lanes are recalled for: the same as by a look at everything that waits, for each lane."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from grain.head.hub.tasks.claims import Claims
from grain.head.hub.tasks.lanes import LaneTable
from grain.head.messages import SLICE


class Known(SimpleNamespace):
    """A record that is one by its identity."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


QUEUES = st.lists(
    st.builds(
        Known,
        priority=st.integers(0, 1),
        waiting=st.sampled_from([1, 1, 2, 3, 0]),
        open=st.sampled_from([1, 2, 3]),
        serving_shapes=st.sampled_from([1, 1, 1, 0]),
    ),
    min_size=1,
    max_size=4,
)
LANES = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3]),  # the mask of its worker's shape
        st.integers(0, 3),  # its own queue
        st.sampled_from([0.0, 0.0, 0.5]),  # when it began, in slices
        st.sampled_from(["waits", "waits", "waits", "lent", "recalled", "reserved"]),
    ),
    min_size=1,
    max_size=8,
)
NOW = 1.2 * SLICE


def table_of(queues: list[Any], lanes: list[tuple[int, int, float, str]]) -> LaneTable:
    order = [(-queue.priority, age, queue) for age, queue in enumerate(queues)]
    order.sort(key=lambda entry: entry[:2])
    scheduler = SimpleNamespace(in_order_of_service=order, wants_room=True, tasks={}, workers={})
    outgoing = SimpleNamespace(post=lambda *_: None)
    registry: Any = SimpleNamespace(outgoing=outgoing, scheduler=scheduler, lanes={})
    table = LaneTable(registry, Known(), Known(), Known(waiting=[]))  # type: ignore[arg-type]
    for number, (mask, own, began, sort) in enumerate(lanes):
        scheduler.tasks[number] = SimpleNamespace(queue=queues[own % len(queues)])
        scheduler.workers[number] = SimpleNamespace(
            shape=SimpleNamespace(mask=mask), reservation=None
        )
        lease: Any = Known(
            scheduler_id=number,
            began=began * SLICE,
            recalled=sort == "recalled",
            revoked=False,
            attempt=(number, 1),
            task=SimpleNamespace(course=SimpleNamespace(slices=sort != "lent")),
            worker=SimpleNamespace(number=number, reserved=sort == "reserved", link=None),
        )
        table.leases[lease] = Known()  # type: ignore[assignment]
    return table


def by_a_look_at_everything(table: LaneTable) -> tuple[list[bool], float]:
    """Return which lanes are to be recalled, and when to look again."""
    scheduler: Any = table._scheduler
    left = {
        queue: queue.waiting
        for _, _, queue in scheduler.in_order_of_service
        if queue.serving_shapes and queue.waiting
    }
    due = math.inf

    def settled(lease: Any, now: float) -> bool:
        nonlocal due
        own = scheduler.tasks[lease.scheduler_id].queue
        for queue, count in left.items():
            others = count - (table.waiting[queue] if queue is own else 0)
            if others <= 0 or not queue.open & scheduler.workers[lease.worker.number].shape.mask:
                continue
            if now < lease.began + SLICE:
                due = min(due, lease.began + SLICE)
                continue
            left[queue] -= 1
            return True
        return False

    leases: list[Any] = list(table.leases)
    for lease in leases:
        if lease.recalled:
            settled(lease, math.inf)
    recalled = [
        lease.recalled
        or not lease.task.course.slices
        or lease.worker.reserved
        or settled(lease, NOW)
        for lease in leases
    ]
    return recalled, due


@settings(max_examples=250)
@given(QUEUES, LANES, st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_lanes_are_recalled_as_by_a_look_at_everything(
    queues: list[Any], lanes: list[tuple[int, int, float, str]], waiting: list[int]
) -> None:
    table = table_of(queues, lanes)
    table.waiting = Counter(dict(zip(queues, waiting, strict=False)))
    expected = by_a_look_at_everything(table)
    table.recall(NOW)
    assert expected == ([lease.recalled for lease in table.leases], table.due)


def test_no_more_queues_are_looked_at_than_lanes_need() -> None:
    """Of thousands that wait, and none at all where there are no lanes."""
    looked = []

    def order() -> Any:
        for number in range(5000):
            looked.append(number)
            queue = Known(priority=0, waiting=1, open=number % 2 + 1, serving_shapes=1)
            yield 0, number, queue

    claims: Any = Claims(order())
    for _ in range(3):
        next(claims.of(2)).count -= 1
    assert list(range(6)) == looked
    next(claims.of(1))
    assert 6 == len(looked)

    table = table_of([Known(priority=0, waiting=1, open=1, serving_shapes=1)], [])
    table._scheduler.in_order_of_service = None  # type: ignore[misc,assignment]
    table.recall(NOW)
    assert math.inf == table.due
