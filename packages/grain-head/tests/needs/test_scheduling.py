"""The scheduler with groups that learn: amounts follow, and every invariant stays."""

from __future__ import annotations

from math import ceil
from random import Random
from typing import TYPE_CHECKING

import pytest

from grain.facts.needs import FinishedRun
from grain.head.needs.group import LearningGroup
from grain.head.needs.groups import MemoryUse
from grain.head.scheduler.explain import explain
from grain.head.scheduler.scheduler import Scheduler
from grain.resource import Cores, Gang, GPUs, Memory, Resource, WTime
from grain_testkit.memory_groups import after
from grain_testkit.scheduler_harness import check_scheduler
from grain_testkit.virtual_runs import VirtualJob, play

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.head.scheduler.state import Start


def uniform(request: Callable[[float], Resource]) -> list[VirtualJob]:
    """1,000 tasks of 0.1 to 4 GB."""
    random = Random(0)
    peaks = [random.uniform(0.1, 4) for _ in range(1000)]
    return [VirtualJob(request(peak), peak, random.uniform(20, 200)) for peak in peaks]


def test_a_thousand_tasks_with_no_figures_take_little_longer_than_with_the_maximum_known() -> None:
    """On a worker of 8 GB, beside one for whom each need is known to 0.1 GB. None is ended within
    its amount, as `play` has it, and what runs at a time asks for no more than there is."""
    workers = [Cores(16) & Memory(8)]
    learned = play(workers, uniform(lambda _: Cores(1) & Memory(group="opt")))
    fixed = play(workers, uniform(lambda _: Cores(1) & Memory(4)))
    whole = play(workers, uniform(lambda _: Cores(1) & Memory(8)))
    oracle = play(workers, uniform(lambda peak: Cores(1) & Memory(ceil(10 * peak) / 10)))
    assert learned.makespan < 1.9 * oracle.makespan
    assert learned.makespan < 1.1 * fixed.makespan
    assert learned.makespan < 0.6 * whole.makespan
    assert max(learned.attempts.values()) <= 5
    assert learned.lost < 150


def test_needs_of_two_kinds_get_two_rungs() -> None:
    random = Random(2)
    peaks = [1.5 if random.random() < 0.7 else 12.0 for _ in range(600)]

    def jobs(request: Resource) -> list[VirtualJob]:
        return [VirtualJob(request, peak, 100.0) for peak in peaks]

    learned = play([Cores(16) & Memory(64)] * 2, jobs(Cores(1) & Memory(32, group="opt")))
    fixed = play([Cores(16) & Memory(64)] * 2, jobs(Cores(1) & Memory(12)))
    assert learned.makespan < 0.8 * fixed.makespan
    assert learned.scheduler.needs.groups["opt"].finished == 600


def test_the_invariants_hold_while_amounts_change() -> None:
    random = Random(3)
    mixed: list[Resource] = [
        Cores(1) & Memory(group="a"),
        Cores(2) & Memory(8, group="b"),
        *[Memory(8, group="c", size=size) for size in (5.0, 6.0, 9.0)],
        Cores(1),
        Memory(3),
        Cores(1) & Memory(6, group="a") | GPUs(1),
        Cores(1) & Memory(4, group="d") & WTime(T=500),
    ]
    jobs = [VirtualJob(random.choice(mixed), random.uniform(0.1, 2.9), 10.0) for _ in range(150)]
    played = play(
        [Cores(8) & Memory(8), Cores(4) & Memory(12), GPUs(1) & Memory(8)], jobs, check=True
    )
    assert {"a", "b", "c", "d"} == played.scheduler.needs.groups.keys()


def test_members_of_a_gang_get_what_their_group_has_learned() -> None:
    request = Gang(2, Cores(1) & Memory(8, group="gang"))
    jobs = [VirtualJob(request, 2.0, 50.0) for _ in range(12)]
    played = play([Cores(1) & Memory(8)] * 2, jobs, check=True)
    group = played.scheduler.needs.groups["gang"]
    assert group.finished == 12
    assert group.runs[-1].amount == pytest.approx(2.4, abs=0.5)


def test_the_question_why_is_answered_with_what_was_learned() -> None:
    scheduler = Scheduler()
    scheduler.on_worker_joined(1, "w", Cores(4) & Memory(8), 0.0)
    request = Cores(4) & Memory(group="opt")
    for number in (1, 2):
        scheduler.on_submitted(number, scheduler.queue(request))
    scheduler.dispatch(0.0)
    assert "opt asks for 8 GB, the share of its cores: no run of it has ended yet" in (
        explain(scheduler, 2, 1.0).reasons
    )


