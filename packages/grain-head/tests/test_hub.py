"""The hub by scenarios: each line is one event, and the messages that follow are looked at."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from grain.edge.messages import MAX_MESSAGE
from grain.edge.questions import Answer, Ask, unpack
from grain.head import _explain
from grain.head._scene import F, Scene, held
from grain.head.errors import BadMessage
from grain.head.messages import (
    Crash,
    Crashed,
    Depart,
    Enrol,
    Gone,
    Notice,
    Received,
    Request,
    Resolved,
    Retract,
    Started,
    Submit,
    Synced,
)
from grain.head.service import CODEC
from grain.worker.messages import (
    Draining,
    Drop,
    Function,
    Held,
    Lease,
    Leaving,
    Register,
    Release,
    Reported,
    Retire,
    Revoke,
    Settled,
    Took,
)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_outcome_goes_to_its_mission_and_is_released_when_that_has_it(scene: Scene) -> None:
    """The worker keeps it until the mission, not the head, has confirmed it."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    (lease,) = scene.sent(worker, Lease)
    assert [Started("w", (1,))] == scene.sent(mission, Started)

    scene.say(worker, scene.settled(lease), payload=b"42")
    assert [Resolved(1, "value")] == scene.sent(mission, Resolved)
    assert [] == scene.sent(worker, Release)

    scene.say(mission, Received((1,)))
    assert [Release((lease.attempt,))] == scene.sent(worker, Release)
    assert {} == scene.hub.ledger.clients["m"].entries


def test_a_function_travels_to_each_worker_once(scene: Scene) -> None:
    """And is dropped when its mission has left."""
    one, two, mission = scene.worker("one"), scene.worker("two"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1, 2, 3, 4)
    for worker in (one, two):
        assert 2 == len(scene.sent(worker, Lease))
        assert [Function(F)] == scene.sent(worker, Function)

    scene.say(mission, Depart())
    scene.wait(120.0)
    for worker in (one, two):
        assert [Drop((F,))] == scene.sent(worker, Drop)


def test_many_functions_are_dropped_in_messages_that_can_travel(scene: Scene) -> None:
    worker, mission = scene.worker("w"), scene.mission()
    digests = {number.to_bytes(16, "big") for number in range(70_000)}
    scene.hub.ledger.workers["w"].functions |= digests
    scene.say(mission, Synced())
    scene.say(mission, Depart())
    scene.wait(120.0)
    drops = scene.sent(worker, Drop)
    assert digests <= {digest for drop in drops for digest in drop.digests}
    assert all(len(CODEC.encode(drop, None)) <= MAX_MESSAGE for drop in drops)


def test_a_mission_knows_of_a_start_before_its_worker(scene: Scene) -> None:
    """A head that is killed in between leaves nothing that runs unknown to the next one."""
    workers, mission = [scene.worker(name, cores=1) for name in ("a", "b")], scene.mission()
    for task in (1, 2):
        scene.hub.on_message(mission, Submit(task, 0, F), b"", scene.now)
    scene.hub.dispatch(scene.now)
    told = scene.hub.take()
    first, *others = told
    assert (mission, {*workers}) == (first, {*others})
    assert {(1,), (2,)} == {m.tasks for m, _ in told[mission] if isinstance(m, Started)}


