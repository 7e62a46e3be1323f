"""Tasks that need an interpreter, as their functions travel by value."""

from __future__ import annotations

import pytest

from grain.head.scheduler.explain import why_never
from grain.resource import Cores, Memory, WTime
from grain_testkit.scheduler_harness import Cluster

OLD, NEW = "Python 3.11", "Python 3.12"


def mixed(*interpreters: str) -> Cluster:
    cluster = Cluster(max_overtakes=1)
    for interpreter in interpreters:
        cluster.join(Cores(2), interpreter)
    return cluster


@pytest.mark.parametrize("first", [OLD, NEW])
def test_a_task_that_needs_an_interpreter_starts_on_a_worker_that_has_it(first: str) -> None:
    cluster = mixed(first, NEW if first == OLD else OLD)
    wanted = 0 if first == NEW else 1
    tasks = [cluster.submit(Cores(1), interpreter=NEW) for _ in range(3)]

    assert [wanted, wanted, None] == [cluster.where(task) for task in tasks]


def test_so_does_a_task_whose_memory_is_learned() -> None:
    cluster = Cluster()
    for interpreter in (OLD, NEW):
        cluster.join(Cores(2) & Memory(8), interpreter)
    request = Cores(1) & Memory(8, group="opt", size=2)
    tasks = [cluster.submit(request, interpreter=interpreter) for interpreter in (NEW, OLD)]

    assert [1, 0] == [cluster.where(task) for task in tasks]


def test_a_task_that_needs_none_starts_anywhere() -> None:
    cluster = mixed(OLD, NEW)
    tasks = cluster.submit_many(*[Cores(1)] * 4)

    assert tasks == cluster.running


def test_a_task_waits_for_a_worker_with_its_interpreter_and_others_go_on() -> None:
    cluster = mixed(OLD)
    waiting = cluster.submit(Cores(1), interpreter=NEW)
    others = cluster.submit_many(Cores(1), Cores(1))
    cluster.finish(others[0])

    assert [waiting] == cluster.waiting

    newcomer = cluster.join(Cores(1), NEW)

    assert newcomer == cluster.where(waiting)


def test_a_task_is_not_overtaken_where_it_could_not_run() -> None:
    """Starts on a worker of another interpreter neither count nor end in a reservation there."""
    cluster = mixed(OLD)
    waiting = cluster.submit(Cores(1), interpreter=NEW)
    for _ in range(5):
        cluster.finish(cluster.submit(Cores(2)))

    assert [] == cluster.scheduler.tasks[waiting].queue.overtakers
    assert cluster.reservation(waiting) is None


def test_a_reservation_is_on_a_worker_with_the_interpreter() -> None:
    cluster = mixed(OLD, NEW)
    for interpreter in (OLD, NEW):
        cluster.submit(Cores(1) & WTime(T=100), interpreter=interpreter)
    wide = cluster.submit(Cores(2), interpreter=NEW)
    cluster.submit(Cores(1) & WTime(T=50))

    assert (1, 100.0) == cluster.reservation(wide)


def test_tasks_that_differ_only_by_their_interpreter_have_queues_of_their_own() -> None:
    cluster = mixed(OLD, NEW)
    request = Cores(2)
    for interpreter in (OLD, NEW, "", OLD):
        cluster.submit(request, interpreter=interpreter)

    assert {OLD: 1, NEW: 1, "": 0} == {
        queue.interpreter: queue.running for queue in cluster.scheduler.queues.values()
    }


def test_why_names_the_interpreter_that_is_needed_and_the_one_that_is_there() -> None:
    cluster = mixed(NEW)
    task = cluster.submit(Cores(1), interpreter=OLD)
    why = f"it has {NEW}, and a function that travels by value needs {OLD}"

    assert (
        "it asks for Cores(1)",
        f"it needs {OLD}, as its function or an argument travels by value",
        f"w0: never, {why}",
    ) == cluster.why(task).reasons
    assert f"w0: {why}" == why_never(cluster.scheduler, Cores(1), 0.0, OLD)
    assert why_never(cluster.scheduler, Cores(1), 0.0, NEW) is None
    assert why_never(cluster.scheduler, Cores(1), 0.0) is None
