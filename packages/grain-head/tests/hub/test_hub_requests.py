"""Missions of a hub: their turns, tasks they retract, and requests that no worker can meet."""

from __future__ import annotations

from collections import Counter
from math import inf

import pytest

from grain.edge.questions import Ask
from grain.head.errors import BadMessage
from grain.head.hub.reports import SUCCESSOR
from grain.head.hub.state import PRINTS, PRINTS_SAVED
from grain.head.messages import (
    AckTasks,
    Blocked,
    Crash,
    Printed,
    Request,
    Retract,
    Retracted,
    SeveralMaxima,
    Submit,
    Synced,
    Trouble,
    Unschedulable,
)
from grain.worker.messages import (
    AckRuns,
    BlockingCode,
    Draining,
    InventoryEnd,
    InventoryRun,
    Lease,
    Leaving,
    LoopBlocked,
    RegisterWorker,
    Revoke,
    TasksPrinted,
)
from grain_testkit.hub_harness import F, HubHarness


def test_a_retracted_task_is_over_when_its_run_has_ended(harness: HubHarness) -> None:
    """At once if it waits; if it runs it holds its cores until its worker reports the end."""
    worker, mission = harness.worker("w", 1), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2)
    (lease,) = harness.sent(worker, Lease)
    harness.send(mission, Retract((1, 2)))
    assert [Retracted(2)] == harness.sent(mission, Retracted)
    assert [Revoke(lease.attempt)] == harness.sent(worker, Revoke)

    harness.send(worker, harness.ended(lease, "cancelled"))
    assert [Retracted(1)] == harness.sent(mission, Retracted)
    assert [AckRuns((lease.attempt,))] == harness.sent(worker, AckRuns)


def test_why_names_the_maxima_of_a_group_whatever_the_state_of_the_task(
    harness: HubHarness,
) -> None:
    worker = harness.worker("w", 1, memory=16.0)
    for name, most in (("a", 8), ("b", 16)):
        learns = Request(1, {"Cores": 1, "Memory": {"M": most, "group": "opt"}})
        harness.send(harness.synced(name), learns, Submit(1, 1, F), payload=b"args")

    def named(mission: str, state: str) -> bool:
        why = harness.hub.answer_why(mission, 1, harness.now)
        assert state == why.state
        return any("'opt' has two maxima, 8 GB and 16 GB" in reason for reason in why.reasons)

    assert named("a", "running")
    assert named("b", "waiting")
    (lease,) = harness.sent(worker, Lease)
    harness.send(worker, harness.ended(lease), payload=b"")
    harness.send("a", AckTasks((1,)))
    assert named("a", "ended")
    (row,) = harness.hub.needs()
    assert (8.0, 16.0) == row.maxima


def test_each_mission_is_told_once_that_others_state_another_maximum_for_a_group(
    harness: HubHarness,
) -> None:
    def states(mission: str, number: int, most: int | None, **more: object) -> None:
        memory = {"group": "opt", **({} if most is None else {"M": most}), **more}
        harness.send(mission, Request(number, {"Cores": 1, "Memory": memory}))

    def told(mission: str) -> list[tuple[float, ...]]:
        return [one.maxima for one in harness.sent(mission, SeveralMaxima)]

    for name in ("a", "b", "both", "other"):
        harness.synced(name)
    harness.send("other", Request(1, {"Cores": 1, "Memory": {"M": 4, "group": "md"}}))
    states("a", 1, 8)
    states("a", 2, 8, size=3)
    states("both", 1, 8)
    states("both", 2, 9)
    assert [(8.0, 9.0)] == told("a")
    assert [] == told("both")
    states("b", 1, None)
    states("b", 2, None, size=3)
    assert [(8.0, 9.0, inf)] == told("b")
    states("a", 3, 10)
    assert [[]] * 4 == [told(name) for name in ("a", "b", "both", "other")]


def test_a_mission_that_comes_late_takes_turns_with_one_that_has_thousands_of_tasks(
    harness: HubHarness,
) -> None:
    worker, many = harness.worker("w", 1), harness.mission("many")
    harness.send(many, Synced())
    harness.submit(many, *range(1, 1001))
    harness.synced("few", *range(1, 11))

    order = []
    for _ in range(30):
        (lease,) = harness.sent(worker, Lease)
        order.append(lease.mission)
        harness.send(worker, harness.ended(lease), payload=b"")
    assert 10 == order[:22].count("few")
    assert ["many"] * 8 == order[22:]


