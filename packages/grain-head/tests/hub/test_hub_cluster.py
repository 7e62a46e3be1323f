"""Resources of the whole cluster: missions share them, and a new head learns what is in use."""

from __future__ import annotations

from typing import Any

import pytest

from grain.edge.questions import ClusterState
from grain.head.hub.answers.demand import demand
from grain.head.messages import Request, Submit, Synced, Trouble, Unschedulable
from grain.head.scheduler.cluster import ClusterPool
from grain.resource import Licences
from grain.worker.messages import (
    Drain,
    InventoryEnd,
    InventoryRun,
    Lease,
    Leaving,
    RegisterWorker,
    Revoke,
)
from grain_testkit.hub_harness import F, HubHarness, held
from grain_testkit.scheduler_harness import check_hub

ONE = {"Cores": 1, "Licences": 1}


def harness(licences: int = 2, *, opened: bool = True, **more: Any) -> HubHarness:
    made = HubHarness(cluster=ClusterPool({"Licences": Licences(licences)}), **more)
    if opened:
        made.hub.scheduler.cluster.open()
    return made


def mission(of: HubHarness, name: str = "m", request: dict[str, Any] | None = None) -> str:
    link = of.mission(name)
    of.send(link, Request(1, request or ONE), Synced())
    return link


def submit(of: HubHarness, link: str, *tasks: int, **more: Any) -> None:
    of.send(link, *[Submit(task, 1, F, **more) for task in tasks], payload=b"args")


def used(of: HubHarness) -> int:
    return of.hub.scheduler.cluster.usage()["Licences"][""][0]


def test_missions_and_workers_share_what_the_cluster_has() -> None:
    of = harness(2)
    first, second = mission(of, "a"), mission(of, "b")
    here, there = of.worker("w1"), of.worker("w2")
    submit(of, first, 1, 2)
    submit(of, second, 1, 2)

    leases = [*of.sent(here, Lease), *of.sent(there, Lease)]
    assert [1, 1] == [lease.res["Licences"] for lease in leases]
    worker = here if leases[0].attempt in of.hub.registry.workers["w1"].leases else there
    of.send(worker, of.ended(leases[0]), payload=b"")
    assert 1 == len([*of.sent(here, Lease), *of.sent(there, Lease)])
    assert [ClusterState("Licences", {"": (2, 2)})] == of.hub.snapshot(of.now).cluster
    assert [ClusterState("Licences", {"": (2, 2)})] == of.hub.overview.state(of.now).cluster


def test_a_new_head_hands_out_nothing_while_workers_may_come_over() -> None:
    of = harness(2, opened=False)
    link, worker = mission(of), of.worker("w", 8)
    submit(of, link, 1, 2)
    of.send(link, Submit(3, 0, F), payload=b"args")
    assert [3] == [lease.task for lease in of.sent(worker, Lease)]
    running = InventoryRun("other", 1, (9, 7), {"Cores": [0], "Licences": 1}, 100.0)
    of.wait(55.0)
    of.worker("late", 1, (running,))
    assert "hands out none for another 5 s" in str(of.hub.why("m", 1, of.now))
    of.wait(10.0)

    assert [1] == [lease.task for lease in of.sent(worker, Lease)]
    assert 2 == used(of)


def test_time_in_which_a_new_head_was_stopped_gives_workers_longer() -> None:
    of = harness(2, opened=False)
    link, worker = mission(of), of.worker("w", 8)
    submit(of, link, 1)
    of.now += 100.0
    of.hub.on_tick(of.now)
    of.dispatch()
    assert [] == of.sent(worker, Lease)
    assert "hands out none for another 50 s" in str(of.hub.why("m", 1, of.now))
    of.wait(60.0)
    assert 1 == len(of.sent(worker, Lease))


