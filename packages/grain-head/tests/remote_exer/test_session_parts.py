"""Laws of the parts of a mission's session, whatever heads say and however often they die."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grain.edge.errors import RemoteProtocolError
from grain.head.messages import Overtaken, Request, Trouble, Unschedulable
from grain.head.scheduler.numbered import Numbered
from grain.remote_exer.session.notices import Notices
from grain.remote_exer.session.receipts import Receipts
from grain.remote_exer.session.requests import StatedRequests

# A report on a place or a request, with a reason or without one; or the next head, which says some
# things before it answers the registration, or dies before it can.
SAID = st.tuples(st.integers(0, 2), st.sampled_from(["", "why"]), st.booleans())
HEADS = st.lists(st.tuples(st.lists(SAID, max_size=5), st.booleans()), max_size=6)


@given(HEADS)
# A head says it, takes it back and says it again, and its predecessor had said it, too.
@example([([(0, "why", False)], False), ([(0, w, False) for w in ("why", "", "why")], True)])
def test_users_know_in_the_end_what_the_last_head_has_said_and_nothing_else(
    heads: list[tuple[list[tuple[int, str, bool]], bool]],
) -> None:
    """Each head knows only what it has said itself: it takes nothing back of what others said."""
    notices = Notices()
    shown: dict[str | int, str] = {}
    said: dict[str | int, str] = {}
    for reports, registers in [*heads, ([], True)]:
        said = {}
        for about, why, of_request in reports:
            key = about if of_request else str(about)
            if not why and key not in said:
                continue
            said[key] = why
            notices.on_message(
                Unschedulable(about, why) if of_request else Trouble(str(about), why)
            )
        if registers:
            notices.on_registered()
        for one in notices.arrived:
            if isinstance(one, Unschedulable):
                shown[one.request] = one.why
            elif isinstance(one, Trouble):
                shown[one.what] = one.why
        notices.arrived.clear()
        if registers:
            standing = {key for key, why in said.items() if why}
            assert standing == {key for key, why in shown.items() if why}
            assert notices.stuck.keys() == {key for key in standing if isinstance(key, int)}
        notices.on_disconnected()


@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=40))
def test_each_outcome_is_confirmed_once_and_as_tried_again_if_it_is(
    outcomes: list[tuple[int, bool]],
) -> None:
    receipts = Receipts()
    for task, again in outcomes:
        receipts.arrived.append(task)
        if again:
            receipts.retried.add(task)
    retried = {task for task, again in outcomes if again}
    messages = list(receipts.take())

    confirmed = [task for one in messages for task in (*one.tasks, *one.retried)]
    assert sorted(task for task, _ in outcomes) == sorted(confirmed)
    assert retried == {task for one in messages for task in one.retried}
    assert [] == receipts.arrived
    assert [] == list(receipts.take())


@pytest.mark.parametrize("waiting", [0, 1])
def test_the_next_head_learns_how_often_a_waiting_task_was_overtaken(waiting: int) -> None:
    requests = StatedRequests(Numbered(), Notices())
    requests.state({"Cores": 1}, 0, "")
    requests.state({"Cores": 2}, 0, "")
    requests.on_overtaken(Overtaken(1, 30))
    requests.waiting = [1, waiting]

    narrow, wide = requests.to_send()

    assert (Request(0, {"Cores": 1}), 30 * waiting) == (narrow, wide.overtaken)


def test_a_head_that_names_a_request_which_never_was_is_refused() -> None:
    requests = StatedRequests(Numbered(), Notices())
    with pytest.raises(RemoteProtocolError, match="request 0"):
        requests.on_overtaken(Overtaken(0, 1))