def test_many_starts_are_told_in_messages_that_can_travel(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grain.head._hub._AT_ONCE", 3)
    mission = scene.mission()
    scene.submit(mission, *range(1, 9))
    scene.worker("w", cores=8)
    told = [started.tasks for started in scene.sent(mission, Started)]
    assert [(1, 2, 3), (4, 5, 6), (7, 8)] == told


def test_a_successor_adopts_what_runs() -> None:
    """Neither is it started again, nor does anybody else get what it uses."""
    scene = Scene(epoch=2)
    running = Held("m", 1, (1, 7), {"Cores": [1]}, 100.0)
    mission = scene.mission()
    scene.submit(mission, 1, worker="w")
    scene.submit(mission, 2)
    scene.say(mission, Synced())
    worker = scene.worker("w", 2, (running,))

    (lease,) = scene.sent(worker, Lease)
    assert 2 == lease.task
    assert {"Cores": 1} == lease.res  # the core with id 0
    scene.say(worker, Settled("m", 1, (1, 7), "value"), payload=b"old")
    assert [Resolved(1, "value")] == scene.sent(mission, Resolved)


def test_what_ran_elsewhere_waits_for_that_worker_only(scene: Scene) -> None:
    """Another worker is not given it, until the grace period of the head's start is over."""
    mission, other = scene.mission(), scene.worker("other")
    scene.submit(mission, 1, worker="gone")
    scene.submit(mission, 2)
    scene.say(mission, Synced())
    assert [2] == [lease.task for lease in scene.sent(other, Lease)]

    scene.wait(65.0)
    assert [1] == [lease.task for lease in scene.sent(other, Lease)]


def test_a_report_comes_before_the_mission(scene: Scene) -> None:
    """An outcome that a worker hands in early is kept for the mission that is yet to come."""
    ended = Held("m", 1, (9, 1), {"Cores": 1}, 0.0, ended=True)
    worker = scene.worker("w", 2, (ended,))
    scene.say(worker, Settled("m", 1, (9, 1), "value"), payload=b"early")
    mission = scene.mission()
    scene.submit(mission, 1)
    scene.say(mission, Synced())

    assert [Resolved(1, "value")] == scene.sent(mission, Resolved)
    assert [] == scene.sent(worker, Lease)


def test_what_a_mission_does_not_mention_is_revoked(scene: Scene) -> None:
    """It was cancelled, or resolved through another head."""
    worker = scene.worker("w", 2, (Held("m", 1, (9, 1), {"Cores": 1}, 5.0),))
    mission = scene.mission()
    scene.say(mission, Synced())

    assert [Revoke((9, 1))] == scene.sent(worker, Revoke)


def test_a_worker_that_returns_in_time_keeps_its_runs(scene: Scene) -> None:
    """Meanwhile they are not started anywhere else."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    (lease,) = scene.sent(worker, Lease)
    other = scene.worker("other")
    scene.lose(worker)
    scene.wait(50.0)
    scene.worker("w", 2, (held(lease),), link="again")
    scene.wait(100.0)

    assert [] == scene.sent(other, Lease)
    assert [] == scene.sent("again", Lease)


def test_a_lease_that_never_arrived_is_no_crash(scene: Scene) -> None:
    """The worker reports without it: the task waits again, without blame."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    scene.sent(worker, Lease)
    scene.lose(worker)
    scene.worker("w", link="again")

    assert [1] == [lease.task for lease in scene.sent("again", Lease)]
    assert [] == scene.sent(mission, Crashed)


@pytest.mark.parametrize("begun", [True, False])
def test_a_lost_worker_blames_what_it_had_begun(scene: Scene, begun: bool) -> None:
    """What was still on its way to it is not to blame."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    if begun:
        scene.say(worker, Took(1))
    scene.lose(worker)
    scene.wait(65.0)

    assert begun == bool(scene.sent(mission, Crashed))


def test_a_worker_that_leaves_blames_nobody(scene: Scene) -> None:
    """Nor does one that was draining when it was lost."""
    one, two, mission = scene.worker("one", 1), scene.worker("two", 1), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1, 2)
    scene.say(one, Took(1), Draining(), Leaving())
    scene.say(two, Took(1), Draining())
    scene.lose(two)
    scene.wait(65.0)
    third = scene.worker("third")

    assert [1, 2] == sorted(lease.task for lease in scene.sent(third, Lease))
    assert [] == scene.sent(mission, Crashed)


def crash(scene: Scene, worker: str, times: int) -> list[Lease]:
    """The same task crashes; returns its leases."""
    leases = []
    for _ in range(times):
        (lease,) = scene.sent(worker, Lease)
        leases.append(lease)
        scene.say(worker, scene.settled(lease, "crashed", detail="SIGSEGV"))
    return leases


def test_a_task_that_crashes_twice_runs_alone(scene: Scene) -> None:
    """On a worker that is emptied for it, and then is everybody's again."""
    worker, mission = scene.worker("w", 3), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    first, second = crash(scene, worker, 1)[0], None
    scene.submit(mission, 2)
    second, beside = scene.sent(worker, Lease)
    assert (1, 2) == (second.task, beside.task)
    scene.say(worker, scene.settled(second, "crashed", detail="SIGSEGV"))
    scene.submit(mission, 3)
    assert [] == scene.sent(worker, Lease)

    scene.say(worker, scene.settled(beside), payload=b"")
    (alone,) = scene.sent(worker, Lease)
    assert (1, True, False) == (alone.task, alone.alone, first.alone)

    scene.say(worker, scene.settled(alone), payload=b"")
    assert [3] == [lease.task for lease in scene.sent(worker, Lease)]


def test_five_crashes_fail_a_task_and_tell_all_of_them(scene: Scene) -> None:
    """With the worker and the reason of each."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    leases = crash(scene, worker, 5)

    (resolved,) = scene.sent(mission, Resolved)
    assert "crashed" == resolved.ending
    assert [lease.attempt for lease in leases] == [c.attempt for c in resolved.crashes]
    assert {("w", "SIGSEGV")} == {(c.worker, c.how) for c in resolved.crashes}
    assert [] == scene.sent(worker, Lease)


def test_crashes_are_remembered_by_the_mission() -> None:
    """A new head goes on counting where the old one stopped."""
    scene = Scene(epoch=2)
    worker, mission = scene.worker("w"), scene.mission()
    known = tuple(Crash((1, n), "w", "SIGSEGV", 0.0) for n in range(4))
    scene.submit(mission, 1, crashes=known)
    scene.say(mission, Synced())
    crash(scene, worker, 1)

    assert 5 == len(scene.sent(mission, Resolved)[0].crashes)


def test_the_first_success_wins_and_later_ones_are_dropped(scene: Scene) -> None:
    """Even that of a run which was given up."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    (old,) = scene.sent(worker, Lease)
    scene.lose(worker)
    other = scene.worker("other", 1)
    scene.wait(65.0)
    (new,) = scene.sent(other, Lease)
    scene.worker("w", 2, (held(old, 0.0, ended=True),), link="back")
    scene.say("back", scene.settled(old), payload=b"old")
    assert [Resolved(1, "value")] == scene.sent(mission, Resolved)
    assert [Revoke(new.attempt)] == scene.sent(other, Revoke)

    scene.say(other, scene.settled(new), payload=b"new")
    assert [Release((new.attempt,))] == scene.sent(other, Release)
    assert [] == scene.sent(mission, Resolved)


def test_a_stale_failure_is_ignored(scene: Scene) -> None:
    """The run that took its place goes on."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    (old,) = scene.sent(worker, Lease)
    scene.lose(worker)
    other = scene.worker("other", 1)
    scene.wait(65.0)
    scene.worker("w", 2, (held(old, 0.0, ended=True),), link="back")
    scene.say("back", scene.settled(old, "error"), payload=b"old")

    assert [] == scene.sent(mission, Resolved)
    assert [] == scene.sent(other, Revoke)
    assert [Release((old.attempt,))] == scene.sent("back", Release)


def test_of_two_runs_the_older_goes_on(scene: Scene) -> None:
    """A worker that was given up returns with a run that has a long way behind it."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    (old,) = scene.sent(worker, Lease)
    scene.lose(worker)
    other = scene.worker("other", 1)
    scene.wait(65.0)
    (new,) = scene.sent(other, Lease)
    scene.worker("w", 2, (held(old, 65.0),), link="back")
    assert [Revoke(new.attempt)] == scene.sent(other, Revoke)

    scene.say(other, scene.settled(new, "cancelled"))
    assert [] == scene.sent(other, Lease)
    scene.say("back", scene.settled(old), payload=b"")
    assert [Resolved(1, "value")] == scene.sent(mission, Resolved)


def test_a_retracted_task_is_gone_when_its_run_is(scene: Scene) -> None:
    """At once if it waits; if it runs, when its worker says so: it holds its cores till then."""
    worker, mission = scene.worker("w", 1), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1, 2)
    (lease,) = scene.sent(worker, Lease)
    scene.say(mission, Retract((1, 2)))
    assert [Gone(2)] == scene.sent(mission, Gone)
    assert [Revoke(lease.attempt)] == scene.sent(worker, Revoke)

    scene.say(worker, scene.settled(lease, "cancelled"))
    assert [Gone(1)] == scene.sent(mission, Gone)
    assert [Release((lease.attempt,))] == scene.sent(worker, Release)