def test_runs_that_workers_report_count_even_if_they_are_more_than_there_is() -> None:
    of = harness(1)
    link = mission(of)
    runs = tuple(InventoryRun("m", k, (9, k), {"Cores": [k], "Licences": 1}, 100.0) for k in (1, 2))
    worker = of.worker("w", 8, runs)
    submit(of, link, 1, 2, worker="w")
    submit(of, link, 3)
    assert 2 == used(of)
    of.send(worker, of.ended(Lease("m", 1, (9, 1), F, {}, None)), payload=b"")
    assert [] == of.sent(worker, Lease)
    of.send(worker, of.ended(Lease("m", 2, (9, 2), F, {}, None)), payload=b"")
    assert [3] == [lease.task for lease in of.sent(worker, Lease)]


def test_a_head_that_has_none_of_a_kind_adopts_runs_that_use_it() -> None:
    of = HubHarness()
    link = mission(of)
    run = InventoryRun("m", 1, (9, 1), {"Cores": [0], "Licences": 1}, 100.0)
    worker = of.worker("w", 2, (run,))
    submit(of, link, 1, worker="w")
    of.send(worker, of.ended(Lease("m", 1, (9, 1), F, {}, None)), payload=b"")

    assert {} == of.hub.scheduler.cluster.held
    check_hub(of.hub, of.now)


def test_a_run_holds_its_licence_until_its_worker_has_ended_it_or_is_lost() -> None:
    of = harness(1)
    link, worker, other = mission(of), of.worker("w", 1), of.worker("x", 1)
    submit(of, link, 1, 2)
    [lease] = [*of.sent(worker, Lease), *of.sent(other, Lease)]
    where = worker if lease.attempt in of.hub.registry.workers["w"].leases else other
    of.hub.cancel("m", 1, "me")
    of.dispatch()
    assert [lease.attempt] == [one.attempt for one in of.sent(where, Revoke)]
    assert 1 == used(of)
    of.lose(where)
    of.wait(30.0)
    assert 1 == used(of)
    of.wait(40.0)
    [again] = [*of.sent(worker, Lease), *of.sent(other, Lease)]
    assert 2 == again.task


def test_a_worker_that_comes_back_goes_on_with_its_licence() -> None:
    of = harness(1)
    link, worker = mission(of), of.worker("w", 1)
    submit(of, link, 1, 2)
    [lease] = of.sent(worker, Lease)
    of.lose(worker)
    worker = of.worker("w", 1, (held(lease),), link="again")

    assert 1 == used(of)
    of.send(worker, of.ended(lease), payload=b"")
    assert [2] == [one.task for one in of.sent(worker, Lease)]


def test_a_worker_that_leaves_frees_what_its_runs_used() -> None:
    of = harness(1)
    link, worker = mission(of), of.worker("w", 1)
    submit(of, link, 1)
    of.sent(worker, Lease)
    of.hub.drain("w", at_once=True)
    of.dispatch()
    assert of.sent(worker, Drain)
    of.send(worker, Leaving())

    assert 0 == used(of)


def test_suspects_run_alone_with_a_licence_each_and_wait_for_one() -> None:
    of = harness(2)
    link = mission(of)
    workers = [of.worker(f"w{k}") for k in range(8)]

    def leased() -> list[tuple[str, Lease]]:
        return [(worker, lease) for worker in workers for lease in of.sent(worker, Lease)]

    def crash() -> None:
        for worker, lease in leased():
            assert 1 == lease.res["Licences"]
            of.send(worker, of.ended(lease, "crashed", detail="SIGSEGV"))

    submit(of, link, 1, 2)
    crash()
    of.hub.scheduler.cluster.set_total("Licences", Licences(1))
    crash()
    [(worker, first)] = leased()
    assert first.alone
    assert 1 == used(of)
    assert sum(one.reserved for one in of.hub.registry.workers.values()) == 1  # none in vain
    of.send(worker, of.ended(first), payload=b"")
    [(worker, second)] = leased()
    assert (True, {1, 2}) == (second.alone, {first.task, second.task})
    of.send(worker, of.ended(second), payload=b"")
    assert 0 == used(of)


