"""What tasks need: room that there is, room that was asked for, and the shape to prefer."""

from __future__ import annotations

from dataclasses import replace

from grain.cli.scaling.model import CurrentWorker, TaskAlternative, TaskClass, WorkerShape
from grain.cli.scaling.plan import AskedFor, Planning, WorkerPlan
from grain.cli.workers.autoscale import worker_of
from grain.facts.rows import Worker
from grain.resource import Cores, GPUs, Memory, Node, from_data

CPU = WorkerShape("cpu", Cores(16) & Memory(60), seconds=3600.0)
BIG = WorkerShape("big", Cores(64) & Memory(500), seconds=3600.0)
GPU = WorkerShape("gpu", Cores(16) & Memory(60) & GPUs(2), seconds=3600.0)
ROOM = {"cpu": 9, "big": 9, "gpu": 9}


def tasks(space: object, waiting: int, **more: object) -> TaskClass:
    return TaskClass(space, str(space), waiting, **more)  # type: ignore[arg-type]


def worker(shape: WorkerShape, **more: object) -> CurrentWorker:
    return CurrentWorker("w", "w", shape.total, shape.total, 3000.0, **more)  # type: ignore[arg-type]


def planned(
    *classes: TaskClass,
    workers: tuple[CurrentWorker, ...] = (),
    asked_for: tuple[AskedFor, ...] = (),
    shapes: tuple[WorkerShape, ...] = (CPU, BIG, GPU),
    room: dict[str, int] = ROOM,
) -> WorkerPlan:
    return Planning(workers, asked_for, shapes, room, {"w": "cpu"}).result(classes)


def test_waiting_tasks_go_into_free_room_then_into_jobs_and_then_into_new_workers() -> None:
    made = planned(
        tasks(Cores(8), 7),
        workers=(worker(CPU),),
        asked_for=(AskedFor("1", "cpu"), AskedFor("2", "cpu")),
        shapes=(CPU,),
    )

    assert ({"cpu": 1}, {"1", "2"}, {"w"}) == (made.needed, made.jobs, made.workers)


def test_jobs_are_used_the_oldest_first() -> None:
    made = planned(
        tasks(Cores(8), 1), asked_for=(AskedFor("1", "cpu"), AskedFor("2", "cpu")), shapes=(CPU,)
    )

    assert {"1"} == made.jobs


def test_small_tasks_fit_beside_large_ones_in_new_workers() -> None:
    made = planned(tasks(Cores(2), 4), tasks(Cores(12), 2), shapes=(CPU,))

    assert {"cpu": 2} == made.needed


def test_a_worker_without_time_has_no_room() -> None:
    made = planned(tasks(Cores(8), 1, need=3300.0), workers=(worker(CPU),), shapes=(CPU,))

    assert ({"cpu": 1}, {"cpu": 1}) == (made.needed, made.due)


def test_the_members_of_a_task_are_on_different_workers() -> None:
    wide = tasks(Cores(2), 2, members=3)  # two tasks; a worker has room for eight members

    made = planned(wide, shapes=(CPU,))
    beside_one = planned(wide, workers=(worker(CPU),), shapes=(CPU,))
    enough = planned(
        wide,
        workers=(worker(CPU),),
        asked_for=(AskedFor("1", "cpu"), AskedFor("2", "cpu")),
        shapes=(CPU,),
    )

    assert ({"cpu": 3}, {"cpu": 3}) == (made.needed, made.due)
    assert [2] == [part.waiting for part in made.reasons["cpu"]]
    assert ({"cpu": 2}, {"cpu": 2}) == (beside_one.needed, beside_one.due)
    assert ({"cpu": 0}, {}) == (enough.needed, enough.due)


def test_the_shape_with_the_least_charge_for_each_task_is_preferred() -> None:
    small = planned(tasks(Cores(4), 4))
    large = planned(tasks(Cores(4) & Memory(60), 4))
    charged = planned(tasks(Cores(4), 4), shapes=(replace(CPU, charge=100.0), BIG))

    assert {"cpu": 1, "big": 0, "gpu": 0} == small.needed
    # 16 cores for one such task, 64 for 8 of them.
    assert {"cpu": 0, "big": 1, "gpu": 0} == large.needed
    assert {"cpu": 0, "big": 1} == charged.needed


def test_a_shape_that_is_full_leaves_the_rest_to_the_next() -> None:
    made = planned(tasks(Cores(16), 5), room={"cpu": 2, "big": 9, "gpu": 9})

    assert {"cpu": 2, "big": 1, "gpu": 0} == made.needed