def test_a_mission_that_stays_away_is_cleaned_up(scene: Scene) -> None:
    """What waits is forgotten at once, what runs is revoked after the grace period."""
    worker, mission = scene.worker("w", 1), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1, 2)
    (lease,) = scene.sent(worker, Lease)
    scene.lose(mission)
    assert 0 == scene.hub.scheduler.waiting
    scene.wait(50.0)
    assert [] == scene.sent(worker, Revoke)

    scene.wait(15.0)
    assert [Revoke(lease.attempt)] == scene.sent(worker, Revoke)
    assert scene.hub.idle


def test_a_mission_that_comes_late_takes_turns(scene: Scene) -> None:
    """Its ten tasks do not wait for the thousands of another."""
    worker, many = scene.worker("w", 1), scene.mission("many")
    scene.say(many, Synced())
    scene.submit(many, *range(1, 1001))
    few = scene.mission("few")
    scene.say(few, Synced())
    scene.submit(few, *range(1, 11))

    order = []
    for _ in range(30):
        (lease,) = scene.sent(worker, Lease)
        order.append(lease.mission)
        scene.say(worker, scene.settled(lease), payload=b"")
    assert 10 == order[:22].count("few")
    assert ["many"] * 8 == order[22:]


def test_a_request_that_nobody_can_meet_is_reported_once(scene: Scene) -> None:
    """To the mission, with what is missing; and it starts when somebody comes who can."""
    scene.worker("w", 2)
    mission = scene.mission(cores=4)
    scene.say(mission, Synced())
    scene.submit(mission, 1, 2)
    (notice,) = scene.sent(mission, Notice)
    assert "Cores(4)" in notice.why

    big = scene.worker("big", 4)
    assert [1] == [lease.task for lease in scene.sent(big, Lease)]


