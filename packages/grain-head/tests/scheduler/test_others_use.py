"""How many licences others use, as far as a command that counts those in use lets one know."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.head.scheduler.cluster import CONFIRMED, SETTLED, OthersUse


class Asked(NamedTuple):
    """One answer: how many are in use, what each task holds, and how many others use by that."""

    used: int
    held: dict[int, int]
    others: int
    at: float = 0.0


ONE, TWO = {1: 1}, {1: 1, 2: 1}


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([Asked(3, {}, 3), Asked(3, TWO, 3), Asked(5, TWO, 3)], id="tasks take theirs"),
        pytest.param([Asked(3, {}, 3), Asked(6, TWO, 4)], id="more than tasks hold"),
        pytest.param([Asked(3, {}, 3), Asked(3, {1: 3}, 3), Asked(6, {1: 3}, 3)], id="several"),
        pytest.param([Asked(3, {}, 3), Asked(1, {}, 1)], id="others give back"),
        pytest.param([Asked(3, {}, 3), Asked(1, TWO, 1)], id="no more than are in use"),
        pytest.param(
            [Asked(3, {}, 3), Asked(5, TWO, 3), Asked(3, {3: 1, 4: 1}, 3)],
            id="others begin where some have ended",
        ),
        pytest.param(
            [
                Asked(3, {}, 3),
                Asked(5, TWO, 3),
                Asked(4, TWO, 3, 1.0),
                Asked(4, TWO, 3, 2.0),
                Asked(4, TWO, 3, CONFIRMED),
                Asked(4, ONE, 3, CONFIRMED),
                Asked(4, ONE, 3, 2 * CONFIRMED),
            ],
            id="a task gives back before it ends",
        ),
        pytest.param(
            [
                Asked(3, {}, 3),
                Asked(7, dict.fromkeys((1, 2, 3, 4), 1), 3),
                Asked(6, dict.fromkeys((1, 2, 3, 4), 1), 3, 1.0),
                Asked(5, dict.fromkeys((2, 3, 4, 5), 1), 3, 50.0),
                Asked(4, dict.fromkeys((3, 4, 5, 6), 1), 3, 50.0 + 0.9 * CONFIRMED),
                Asked(3, dict.fromkeys((4, 5, 6, 7), 1), 3, 50.0 + 1.8 * CONFIRMED),
            ],
            id="one task after the other gives back before it ends",
        ),
        pytest.param(
            [
                Asked(3, {}, 3),
                Asked(5, TWO, 3),
                Asked(4, TWO, 3, 1.0),
                Asked(5, TWO, 3, 2.0),
                Asked(5, TWO, 3, 2 * CONFIRMED),
            ],
            id="a task is between two programs",
        ),
        pytest.param(
            [
                Asked(3, {}, 3),
                Asked(5, TWO, 3),
                Asked(4, TWO, 3, 1.0),
                Asked(4, TWO, 2, 1.0 + CONFIRMED),
            ],
            id="others give back beside tasks that go on",
        ),
        pytest.param(
            [
                Asked(3, {}, 3),
                Asked(5, TWO, 3),
                Asked(4, {2: 1, 3: 1}, 3, 1.0),
                Asked(4, {2: 1, 3: 1}, 3, SETTLED - 1.0),
                Asked(4, {2: 1, 3: 1}, 2, SETTLED + 1.0),
            ],
            id="others give back what a task that begins takes",
        ),
        pytest.param(
            [
                Asked(3, {}, 3),
                Asked(3, TWO, 3, 1.0),
                Asked(3, TWO, 3, 2 * CONFIRMED),
                Asked(3, TWO, 3, 2 * SETTLED),
                Asked(5, TWO, 3, 3 * SETTLED),
            ],
            id="tasks take theirs after hours",
        ),
        pytest.param(
            [Asked(3, {}, 3), Asked(3, TWO, 3, 1.0), Asked(2, TWO, 2, 2 * SETTLED)],
            id="others give back before tasks take theirs after hours",
        ),
        pytest.param([Asked(3, TWO, 1), Asked(3, ONE, 2)], id="tasks of an earlier scheduler"),
    ],
)
def test_others_use_what_tasks_do_not_account_for(answers: list[Asked]) -> None:
    use = OthersUse()
    seen = []
    for one in answers:
        use.on_answer(one.used, one.held, one.at)
        seen.append(use.number)

    assert [one.others for one in answers] == seen


STEP = 10.0  # seconds


class Task(NamedTuple):
    """A task that takes its licences some steps after its start, and gives them back earlier."""

    takes: int
    gives: int
    ends: int
    licences: int


tasks = st.builds(
    lambda late, uses, rest, n: Task(late, late + uses, late + uses + rest, n),
    st.integers(0, 20),
    st.integers(1, 20),
    st.integers(0, int(CONFIRMED / STEP) - 1),
    st.integers(1, 3),
)


@given(
    total=st.integers(1, 12),
    leave=st.lists(st.integers(0, 60), max_size=12),
    plan=st.lists(tasks, max_size=40),
    every=st.integers(1, 9),
)
def test_never_more_tasks_hold_licences_than_others_leave(
    total: int, leave: list[int], plan: list[Task], every: int
) -> None:
    use = OthersUse()
    running: dict[int, tuple[int, Task]] = {}
    begun = 0
    for now in range(120):
        others = min(sum(at > now for at in leave), total)
        running = {k: (at, one) for k, (at, one) in running.items() if at + one.ends > now}
        if now % every == 0:
            taken = [
                one.licences for at, one in running.values() if one.takes <= now - at < one.gives
            ]
            before = use.number
            held = {number: one.licences for number, (_, one) in running.items()}
            use.on_answer(others + sum(taken), held, now * STEP)
            assert others <= use.number
            assert use.number <= before or now == 0
        while begun < len(plan):
            held_now = sum(one.licences for _, one in running.values())
            if held_now + plan[begun].licences > total - use.number:
                break
            running[begun] = (now, plan[begun])
            begun += 1
        assert sum(one.licences for _, one in running.values()) <= total - others


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.floats(0, 5000)), max_size=30))
def test_others_do_not_become_fewer_while_the_number_in_use_does_not_fall(
    answers: list[tuple[int, int, float]],
) -> None:
    use = OthersUse()
    now, falls, before = 0.0, 0, None
    for used, ours, pause in answers:
        now += pause
        fewer = use.number
        use.on_answer(used, dict.fromkeys(range(ours), 1), now)
        falls += 0 if before is None else max(before - used, 0)
        falls -= max(fewer - use.number, 0)
        assert falls >= 0
        before = used


def test_what_others_give_back_is_used_within_two_answers_and_a_minute() -> None:
    use = OthersUse()
    use.on_answer(60, {}, 0.0)
    held = dict.fromkeys(range(40), 1)
    use.on_answer(100, held, 60.0)
    use.on_answer(50, held, 120.0)
    use.on_answer(50, held, 120.0 + CONFIRMED)

    assert 10 == use.number