def starts(harness: HubHarness, worker: str, count: int) -> list[str]:
    """Let the runs that a worker is given end one after the other; return whose they were."""
    order = []
    for _ in range(count):
        (lease,) = harness.sent(worker, Lease)
        order.append(lease.mission)
        harness.send(worker, harness.ended(lease), payload=b"")
    return order


def test_a_mission_that_comes_back_takes_turns_as_if_it_had_stayed(harness: HubHarness) -> None:
    """It does not wait for the turns of all that it had waiting before."""
    worker = harness.worker("w", 1)
    for name in ("stays", "away"):
        harness.send(harness.mission(name), Synced())
        harness.submit(name, *range(1, 31))
    harness.lose("away")
    again = harness.mission("away", link="again", connection=2)
    harness.submit(again, *range(1, 31))

    assert {"stays": 10, "away": 10} == Counter(starts(harness, worker, 20))


def test_a_mission_gains_no_turn_by_coming_back_again_and_again(harness: HubHarness) -> None:
    worker, order = harness.worker("w", 1), list[str]()
    for name in ("stays", "away"):
        harness.send(harness.mission(name), Synced())
        harness.submit(name, *range(1, 31))
    for connection in range(2, 22):
        harness.lose("away")
        harness.mission("away", connection=connection)
        harness.submit("away", *range(1, 31))
        harness.send("away", Synced())
        order += starts(harness, worker, 1)

    assert {"stays": 10, "away": 10} == Counter(order)


@pytest.mark.parametrize("reported_first", [True, False])
def test_missions_take_turns_at_a_successor_whatever_they_have_running(
    harness: HubHarness, *, reported_first: bool
) -> None:
    """The runs that it adopts had their turns at the head before it."""
    runs = [InventoryRun("busy", k, (9, k), {"Cores": [k]}, 5.0) for k in range(1, 11)]
    if reported_first:
        harness.worker("w", 11, tuple(runs))
    for name in ("busy", "idle"):
        harness.mission(name)
    harness.submit("idle", *range(1, 31))
    harness.submit("busy", *range(1, 11), worker="w")
    harness.submit("busy", *range(11, 31))
    for name in ("busy", "idle"):
        harness.send(name, Synced())
    if not reported_first:
        harness.worker("w", 11, tuple(runs))

    assert {"busy": 10, "idle": 10} == Counter(starts(harness, "w", 20))


def test_tasks_that_have_run_before_go_in_the_present_round_and_cost_no_turn(
    harness: HubHarness,
) -> None:
    """Those that have crashed, too, though no worker has them."""
    worker = harness.worker("w", 1)
    for name in ("busy", "idle"):
        harness.mission(name)
    harness.submit("idle", *range(1, 31))
    crash = Crash((9, 1), "w", "SIGSEGV", 0.0)
    harness.submit("busy", *range(1, 11), crashes=(crash,))
    harness.submit("busy", *range(11, 31))
    for name in ("busy", "idle"):
        harness.send(name, Synced())
    order = starts(harness, worker, 31)

    assert ["idle", *["busy"] * 10] == order[:11]
    assert {"busy": 10, "idle": 10} == Counter(order[11:])


def test_a_trouble_of_the_head_is_reported_to_all_missions_until_it_is_over(
    harness: HubHarness,
) -> None:
    """Also to one that comes meanwhile; and people see it."""
    early, late = harness.mission("early"), harness.mission("late")
    harness.send(early, Synced())
    harness.hub.on_trouble("/e.d", "it is full")
    harness.dispatch()
    assert [Trouble("/e.d", "it is full")] == harness.sent(early, Trouble)
    assert [] == harness.sent(late, Trouble)
    harness.send(late, Synced())
    assert [Trouble("/e.d", "it is full")] == harness.sent(late, Trouble)
    assert ["it is full"] == harness.hub.snapshot(harness.now).troubles

    harness.hub.on_trouble("/e.d", "")
    harness.hub.on_trouble("/other", "")
    harness.dispatch()
    for mission in (early, late):
        assert [Trouble("/e.d", "")] == harness.sent(mission, Trouble)
    assert [] == harness.hub.snapshot(harness.now).troubles


