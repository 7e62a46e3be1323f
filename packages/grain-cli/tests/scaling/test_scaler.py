"""The decisions of `grain scale --auto`, one situation each."""

from __future__ import annotations

from dataclasses import replace

from grain.cli.batch import JobPhase, JobState
from grain.cli.scaling.model import CurrentWorker, Decision, Situation, TaskClass, WorkerShape
from grain.cli.scaling.patience import Patience
from grain.cli.scaling.scaler import Scaler, demand
from grain.resource import ZERO, Cores, Host

NODE = WorkerShape("node", Cores(16), seconds=4 * 3600.0)


class Site:
    """A scaler, and a site of which the test decides everything."""

    def __init__(self, *shapes: WorkerShape, **more: int) -> None:
        self.scaler = Scaler(shapes or (NODE,), **{"most": 10, **more})
        self.now = 0.0
        self.states: dict[str, JobState] = {}
        self.workers: list[CurrentWorker] | None = []
        self.classes: list[TaskClass] = []

    def look(self, seconds: float = 15.0) -> Decision:
        self.now += seconds
        asked = {one: self.states[one] for one in self.scaler.jobs}
        return self.scaler.decide(Situation(self.classes, self.workers, asked), self.now)

    def submit(self, decision: Decision, phase: JobPhase = JobPhase.PENDING) -> None:
        """Accept what is submitted."""
        for submit in decision.submit:
            for _ in range(submit.number):
                job = str(len(self.states) + 1)
                self.states[job] = JobState(phase, "", f"n{job}")
                self.scaler.submitted(submit.shape, job, self.now)

    def join(self, job: str, **more: object) -> None:
        """Let the worker of a job join."""
        self.states[job] = JobState(JobPhase.RUNNING, "", f"n{job}")
        assert self.workers is not None
        self.workers.append(
            CurrentWorker(f"id{job}", f"w{job}", NODE.total, NODE.total, job=job, **more)  # type: ignore[arg-type]
        )

    def wait(self, seconds: float) -> Decision:
        """Look every 15 s for a while; return the first decision that is one."""
        for _ in range(int(seconds / 15)):
            decision = self.look()
            if any(decision):
                return decision
        return Decision()


def wanted(count: int, cores: int = 16, **more: object) -> list[TaskClass]:
    return [TaskClass(Cores(cores), f"Cores({cores})", count, **more)]  # type: ignore[arg-type]


def test_it_submits_with_a_reason_and_rests_when_that_is_enough() -> None:
    site = Site()
    site.classes = wanted(2)
    first = site.look()
    site.submit(first)

    [submit] = first.submit
    assert 2 == submit.number
    assert "2 tasks of Cores(16) wait; how long they take is not known yet" == submit.why
    assert not any(site.look())


def test_four_at_most_until_the_first_worker_has_joined() -> None:
    site = Site()
    site.classes = wanted(9)
    site.submit(site.look())
    before = len(site.states)
    site.join("1")
    site.submit(site.look())

    assert (4, 9) == (before, len(site.states))


def test_jobs_that_want_other_hosts_than_those_of_now_get_workers() -> None:
    """Nobody knows on which host the next worker will be, so any worker may serve them."""
    shape = replace(NODE, unknown=frozenset({"Host"}))
    site = Site(shape)
    site.submit(site.look())
    site.classes = wanted(1)
    site.submit(site.look())
    site.join("1")
    assert site.workers is not None
    site.workers[0] = replace(site.workers[0], total=NODE.total & Host("n1"), free=ZERO)
    away = Cores(1) & Host(exclude=["n1"])
    site.classes = [TaskClass(away, away.ask(), 32, mean=3600.0)]

    assert [2] == [submit.number for submit in site.look().submit]


def test_a_single_brief_task_gets_a_worker() -> None:
    site = Site()
    site.classes = wanted(1, 1, mean=1.0)

    assert [1] == [submit.number for submit in site.look().submit]


def test_tasks_that_no_worker_has_time_for_get_one_though_there_is_too_little_work() -> None:
    site = Site()
    site.classes = wanted(1)
    site.submit(site.look())
    site.join("1", left=1000.0)
    site.classes = wanted(1, 1, mean=1.0, need=3600.0)

    assert [1] == [submit.number for submit in site.look().submit]


def test_there_are_always_so_many_and_they_are_never_released() -> None:
    site = Site(least=2)
    first = site.look()
    site.submit(first)
    for job in ("1", "2"):
        site.join(job, idle=9999.0)

    assert [(2, "there are always 2")] == [(one.number, one.why) for one in first.submit]
    assert not any(site.look())


def test_a_worker_that_is_idle_for_5_minutes_is_released() -> None:
    site = Site()
    site.classes = wanted(1)
    site.submit(site.look())
    site.classes = []
    site.join("1", idle=299.0)
    before = site.look()
    site.workers = [replace(site.workers[0], idle=300.0)] if site.workers else []
    [release] = site.look().release

    assert not any(before)
    assert ("id1", "1", "it was idle for 5 min") == release