def test_tasks_without_gpus_do_not_count_on_gpu_workers_where_others_would_do() -> None:
    here = (worker(GPU),)
    made = planned(tasks(Cores(4), 1), workers=here)
    alone = planned(tasks(Cores(4), 1), workers=here, shapes=(GPU,))
    with_gpu = planned(tasks(GPUs(1), 1), workers=here)

    assert (1, {"cpu": 1}) == (made.needed["cpu"], made.due)
    assert (0, {}) == (alone.needed["gpu"], alone.due)
    assert 0 == sum(with_gpu.needed.values())


def test_room_that_was_asked_for_goes_first() -> None:
    """Three cores fit on the worker that the GPU task needs, but are not to count there."""
    made = planned(tasks(Cores(4), 1), tasks(Cores(40), 1), asked_for=(AskedFor("1", "big"),))

    assert (0, {"1"}) == (sum(made.needed.values()), made.jobs)


def test_work_is_share_times_duration_less_what_has_run_and_what_workers_do() -> None:
    # 40 tasks of 8 cores, 30 min each: 20 worker-hours of half a worker each.
    one = tasks(Cores(8), 40, mean=1800.0)
    assert 60 == planned(one, shapes=(CPU,)).worth["cpu"]

    running = replace(one, running=2, elapsed=1800.0)
    made = planned(running, workers=(worker(CPU, running=2),), shapes=(CPU,))
    # (42 x 1800 - 1800) x 1/2 - 600, over 600.
    assert 61 == made.worth["cpu"]


def test_brief_tasks_are_worth_one_worker_however_many_they_need() -> None:
    made = planned(tasks(Cores(1), 1000, mean=1.0), shapes=(CPU,), room={"cpu": 100})

    assert (63, 1) == (made.needed["cpu"], made.worth["cpu"])


def test_the_horizon_is_at_most_half_of_the_walltime() -> None:
    brief = replace(CPU, seconds=400.0)

    assert 3 == planned(tasks(Cores(16), 2, mean=300.0), shapes=(brief,)).worth["cpu"]


def test_a_worker_is_worth_it_for_so_much_work_as_its_shape_says() -> None:
    quick = replace(CPU, worth=60.0)

    assert 10 == planned(tasks(Cores(16), 2, mean=300.0), shapes=(quick,)).worth["cpu"]


def test_tasks_that_no_shape_meets_are_impossible_with_each_shapes_reason() -> None:
    made = planned(
        tasks(Cores(100), 3),
        tasks(Cores(1), 1, need=7200.0),
        tasks(Cores(1), 2, interpreter="Python 3.9"),
        shapes=(replace(CPU, interpreter="Python 3.11"),),
    )

    assert {"cpu": 0} == made.needed
    assert [
        (3, "it has CPU_Cores([0-15]), asked for Cores(100)"),
        (1, "it has 3600 s for tasks, and such tasks need 7200 s"),
        (2, "it has Python 3.11, and such tasks need Python 3.9"),
    ] == [(one.waiting, one.reasons["cpu"]) for one in made.impossible]


def test_tasks_that_a_foreign_worker_can_run_are_not_impossible() -> None:
    made = planned(tasks(Cores(64), 1), workers=(worker(BIG),), shapes=(CPU,))

    assert [] == made.impossible


def test_of_what_is_not_known_one_task_at_a_time_is_assumed() -> None:
    vague = WorkerShape("vague", from_data({}), frozenset({"Cores", "Memory"}))

    assert {"vague": 3} == planned(tasks(Cores(4), 3), shapes=(vague,), room={"vague": 9}).needed


def test_a_kind_without_a_class_here_is_met_where_the_configuration_has_it() -> None:
    licence = from_data({"Cores": 1, "Licence": {"n": 1}}, unknown="keep")
    licensed = replace(CPU, total=from_data({"Cores": 16, "Licence": {"n": 4}}, unknown="keep"))

    assert {"cpu": 2} == planned(tasks(licence, 2), shapes=(licensed,)).needed
    [one] = planned(tasks(licence, 2), shapes=(CPU,)).impossible
    assert "it has no Licence at all" == one.reasons["cpu"]


def test_parts_of_a_gpu_share_it_and_a_task_for_a_whole_worker_needs_an_unused_one() -> None:
    assert {"gpu": 2} == planned(tasks(GPUs(0.25), 16), shapes=(GPU,)).needed
    quarters, whole = (tasks(GPUs(n), count, mean=600.0) for n, count in ((0.25, 16), (1, 4)))
    assert planned(whole, shapes=(GPU,)).worth == planned(quarters, shapes=(GPU,)).worth

    busy = replace(worker(CPU, running=1), free=Cores(8).left_of(Cores(16)) & Memory(60))
    assert {"cpu": 1} == planned(tasks(Node(), 1), workers=(busy,), shapes=(CPU,)).needed
    assert {"cpu": 0} == planned(tasks(Node(), 1), workers=(worker(CPU),), shapes=(CPU,)).needed
    answer = Worker(id="w", name="w", host="n1", total={"Cores": 16}, free={"Cores": 8}, running=1)
    assert not worker_of(answer, None).free.request(Node())
    assert worker_of(answer, None).free.request(Cores(8))