def test_time_in_which_the_head_did_not_run_does_not_count(scene: Scene) -> None:
    """A head that was stopped gives its peers the grace period once it runs again."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    scene.lose(worker)
    scene.now += 3600.0
    scene.hub.on_tick(scene.now)
    assert "w" in scene.hub.ledger.workers

    scene.wait(65.0)
    assert "w" not in scene.hub.ledger.workers


def test_nonsense_of_a_peer_is_told_from_a_bug(scene: Scene) -> None:
    """A task that names what never came is refused with the peer's blame."""
    mission = scene.mission()
    with pytest.raises(BadMessage, match="task 1 names a request"):
        scene.say(mission, Submit(1, 99, F))


def test_a_connection_that_is_heard_of_late_is_not_taken_for_the_newer(scene: Scene) -> None:
    """The greeting of the lost one arrives after that of the one that took its place."""
    scene.say("new", Enrol("m", "m", connection=2), Request(0, {"Cores": 1}), Function(F), Synced())
    scene.say("old", Enrol("m", "m", connection=1))
    scene.lose("old")
    scene.wait(100.0)
    worker = scene.worker("w")
    scene.submit("new", 1)

    assert [1] == [lease.task for lease in scene.sent(worker, Lease)]


def test_why_tells_where_a_task_is(scene: Scene) -> None:
    """Running, waiting with the reasons of each worker, or not known."""
    scene.worker("w", 1)
    mission = scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1, 2)

    assert "running" == scene.hub.why("m", 1, 0.0).state
    waiting = scene.hub.why("m", 2, 0.0)
    assert "waiting" == waiting.state
    assert any("w: not now" in reason for reason in waiting.reasons)
    assert "unknown" == scene.hub.why("m", 3, 0.0).state


def test_a_snapshot_is_plain_data(scene: Scene) -> None:
    """What `grain ls` shows: workers with total and free, missions, queues."""
    scene.worker("w", 2)
    mission = scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1, 2, 3)
    found = scene.hub.snapshot(0.0)

    assert {"Cores": 2} == found["workers"][0]["total"]
    assert {"Cores": []} == found["workers"][0]["free"] or {"Cores": 0} == found["workers"][0][
        "free"
    ]
    assert (2, 1) == (found["missions"][0]["running"], found["missions"][0]["waiting"])
    assert 1 == found["queues"][0]["waiting"]


def test_a_snapshot_tells_what_waits_and_why(scene: Scene) -> None:
    """Of each queue its oldest task, by a name that `why` understands."""
    scene.worker("w", 2)
    mission = scene.mission("abc")
    scene.say(mission, Request(1, {"Cores": 9}), Synced())
    scene.submit(mission, 1, 2, 3, 4)
    scene.say(mission, Submit(5, 1, F), payload=b"args")
    found = scene.hub.snapshot(0.0)
    queues = {queue["request"]["Cores"]: queue for queue in found["queues"]}

    assert ("abc:3", "the worker is full", "") == tuple(
        queues[1][key] for key in ("oldest", "why", "never")
    )
    assert "abc:5" == queues[9]["oldest"]
    assert queues[9]["why"].startswith("w: it has CPU_Cores")
    assert ["abc:1", "abc:2"] == found["workers"][0]["tasks"]
    assert {"Cores": 1.0} == found["workers"][0]["used"]


class Unwalked(dict):  # type: ignore[type-arg]
    """Entries that may be looked up, and not gone through."""

    def __iter__(self) -> Any:
        raise AssertionError("walked")

    keys = values = items = __iter__


class UnwalkedTasks(deque):  # type: ignore[type-arg]
    """The same for a queue."""

    def __iter__(self) -> Any:
        raise AssertionError("walked")