def test_workers_of_others_are_never_released() -> None:
    site = Site()
    site.workers = [CurrentWorker("x", "x", NODE.total, NODE.total, idle=9999.0)]

    assert not any(site.look())


def test_an_unneeded_job_is_cancelled_after_10_minutes_the_youngest_first() -> None:
    site = Site()
    site.classes = wanted(2)
    site.submit(site.look())
    site.classes = wanted(1)
    [cancel] = site.wait(630).cancel

    assert ("2", "nothing has needed it for 10 min") == cancel
    assert 630 == site.now


def test_a_job_that_is_needed_again_is_not_cancelled_before_another_10_minutes() -> None:
    site = Site()
    site.classes = wanted(2)
    site.submit(site.look())
    for count in (1, 2, 1):
        site.classes = wanted(count)
        assert not any(site.wait(580))


def test_the_end_of_what_was_cancelled_or_released_is_no_failure() -> None:
    site = Site()
    site.classes = wanted(1)
    site.submit(site.look())
    site.scaler.cancelled("1", site.now)
    site.classes = []
    site.states["1"] = JobState(JobPhase.GONE)
    for _ in range(4):
        assert not any(site.look())
    site.classes = wanted(1)

    assert site.look().submit


def test_failures_begin_a_pause_and_a_node_where_two_fail_is_avoided() -> None:
    site = Site()
    site.classes = wanted(2)
    site.submit(site.look())
    site.states = {
        "1": JobState(JobPhase.RUNNING, "", "n1"),
        "2": JobState(JobPhase.RUNNING, "", "n1"),
    }
    site.look()
    site.states = dict.fromkeys("12", JobState(JobPhase.GONE, "FAILED"))
    site.look()
    failed = site.look()
    paused = site.look(15.0)
    [submit] = site.look(60.0).submit

    assert [
        "2 node failed at once (1, 2), see `grain logs`; nothing of it is submitted for 30 s",
        "two jobs in a row failed on n1, which is avoided from now on",
    ] == failed.news
    assert () == tuple(paused.submit)
    assert (1, ("n1",)) == (submit.number, submit.avoid)


def test_a_job_that_would_never_start_is_cancelled_with_the_reason() -> None:
    site = Site()
    site.classes = wanted(1)
    site.submit(site.look())
    site.states["1"] = JobState(JobPhase.STUCK, "PartitionTimeLimit")
    [cancel] = site.look().cancel

    assert ("1", "it would never start: PartitionTimeLimit") == cancel


def test_a_job_that_runs_without_its_worker_is_lost_and_replaced_once() -> None:
    site = Site(most=1)
    site.classes = wanted(1)
    site.submit(site.look())
    site.states["1"] = JobState(JobPhase.RUNNING, "", "n7")
    lost = site.wait(630)
    site.submit(lost)
    site.scaler.cancelled("1", site.now)

    [line] = lost.news
    assert line.startswith(
        "1 on n7 runs, and its worker has not been with the scheduler for 10 min"
    )
    assert ["1"] == [one.job for one in lost.cancel]
    assert [1] == [one.number for one in lost.submit]
    assert {"1", "2"} == site.states.keys()
    # The batch system goes on listing it; the one in its place is lost, too.
    site.states["2"] = JobState(JobPhase.RUNNING, "", "n8")
    again = site.wait(900)
    assert ["2"] == [one.job for one in again.cancel]
    assert [] == again.submit


def test_a_lost_job_counts_again_when_its_worker_is_back() -> None:
    """Its cancellation came to nothing, and so did the job that was to replace it."""
    site = Site(most=1)
    site.classes = wanted(1)
    site.submit(site.look())
    site.states["1"] = JobState(JobPhase.RUNNING, "", "n7")
    site.wait(630)
    lost = site.scaler.alive
    site.join("1")

    assert (0, 1) == (lost, len(site.look(0.0).cancel) + site.scaler.alive)
    assert not any(site.wait(60))


def test_while_no_scheduler_answers_no_job_is_lost() -> None:
    site = Site()
    site.classes = wanted(1)
    site.submit(site.look())
    site.join("1", running=1)
    site.look()
    site.classes, site.workers = [], None
    assert not any(site.wait(3600))
    site.workers = []
    assert not any(site.wait(540))


def test_a_class_that_a_joined_worker_cannot_run_after_all_is_impossible() -> None:
    """The configuration says 16 cores, the worker has 8."""
    site = Site()
    site.classes = wanted(1)
    site.submit(site.look())
    site.join("1")
    site.workers = [CurrentWorker("id1", "w1", Cores(8), Cores(8), job="1")]
    for _ in range(3):
        assert not site.look().submit

    assert ["Cores(16)"] == [one.ask for one in site.scaler.impossible]