def test_why_a_task_that_runs_got_its_amount_is_answered_too() -> None:
    scheduler = Scheduler()
    scheduler.on_worker_joined(1, "w", Cores(3) & Memory(8), 0.0)
    opt = Memory(group="opt")
    requests = [Cores(1) & opt, Cores(1) & after(opt, 0.5), Cores(1) & opt]
    for number, request in enumerate(requests, 1):
        scheduler.on_submitted(number, scheduler.queue(request))
    assert 3 == len(scheduler.dispatch(0.0))

    def why(task: int) -> str:
        [line] = [one for one in explain(scheduler, task, 1.0).reasons if "opt asks" in one]
        return line

    asked = "opt asks for 2.67 GB, the share of its cores: no run of it has ended yet"
    assert why(1).startswith(asked)
    again = "it got 1 GB in attempt 2 of its group opt, as 0.5 GB were too little"
    assert again in explain(scheduler, 2, 1.0).reasons
    scheduler.on_finished(3, 9.0, use=MemoryUse(1.0))
    assert why(1).startswith("it got 2.67 GB, as its group opt asked for then; now opt asks for ")


def test_a_maximum_above_every_worker_is_named_and_keeps_no_first_attempt_waiting() -> None:
    scheduler = Scheduler()
    scheduler.on_worker_joined(1, "w", Cores(4) & Memory(8), 0.0)
    request = Cores(4) & Memory(500, group="opt")
    scheduler.needs.group("opt").obeys = True  # so it asks for the most
    for number in (1, 2):
        scheduler.on_submitted(number, scheduler.queue(request))
    [start] = scheduler.dispatch(0.0)
    assert Memory(8).M == start.allocation.M
    [line] = [one for one in explain(scheduler, 2, 1.0).reasons if one.startswith("opt")]
    assert line.startswith("opt asks for 8 GB")
    assert "Its maximum, 500 GB, is more than any worker here has (8)" in line


def test_a_repeat_with_a_maximum_above_every_worker_has_a_whole_worker() -> None:
    request = Cores(1) & Memory(32, group="opt")
    played = play([Cores(2) & Memory(0.9)], [VirtualJob(request, 0.6, 10.0)], check=True)
    assert 1 == played.scheduler.needs.groups["opt"].finished
    assert {0: 2} == played.attempts


def test_what_is_forgotten_is_learned_anew() -> None:
    scheduler = play(
        [Cores(4) & Memory(8)], [VirtualJob(Memory(group="opt"), 1.0, 9.0)] * 9
    ).scheduler
    (queue,) = (one for one in scheduler.queues.values())
    assert scheduler.needs.groups["opt"].finished == 9
    scheduler.forget_needs(["opt"])
    check_scheduler(scheduler, dispatched=1e6)
    assert queue.alternatives[0].space.get(Memory) == Memory(group="opt").given(8, last=True)


def filled(requests: list[Resource]) -> tuple[Scheduler, list[int]]:
    """A worker on which four of 200 tasks run, which are by turns of each request."""
    scheduler = Scheduler()
    scheduler.on_worker_joined(1, "w", Cores(4) & Memory(8), 0.0)
    for number in range(200):
        scheduler.on_submitted(number, scheduler.queue(requests[number % len(requests)]))
    starts = scheduler.dispatch(0.0)
    assert [2.0] * 4 == [start.allocation.M for start in starts]
    return scheduler, [start.task for start in starts]


def test_what_a_run_had_before_its_group_learned_is_not_handed_over() -> None:
    scheduler, running = filled([Cores(1) & Memory(group="opt")])
    scheduler.on_finished(running[0], 9.0)  # before it learns; of its memory nothing is known
    scheduler.on_finished(running[1], 9.0, use=MemoryUse(1.0))
    assert [2.4] == [start.allocation.M for start in scheduler.dispatch(9.0)]
    scheduler.on_finished(running[2], 10.0)  # after it
    assert [2.4] == [start.allocation.M for start in scheduler.dispatch(10.0)]
    check_scheduler(scheduler, dispatched=10.0)