def test_a_request_that_no_worker_can_meet_is_reported_to_its_mission_once(
    harness: HubHarness,
) -> None:
    """With what is missing; and it starts when a worker joins that can meet it."""
    harness.worker("w", 2)
    mission = harness.synced("m", 1, 2, cores=4)
    (message,) = harness.sent(mission, Unschedulable)
    assert "Cores(4)" in message.why
    assert message.larger

    big = harness.worker("big", 4)
    assert [1] == [lease.task for lease in harness.sent(big, Lease)]


def told(harness: HubHarness, mission: str) -> list[tuple[str, bool]]:
    return [(message.why, message.workers) for message in harness.sent(mission, Unschedulable)]


def test_a_request_is_looked_at_again_when_workers_come_and_go(harness: HubHarness) -> None:
    """None is there; one that does not fit; one that does; and none again."""
    mission = harness.synced("m", 1, cores=4)
    assert [("no worker is here", False)] == told(harness, mission)

    harness.worker("small", 2)
    harness.wait(1)
    [(why, workers)] = told(harness, mission)
    assert "small: " in why
    assert workers
    harness.worker("smaller", 1)
    harness.wait(1)
    assert [] == told(harness, mission)

    harness.worker("big", 4)
    harness.wait(1)
    assert [("", True)] == told(harness, mission)
    harness.submit(mission, 2)
    for worker in ("small", "smaller", "big"):
        harness.send(worker, Leaving())
    harness.wait(1)
    assert [("no worker is here", False)] == told(harness, mission)


def test_nothing_is_said_about_a_worker_that_is_away_for_a_moment(harness: HubHarness) -> None:
    """It may be back; if it is not, its tasks have no other worker."""
    worker, mission = harness.worker("w", 2), harness.mission(cores=2)
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2)
    harness.lose(worker)
    harness.worker("small", 1)
    harness.wait(30)
    assert [] == told(harness, mission)

    harness.wait(40)
    assert ["small" in why for why, _ in told(harness, mission)] == [True]


def test_nothing_is_said_while_the_successor_of_a_worker_whose_time_is_over_may_come(
    harness: HubHarness,
) -> None:
    """It would do as the worker did; if none has come for two minutes, all have to know."""
    worker, mission = harness.worker("w", 2, seconds=130.0), harness.mission(cores=2)
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2)
    [lease] = harness.sent(worker, Lease)
    harness.wait(70)
    harness.send(worker, Draining())
    harness.wait(60)
    harness.send(worker, harness.ended(lease, "returned"), Leaving())
    harness.wait(SUCCESSOR - 61)
    assert [] == told(harness, mission)
    harness.wait(1)
    assert [("no worker is here", False)] == told(harness, mission)

    harness.worker("next", 2, seconds=130.0)
    harness.wait(1)
    assert [("", True)] == told(harness, mission)


@pytest.mark.parametrize("how", ["its time is over", "it is lost", "it leaves"])
def test_nothing_is_said_of_a_worker_that_has_gone_while_grain_scale_runs(
    harness: HubHarness, how: str
) -> None:
    """However long its successor waits in the queue; two minutes after `grain scale` it is said."""
    worker, mission = harness.worker("w", 2, seconds=130.0), harness.mission(cores=2)
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2)
    harness.send("scale", Ask("state", scales=True))
    [lease] = harness.sent(worker, Lease)
    if how == "its time is over":
        harness.wait(70)
        harness.send("scale", Ask("state", scales=True))
        harness.send(worker, Draining())
    if how == "it is lost":
        harness.lose(worker)
    else:
        harness.send(worker, harness.ended(lease, "returned"), Leaving())
    for _ in range(40):
        harness.wait(15)
        harness.send("scale", Ask("demand", scales=True))
    assert [] == told(harness, mission)

    harness.wait(SUCCESSOR - 1)
    assert [] == told(harness, mission)
    harness.wait(2)
    assert [("no worker is here", False)] == told(harness, mission)


def test_what_no_worker_of_grain_scale_has_had_is_said_though_it_runs(harness: HubHarness) -> None:
    small, mission = harness.worker("small", 1, seconds=60.0), harness.mission(cores=2)
    harness.send(mission, Synced())
    harness.send("scale", Ask("state", scales=True))
    harness.submit(mission, 1)
    harness.wait(1)
    assert 1 == len(told(harness, mission))
    # Once, however often such a worker goes, and another one comes.
    for _ in range(3):
        harness.send(small, Leaving())
        harness.wait(30)
        harness.send("scale", Ask("state", scales=True))
        assert [] == told(harness, mission)
        small = harness.worker("small", 1, seconds=60.0)
        harness.wait(1)
    harness.send(small, Leaving())
    harness.wait(SUCCESSOR - 31)
    assert [] == told(harness, mission)
    harness.wait(31)
    assert [("no worker is here", False)] == told(harness, mission)