def test_jobs_of_before_are_counted_those_of_an_unknown_shape_as_of_the_first() -> None:
    site = Site()
    for job, shape in (("a", "node"), ("b", "gone")):
        site.scaler.adopted(shape, job, 0.0)
        site.states[job] = JobState(JobPhase.PENDING)
    site.classes = wanted(3)

    assert [1] == [submit.number for submit in site.look().submit]
    assert 2 == site.scaler.alive


def test_a_mistake_doubles_the_patience_up_to_half_an_hour_and_quiet_halves_it() -> None:
    patience = Patience(300.0)
    for now, expected in ((0.0, 600.0), (5000.0, 1200.0), (9000.0, 1800.0), (12000.0, 1800.0)):
        patience.on_ended(now)
        assert patience.on_submitted(now + 600)
        assert not patience.on_submitted(now + 660)  # once for each
        assert expected == patience.seconds
    patience.on_ended(12600.0 + 7100)
    assert 1800.0 == patience.seconds
    patience.on_ended(12600.0 + 7200)
    assert 900.0 == patience.seconds
    assert not patience.on_submitted(12600.0 + 7200 + 2 * 900 + 601)


def test_a_patience_that_was_set_stays() -> None:
    patience = Patience(60.0, fixed=True)
    patience.on_ended(0.0)
    patience.on_submitted(1.0)

    assert 60.0 == patience.seconds


def test_the_reason_names_the_tasks_with_the_most_work() -> None:
    from grain.cli.scaling.plan import PlannedWorkers

    parts = [PlannedWorkers("Cores(8)", 31, 14400.0), PlannedWorkers("Cores(1)", 2, 1.0)]
    assert "31 tasks of Cores(8) and 2 of other kinds wait, 4 h of work" == demand(parts)
    assert "1 task of Cores(8) waits, 1 min of work" == demand(
        [PlannedWorkers("Cores(8)", 1, 60.0)]
    )
    guess = PlannedWorkers("Cores(1)", 2, 1200.0, known=False)
    why = "31 tasks of Cores(8) and 2 of other kinds wait; how long they take is not known yet"
    assert why == demand([parts[0], guess])


def test_a_submission_without_an_answer_does_not_replace_a_worker_of_the_least() -> None:
    """If it came to nothing, there would be fewer than there always are."""
    site = Site(least=2)
    site.submit(site.look(), JobPhase.RUNNING)
    for job in ("1", "2"):
        site.join(job, idle=3600.0)
    site.scaler.submitted("node", "3", site.now, doubtful=True)
    site.states["3"] = JobState(JobPhase.UNKNOWN)

    assert [] == site.look().release
    site.states["3"] = JobState(JobPhase.PENDING)
    assert 1 == len(site.look().release)


def test_a_worker_of_a_submission_without_an_answer_counts_once_it_is_here() -> None:
    """The batch system still does not answer."""
    site = Site(least=2)
    site.submit(site.look(), JobPhase.RUNNING)
    site.scaler.submitted("node", "3", site.now, doubtful=True)
    for job in ("1", "2", "3"):
        site.join(job, idle=3600.0)
    site.states["3"] = JobState(JobPhase.UNKNOWN)

    assert 1 == len(site.look().release)


def test_the_end_of_a_short_job_in_good_order_is_no_failure_of_its_shape() -> None:
    site = Site(WorkerShape("debug", Cores(16), seconds=100.0))
    site.classes = wanted(1)
    site.submit(site.look(), JobPhase.RUNNING)
    for seconds in (1.0, 40.0):
        site.look(seconds)
    site.states["1"] = JobState(JobPhase.GONE)

    assert [] == [*site.look().news, *site.look().news]
    assert 0.0 == site.scaler.describe(site.now)["shapes"][0]["pause"]


def test_a_job_of_several_nodes_is_let_go_when_all_of_its_workers_are_idle() -> None:
    """All of them together, since the job ends with the last one."""
    site = Site(replace(NODE, nodes=2))
    site.classes = wanted(2)
    site.submit(site.look())
    site.states["1"] = JobState(JobPhase.RUNNING, "", "n1")
    both = [
        CurrentWorker(f"id{at}", f"w1.{at}", NODE.total, NODE.total, job="1", idle=idle)
        for at, idle in ((0, 400.0), (1, 200.0))
    ]
    site.classes, site.workers = [], both
    before = site.look()
    site.workers = [replace(one, idle=one.idle + 200) for one in both]
    after = site.look()

    assert [1, 0] == [len(site.states), len(before.release)]
    assert ["id0", "id1"] == [one.worker for one in after.release]
    assert {"it was idle for 6 min 40 s"} == {one.why for one in after.release}


def test_a_task_for_several_workers_gets_all_of_them_at_once() -> None:
    """Each has too little work by itself, and none of it begins with fewer."""
    site = Site()
    site.classes = [TaskClass(Cores(1), "3 * Cores(1)", 1, mean=1.0, members=3)]

    [submit] = site.look().submit

    assert 3 == submit.number