def test_a_licence_is_kept_for_a_suspect_whose_worker_is_not_empty_yet() -> None:
    of = harness(1)
    link, worker = mission(of), of.worker("w", 2)
    of.send(link, Submit(1, 0, F), payload=b"args")  # a long one beside
    [long] = of.sent(worker, Lease)
    submit(of, link, 2)
    for _ in range(2):
        [lease] = of.sent(worker, Lease)
        of.send(worker, of.ended(lease, "crashed", detail="SIGSEGV"))
    submit(of, link, 3)
    other = of.worker("x", 1)
    assert [] == of.sent(other, Lease)
    of.hub.cancel("m", 2, "me")
    of.dispatch()
    assert [3] == [lease.task for lease in of.sent(other, Lease)]
    assert [] == of.sent(worker, Lease)
    of.send(worker, of.ended(long), payload=b"")


def test_what_runs_alone_counts_for_a_new_head() -> None:
    of = harness(1)
    run = InventoryRun("m", 1, (9, 1), {"Cores": [0], "Licences": 1}, 100.0, alone=True)
    of.worker("w", 4, (run,))

    assert 1 == used(of)
    assert (
        not of.hub.scheduler.workers[1]
        .supply.free.parts()["Cores"]
        .request(of.hub.scheduler.workers[1].supply.total)
    )


def test_a_worker_that_offers_what_the_scheduler_has_works_without_it() -> None:
    of = harness(1)
    link = mission(of)
    total = {"Cores": 8, "Licences": 4}
    of.send("x", RegisterWorker("x", "x", "host", total, connection=9), InventoryEnd())
    submit(of, link, 1, 2)

    assert 1 == len(of.sent("x", Lease))
    [trouble] = of.sent(link, Trouble)
    assert (
        "worker x offers Licences(4), which the scheduler has for the whole cluster, so that of "
        "the worker is not used: state it either in [head.res] or in [worker.res] of grain.toml"
    ) == trouble.why
    of.send("x", Leaving())
    [over] = of.sent(link, Trouble)
    assert ("the worker x", "") == (over.what, over.why)


def test_a_mission_learns_at_once_that_there_will_never_be_enough() -> None:
    of = harness(1, opened=False)
    of.worker("w")
    link = mission(of, request={"Cores": 1, "Licences": 2})
    submit(of, link, 1)

    [message] = of.sent(link, Unschedulable)
    assert "the whole cluster has Licences(1), asked for Licences(2)" == message.why
    assert message.cluster


def test_a_mission_learns_so_before_there_is_a_worker() -> None:
    of = harness(1)
    link = mission(of, request={"Cores": 1, "Licences": 2})
    submit(of, link, 1)

    [message] = of.sent(link, Unschedulable)
    assert (True, True) == (message.cluster, message.workers)
    of.worker("w")
    of.wait(5.0)
    assert [] == of.sent(link, Unschedulable)


def test_a_mission_learns_of_a_licence_that_no_scheduler_here_owns() -> None:
    of = HubHarness()
    of.worker("w")
    link = mission(of)
    submit(of, link, 1)

    [message] = of.sent(link, Unschedulable)
    assert message.why.startswith(
        "neither a worker here nor the scheduler has Licences, see [head.res] in grain.toml; "
    )


def test_why_names_who_uses_them() -> None:
    of = harness(2)
    first, second = mission(of, "a"), mission(of, "b")
    of.worker("w", 8)
    submit(of, first, 1, 2)
    submit(of, second, 1)
    reasons = of.hub.why("b", 1, of.now).reasons

    assert "it waits for Licences(1): 2 of 2 in use" in reasons
    assert "Licences: in use by a (2 tasks)" in reasons
    [waits] = [one for one in of.hub.snapshot(of.now).queues if one.waiting]
    assert "it waits for Licences(1): 2 of 2 in use" == waits.why


@pytest.mark.parametrize(("licences", "wanted"), [(3, 3), (0, 0), (30, 10)])
def test_no_more_workers_are_wanted_than_there_are_licences(licences: int, wanted: int) -> None:
    of = harness(licences)
    link = mission(of)
    submit(of, link, *range(1, 11))
    answer = demand(of.hub.registry, of.hub.waiting, of.now)

    assert wanted == sum(one.waiting for one in answer.classes)