def test_each_end_of_a_run_renews_the_first_outdated_request_in_the_order_of_service() -> None:
    """So a group with a hundred sizes costs a scheduler no more than a group without them."""
    scheduler, running = filled([Cores(1) & Memory(group="opt", size=1.0 + k) for k in range(10)])
    ways = [queue.alternatives[0] for queue in scheduler.queues.values()]
    in_order = [queue.alternatives[0] for *_, queue in scheduler.in_order_of_service]
    assert (ways[4:] + ways[:4], 10) == (in_order, len(ways))
    for number in running:  # none may start before all have ended
        scheduler.on_finished(number, 9.0, use=MemoryUse(0.5))
        check_scheduler(scheduler)
    renewed = [one.learned and one.learned.amount != 2.0 for one in in_order]
    assert [True] + [False] * 9 == renewed  # each end made it outdated once more
    check_scheduler(scheduler)
    scheduler.dispatch(9.0)
    check_scheduler(scheduler, dispatched=9.0)


def sized(count: int, random: Random) -> list[VirtualJob]:
    """Tasks of which each has another size."""
    sizes = random.sample(range(1, count + 1), count)
    return [
        VirtualJob(
            Cores(1) & Memory(group="opt", size=float(size)),
            0.1 + 1.5 * size / count * random.uniform(0.9, 1.1),
            random.uniform(20, 200),
        )
        for size in sizes
    ]


def test_tasks_of_which_each_has_another_size_profit_from_those_before_them() -> None:
    jobs = sized(300, Random(5))
    learned = play([Cores(16) & Memory(64)], jobs)
    used = sum(job.peak * job.seconds for job in jobs)
    assert learned.asked < 2.2 * used  # by the share of their cores, it were 4.7
    assert learned.lost < 30


@pytest.mark.parametrize("seed", range(4))
def test_no_task_starts_by_another_amount_than_its_group_asks_for_then(seed: int) -> None:
    """As if all requests were renewed at each end of a run."""
    random, scheduler, now = Random(seed), Scheduler(), 0.0
    for number in range(2):
        scheduler.on_worker_joined(number, f"w{number}", Cores(4) & Memory(8 << number), now)
    requests = [
        Cores(1) & WTime(T=90 if k % 5 else 50) & Memory(group=f"g{k % 2}", size=1.0 + k)
        for k in range(20)
    ]
    peaks: dict[int, float] = {}
    running: list[Start] = []
    for step in range(200):
        for _ in range(random.choice([0, 0, 3]) if step else 50):
            k = random.randrange(len(requests))
            peaks[len(peaks)] = (0.1 + 0.08 * k) * random.uniform(0.5, 1.2)
            scheduler.on_submitted(len(peaks) - 1, scheduler.queue(requests[k]))
        for start in scheduler.dispatch(now):
            by = scheduler.tasks[start.task].queue.alternatives[0]
            memory = by.stated.get(Memory)
            assert isinstance(memory, Memory)
            assert memory.given(scheduler.needs.amount(by.stated)).M == start.allocation.M
            running.append(start)
        if not step % 10:
            check_scheduler(scheduler, dispatched=now)
        if running:
            now += 5.0
            ended = running.pop(random.randrange(len(running)))
            had, peak = ended.allocation.M, peaks[ended.task]
            scheduler.on_finished(ended.task, now, use=MemoryUse(min(peak, had), peak > had))


def test_all_requests_of_a_group_ask_for_the_maximum_at_once_when_its_guard_begins() -> None:
    scheduler, running = filled(
        [Cores(1) & Memory(4, group="opt", size=1.0 + k) for k in range(10)]
    )
    group = scheduler.needs.groups["opt"]
    group.finished, group.spent, group.fixed = 100, 1000.0, 1001.0
    scheduler.on_finished(running[0], 9.0, use=MemoryUse(2.0, exceeded=True))
    assert group.guarded
    amounts = [queue.alternatives[0].space.get(Memory) for queue in scheduler.queues.values()]
    assert [Memory(4).M] * 10 == [one.M for one in amounts if isinstance(one, Memory)]


def test_what_was_read_holds_for_the_requests_that_are_here_already() -> None:
    scheduler, running = filled([Cores(1) & Memory(group="opt")])
    read = LearningGroup("opt")
    read.on_finished(FinishedRun(3.0, 4.0, 60.0), 8.0)
    scheduler.needs.groups["opt"] = read
    scheduler.on_needs_read()
    scheduler.on_finished(running[0], 9.0)
    scheduler.on_finished(running[1], 9.0, use=MemoryUse(1.0))
    assert [3.6] == [start.allocation.M for start in scheduler.dispatch(9.0)]
    assert [3.0, 1.0] == [run.peak for run in read.runs]