def test_no_successor_is_expected_of_a_worker_that_has_time_or_would_not_do(
    harness: HubHarness,
) -> None:
    small, mission = harness.worker("small", 1, seconds=60.0), harness.mission(cores=2)
    worker = harness.worker("w", 2, seconds=3600.0)
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2)
    harness.send(small, Draining())
    harness.wait(1)
    assert [] == told(harness, mission)
    harness.send(worker, Draining())
    harness.wait(1)
    [(why, workers)] = told(harness, mission)
    assert "small" in why
    assert workers


def test_what_was_said_is_not_taken_back_for_a_successor_that_is_not_here(
    harness: HubHarness,
) -> None:
    mission = harness.synced("m", 1, cores=2)
    assert [("no worker is here", False)] == told(harness, mission)
    offered = {"Cores": 2, "WTime": {"T": 1.0}}
    register = RegisterWorker("w", "w", "host", offered, connection=1)
    harness.send("w", register, Draining(), InventoryEnd())
    harness.wait(1)
    assert [("w: 0 s are left, 0 s needed", True)] == told(harness, mission)


def test_a_request_without_waiting_tasks_is_not_reported(harness: HubHarness) -> None:
    """And what was reported of it is taken back, so that a later task is looked at again."""
    mission = harness.synced("m", 1, cores=4)
    harness.send(mission, Retract((1,)))
    assert 1 == len(told(harness, mission))
    harness.worker("w", 1)
    harness.wait(1)
    assert [("", True)] == told(harness, mission)

    harness.submit(mission, 2)
    assert 1 == len(told(harness, mission))


def test_a_task_that_names_an_undefined_request_is_a_bad_message(harness: HubHarness) -> None:
    """The peer is to blame, and not this head."""
    mission = harness.mission()
    with pytest.raises(BadMessage, match="task 1 refers to an undefined request"):
        harness.send(mission, Submit(1, 99, F))


def test_a_task_that_blocks_its_worker_is_reported_to_its_mission(harness: HubHarness) -> None:
    """With the name of the worker; a task whose mission is over is not reported."""
    worker, mission = harness.worker("w", 1), harness.mission("m")
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    code = BlockingCode(
        "relax", "sweep.py:7", "time.sleep(60)", 2.0, "write `await trio.sleep(...)`"
    )

    harness.send(worker, LoopBlocked("m", 1, code), LoopBlocked("another", 1, code))

    assert [Blocked(1, "w", code)] == harness.sent(mission, Blocked)


def test_what_tasks_print_goes_to_their_mission_up_to_a_limit(harness: HubHarness) -> None:
    """Tried: Print without an end, with `echo=True`.
    Result: 32,768 characters a second reach the mission, the others are counted.
    """
    worker, mission = harness.worker("w", 1), harness.mission("m")
    line = "m:1 f | " + "x" * 8183 + "\n"
    for _ in range(20):
        harness.send(worker, TasksPrinted("m", 2 * line, 1), TasksPrinted("another", line))
    printed = harness.sent(mission, Printed)
    assert PRINTS_SAVED == sum(len(one.text) for one in printed)
    assert {("w", 1)} == {(one.worker, one.lost) for one in printed}
    harness.now += PRINTS_SAVED / PRINTS
    harness.send(worker, TasksPrinted("m", line))
    assert [Printed("w", line, 12 * 3)] == harness.sent(mission, Printed)
    harness.lose(mission)
    harness.send(worker, TasksPrinted("m", line))
    assert [] == harness.sent(mission, Printed)


def test_a_task_whose_queue_was_discarded_while_it_awaited_a_report_starts(
    harness: HubHarness,
) -> None:
    """The scheduler keeps a few hundred empty queues, and forgets the rest."""
    mission = harness.mission()
    harness.submit(mission, 1, worker="of another head")
    harness.send(mission, Synced())
    for number in range(1, 400):
        harness.send(mission, Request(number, {"Cores": 1, "Memory": number}))
    worker = harness.worker("w", 1)
    harness.wait(100)

    assert [1] == [lease.task for lease in harness.sent(worker, Lease)]