def test_what_runs_on_a_draining_worker_is_work_that_it_does() -> None:
    busy = replace(worker(CPU, running=1, draining=True), free=Cores([*range(8)]) & Memory(60))
    made = planned(tasks(Cores(8), 0, running=1, mean=600.0), workers=(busy,), shapes=(CPU,))

    assert 0 == made.worth["cpu"]


def test_tasks_count_by_the_first_alternative_that_a_worker_could_serve() -> None:
    one = tasks(GPUs(1), 4, others=(TaskAlternative(Cores(16), 0.0),))
    impossible = tasks(GPUs(9), 4, others=(TaskAlternative(Cores(99), 0.0),))

    assert {"cpu": 0, "big": 0, "gpu": 2} == planned(one).needed
    assert {"cpu": 4, "big": 0} == planned(one, shapes=(CPU, BIG)).needed
    # One that is here has a GPU, and none that could be submitted.
    here = CurrentWorker("w", "w", GPU.total, GPU.total, 3000.0)
    assert {"cpu": 0, "big": 0} == planned(one, workers=(here,), shapes=(CPU, BIG)).needed
    [never] = planned(impossible, shapes=(CPU,)).impossible
    assert {
        "cpu": "it has no GPUs at all, and it has CPU_Cores([0-15]), asked for Cores(99)"
    } == never.reasons


FOUR = WorkerShape("four", Cores(16), seconds=3600.0, nodes=4)
PLENTY = {"four": 9, "cpu": 9}


def of_job(*free: int, job: str = "7") -> tuple[CurrentWorker, ...]:
    """Return the workers of a job, with cores that are free."""
    return tuple(
        CurrentWorker(f"w.{at}", f"w.{at}", Cores(16), Cores(cores), 3000.0, batch_job=job)
        for at, cores in enumerate(free)
    )


def test_a_job_of_several_nodes_has_room_on_each() -> None:
    made = planned(
        tasks(Cores(16), 9), asked_for=(AskedFor("1", "four"),), shapes=(FOUR,), room=PLENTY
    )

    assert ({"four": 2}, {"1"}) == (made.needed, made.jobs)
    assert 2 == planned(tasks(Cores(16), 8, mean=600.0), shapes=(FOUR,), room=PLENTY).worth["four"]


def test_members_of_a_task_are_on_different_workers() -> None:
    """They would fit on one, where they never start."""
    made = planned(tasks(Cores(1), 1, members=4), shapes=(CPU,))

    assert ({"cpu": 4}, {"cpu": 4}) == (made.needed, made.due)


def test_workers_that_are_here_or_were_asked_for_are_members() -> None:
    small = replace(CPU, total=Cores(16))
    made = planned(
        tasks(Cores(16), 1, members=4),
        workers=of_job(16, 16, job=""),
        asked_for=(AskedFor("1", "cpu"),),
        shapes=(small,),
    )

    assert ({"cpu": 1}, {"cpu": 1}) == (made.needed, made.due)
    assert ({"w.0", "w.1"}, {"1"}) == (made.workers, made.jobs)


def test_members_of_one_job_need_a_job_of_as_many_nodes() -> None:
    """As many whole tasks as fit into one are what it takes; others are impossible."""
    three = tasks(Cores(8), 5, members=3, one_job=True)

    made = planned(three, shapes=(FOUR,), room=PLENTY)
    never = planned(replace(three, members=5), shapes=(FOUR, CPU), room=PLENTY)

    # Two on each of four workers are eight parts, and so two whole tasks.
    assert ({"four": 3}, {"four": 1}) == (made.needed, made.due)
    assert {} == never.due
    assert {
        "four": "its job has 4 workers (script.nodes), and such tasks need 5 in one job",
        "cpu": "its job has 1 worker (script.nodes), and such tasks need 5 in one job",
    } == never.impossible[0].reasons


def test_free_room_counts_for_members_of_one_job_if_the_job_has_enough_of_it() -> None:
    one = tasks(Cores(16), 1, members=2, one_job=True)

    apart = planned(
        one, workers=(*of_job(16, 0), *of_job(0, 16, job="8")), shapes=(FOUR,), room=PLENTY
    )
    together = planned(one, workers=of_job(16, 16, 0, 0), shapes=(FOUR,), room=PLENTY)

    assert {"four": 1} == apart.needed
    assert {} == apart.due  # it runs there when others have ended
    assert ({"four": 0}, {"w.0", "w.1"}) == (together.needed, together.workers)