def test_questions_do_not_walk_what_waits(scene: Scene) -> None:
    """A million tasks may wait, and nobody else is served meanwhile."""
    scene.worker("w", 2)
    mission = scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, *range(1, 9))
    scene.say(mission, Retract((5,)))
    client = scene.hub.ledger.clients["m"]
    [queue] = scene.hub.scheduler.queues.values()
    client.entries, queue.tasks = Unwalked(client.entries), UnwalkedTasks(queue.tasks)
    found = scene.hub.snapshot(0.0)
    scene.hub.why("m", 3, 0.0)

    assert (2, 5) == (found["missions"][0]["running"], found["missions"][0]["waiting"])
    assert (2, 5) == (found["queues"][0]["running"], found["queues"][0]["waiting"])


def test_how_many_are_older(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted without those that were cancelled; of very many, an upper bound."""
    scene.worker("w", 1)
    mission = scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, *range(1, 9))
    before = [scene.hub.why("m", task, 0.0).reasons[1] for task in (3, 8)]
    scene.say(mission, Retract((5,)))
    after = scene.hub.why("m", 8, 0.0).reasons[1]
    monkeypatch.setattr(_explain, "_COUNTED", 3)
    many = scene.hub.why("m", 8, 0.0).reasons[1]

    assert "1 older task that asks for the same goes first" == before[0]
    assert "6 older tasks that ask for the same go first" == before[1]
    assert "5 older tasks that ask for the same go first" == after
    assert "up to 6 older tasks that ask for the same go first" == many


def test_a_task_that_is_to_run_alone_waits(scene: Scene) -> None:
    """It is counted for its mission while no worker is free for it."""
    mission = scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    [entry] = scene.hub.ledger.clients["m"].entries.values()
    scene.hub.ledger.withdraw(entry)
    entry.crashes = (Crash((1, 1), "w", "SIGKILL", 0.0), Crash((1, 2), "w", "SIGKILL", 0.0))
    scene.hub.ledger.enqueue(entry, 0.0)
    found = scene.hub.snapshot(0.0)

    assert (0, 1) == (found["missions"][0]["running"], found["missions"][0]["waiting"])


def test_a_snapshot_has_kinds_without_a_class(scene: Scene) -> None:
    """They are passed on as they came; what of them is used, nobody knows."""
    register = Register("w", "w", "host", {"Cores": 2, "Licences": {"orca": 3}}, connection=1)
    scene.say("w", register, Reported())
    (worker,) = scene.hub.snapshot(0.0)["workers"]

    assert {"orca": 3} == worker["total"]["Licences"] == worker["free"]["Licences"]
    assert {"Cores": 0.0, "Licences": None} == worker["used"]


def test_missions_go_by_their_names_where_that_is_clear(scene: Scene) -> None:
    """By id, by a name that only one has, by the beginning of an id; never by chance."""
    scene.worker("w", 4)
    for id_, name in (("aaaa1111bb", "one"), ("cccc2222dd", "same"), ("eeee3333ff", "same")):
        scene.say(id_, Enrol(id_, name), Request(0, {"Cores": 1}), Function(F), Synced())
        scene.submit(id_, 1)
    missions = scene.hub.snapshot(0.0)["missions"]

    assert ["one", "cccc2222", "eeee3333"] == [mission["label"] for mission in missions]
    assert {"running"} == {scene.hub.why(m["label"], 1, 0.0).state for m in missions}
    for word in ("same", "nobody"):
        assert "here are: one, same, same" in scene.hub.why(word, 1, 0.0).reasons[0]


def test_questions_are_answered_on_any_link(scene: Scene) -> None:
    """Asking makes no mission and no worker of a peer."""
    scene.worker("w", 2)
    for ask in (Ask("state"), Ask("why", "m", 1), Ask("retire", pattern="w*")):
        scene.say("somebody", ask)
    answers = {m.about: unpack(data) for m, data in scene.mail["somebody"] if type(m) is Answer}

    assert ["w"] == [worker["name"] for worker in answers["state"]["workers"]]
    assert "unknown" == answers["why"]["state"]
    assert [{"name": "w", "host": "host", "state": "serving", "running": 0}] == answers["retire"]
    assert [Retire(at_once=False)] == scene.sent("w", Retire)
    assert "draining" == scene.hub.snapshot(0.0)["workers"][0]["state"]


def test_a_worker_that_is_away_is_told_to_leave_when_it_is_back(scene: Scene) -> None:
    """At once, if that was asked for at any time."""
    scene.worker("w")
    scene.lose("w")
    assert ["away"] == [one["state"] for one in scene.hub.retire("w", at_once=True)]
    scene.hub.retire("w")
    scene.worker("w", link="w again")

    assert [Retire(at_once=True)] == scene.sent("w again", Retire)
