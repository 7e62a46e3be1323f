"""The files of a queue, as its dispatcher reads and writes them."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pytest

from grain.dispatcher.__main__ import again, serve
from grain.dispatcher.desk import Adopted, Desk
from grain.dispatcher.lifetime import Lifetime
from grain.dispatcher.plan import TaskAttempt
from grain.edge.errors import EdgeError
from grain.files.batch_jobs import WorkerJob
from grain.files.processes import start_time, this_process
from grain.head.errors import MissionReplaced
from grain.queue.book import Book
from grain.queue.dispatchers import Dispatchers, this_dispatcher
from grain.queue.errors import CannotWrite, NotSynced
from grain.queue.files import LocalDisk
from grain.queue.folder import Queue, read_format
from grain.queue.records import KILL, ArraySpec, Begun, Dependency, Ended, Job, JobUpdate, Wish
from grain_testkit.queue_disk import unreadable

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from grain.queue.records import How, Until

JOB = Job(name="opt", at=0.0, host="h", user="ann", directory="/", command=("true",))
FIRST = TaskAttempt(1, None, 1)
GONE, DOUBT, SOON = 60.0, 120.0, 3.0  # a minute, and more of docs/queue-files.md


class Clock:
    """A clock that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue.open(tmp_path / "queue", make=True)


def begun(**fields: Any) -> Begun:
    """Return the receipt of a run in this process."""
    me = this_dispatcher()
    mine = Begun(
        at=0.0, host=me.host, machine="m", boot=me.boot, space=me.space, pid=me.pid,
        pid_began=me.pid_began, worker="w", ticket=7,
    )  # fmt: skip
    return msgspec.structs.replace(mine, **fields)


def dead(**fields: Any) -> Begun:
    """Return the receipt of a run in a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    since = start_time(process.pid)
    process.communicate(b"\n")
    return begun(pid=process.pid, pid_began=since, **fields)


def starts(desk: Desk) -> list[TaskAttempt]:
    return desk.plan.starts(now=0.0, room=lambda _: 100)


def test_what_runs_is_taken_over_by_its_ticket(queue: Queue) -> None:
    queue.submit(JOB)
    queue.submit(msgspec.structs.replace(JOB, array=ArraySpec(ranges=((0, 2, 1),))))
    queue.begin(2, 1, 1, begun(ticket=9))
    queue.begin(1, None, 1, begun(ticket=4))
    queue.begin(2, 0, 1, begun(ticket=5))
    queue.end(2, 0, 1, Ended(how="exit", at=1.0))
    desk = Desk(queue)
    assert desk.adopted() == [
        Adopted(TaskAttempt(1, None, 1), 4),
        Adopted(TaskAttempt(2, 1, 1), 9),
    ]
    assert starts(desk) == [TaskAttempt(2, 2, 1)]


def test_what_had_ended_before_a_dispatcher_began_is_on_the_disk(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.submit(JOB)
    queue.begin(1, None, 1, Begun(at=0.0, host="h", cancelled="ann"))
    settled: list[int] = []
    monkeypatch.setattr(queue, "settle", settled.append)
    desk = Desk(queue)
    assert desk.book.entries[1].is_final
    assert settled == [queue.buckets.of(1)]


def test_new_jobs_and_wishes_come_with_a_look(queue: Queue) -> None:
    desk = Desk(queue)
    queue.submit(JOB)
    queue.submit(JOB)
    queue.wish(Wish(what="hold", jobs=((1, 1),)))
    assert desk.look().in_charge
    assert starts(desk) == [TaskAttempt(2, None, 1)]
    queue.wish(Wish(what="release", jobs=((1, 1),)))
    desk.look()
    assert starts(desk) == [FIRST]


def test_a_wish_to_run_again_stops_what_runs_but_not_the_attempt_that_it_asks_for(
    queue: Queue,
) -> None:
    queue.submit(JOB)
    desk = Desk(queue)
    [first] = desk.plan.starts(now=0.0, room=lambda _: 1)
    queue.wish(Wish(what="again", jobs=((1, 1),), attempt=1))
    assert desk.look().stops == []
    queue.wish(Wish(what="again", jobs=((1, 1),), attempt=2))
    assert desk.look().stops == [first]


def test_what_was_handed_out_is_called_back_by_a_hold_or_an_update_until_it_has_begun(
    queue: Queue,
) -> None:
    queue.submit(JOB)
    queue.submit(JOB)
    desk = Desk(queue)
    [first, second] = desk.plan.starts(now=0.0, room=lambda _: 2)
    update = JobUpdate(priority=5)
    queue.wish(Wish(what="update", jobs=((1, 2),), update=update))
    queue.begin(2, None, 1, Begun(at=0.0, host="h"))  # the desk has not read that
    news = desk.look()
    assert (desk.look().recalls, news.recalls, news.stops) == ([], [first], [])
    queue.wish(Wish(what="hold", jobs=((1, 2),)))
    assert desk.look().recalls == [first]
    desk.give_back(first)
    assert starts(desk) == []
    queue.wish(Wish(what="release", jobs=((1, 1),)))
    assert desk.look().recalls == []
    assert starts(desk) == [first]
    assert [5, 5] == [desk.book.entries[one.number].job.priority for one in (first, second)]


def test_what_cannot_end_by_its_deadline_is_cancelled_unless_it_has_begun(queue: Queue) -> None:
    array = ArraySpec(ranges=((1, 3, 1),))
    queue.submit(msgspec.structs.replace(JOB, deadline=time.time() + 3600.0, array=array))
    queue.submit(msgspec.structs.replace(JOB, deadline=time.time() + 3600.0, held=True))
    desk = Desk(queue)
    first, second = (TaskAttempt(1, task, 1) for task in (1, 2))
    assert desk.plan.starts(time.time(), room=lambda _: 2) == [first, second]
    queue.begin(1, 1, 1, Begun(at=0.0, host="h"))  # the desk has not read that
    queue.wish(Wish(what="update", jobs=((1, 2),), update=JobUpdate(timeout=7200.0)))
    desk.look()
    desk.plan.starts(time.time(), room=lambda _: 2)
    assert desk.look().stops == [second]
    for task in (2, 3):
        begun = queue.begun(1, task, 1)
        assert begun is not None
        assert ("--deadline", "as it could not end in time") == (begun.cancelled, begun.why)
    assert queue.ended(1, 1, 1) is None
    assert queue.begun(2, None, 1) is None
    assert ["RUNNING", "CANCELLED", "CANCELLED"] == [
        desk.book.entries[1].standing(task, 0.0).state for task in (1, 2, 3)
    ]
    desk.plan.starts(time.time(), room=lambda _: 2)
    assert (desk.look().stops, desk.plan.overdue) == ([], set())


def test_a_cancellation_is_final_for_what_waits_and_stops_what_runs(queue: Queue) -> None:
    queue.submit(JOB)
    queue.submit(JOB)
    desk = Desk(queue)
    [first] = desk.plan.starts(now=0.0, room=lambda _: 1)
    queue.wish(Wish(what="cancel", jobs=((1, 2),), by="ann"))
    assert desk.look().stops == [first]
    waiting = queue.begun(2, None, 1)
    assert waiting is not None
    assert waiting.cancelled == "ann"
    assert queue.begun(1, None, 1) is None


def test_a_cancellation_of_many_tasks_waits_for_the_disk_once(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.submit(msgspec.structs.replace(JOB, array=ArraySpec(ranges=((1, 50, 1),))))
    desk = Desk(queue)
    queue.wish(Wish(what="cancel", jobs=((1, 1),), by="ann"))
    synced = []
    monkeypatch.setattr(LocalDisk, "sync", lambda _, folder: synced.append(folder))
    desk.look()
    assert desk.book.entries[1].counts.cancelled == 50
    # Once for the receipts that are made, once for those that are read.
    assert synced.count("attempts/0") == 2


def test_jobs_are_on_the_disk_before_attempts_are_handed_out_which_sync_them_no_more(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.submit(JOB)
    synced: list[str] = []
    real = LocalDisk.sync

    def sync(disk: LocalDisk, folder: str) -> None:
        synced.append(folder)
        if synced.count("jobs/0") == 2:
            raise OSError(errno.EIO, "Input/output error")
        real(disk, folder)

    monkeypatch.setattr(LocalDisk, "sync", sync)
    desk = Desk(queue)
    assert "jobs/0" in synced
    assert starts(desk) == [FIRST]
    monkeypatch.setattr(LocalDisk, "sync", real)
    queue.submit(JOB)
    monkeypatch.setattr(LocalDisk, "sync", sync)
    with pytest.raises(NotSynced):
        desk.look()
    assert starts(desk) == [], "it may be gone after a crash"
    desk.look()
    assert starts(desk) == [TaskAttempt(2, None, 1)]

    synced.clear()
    assert queue.begin(*FIRST, begun(), settled=True)
    assert synced == ["attempts/0"]


def test_a_cancellation_is_carried_out_again_if_a_receipt_cannot_be_read(queue: Queue) -> None:
    queue.submit(msgspec.structs.replace(JOB, array=ArraySpec(ranges=((1, 3, 1),))))
    desk = Desk(queue)
    queue.wish(Wish(what="cancel", jobs=((1, 1),), by="ann"))
    with unreadable("attempts/0/1_2.1.begun"), pytest.raises(OSError, match="Input/output"):
        desk.look()
    desk.look()
    assert desk.book.entries[1].counts.cancelled == 3
    assert not list(desk.plan.active())


def test_a_wish_that_the_dispatcher_before_left_half_done_is_carried_out(queue: Queue) -> None:
    queue.submit(JOB)
    queue.wish(Wish(what="cancel", jobs=((1, 1),), by="ann"))
    Desk(queue).look()
    assert queue.begun(1, None, 1) is not None


@pytest.fixture
def halting_job(queue: Queue) -> Job:
    """A job of ten tasks, in the queue, which halts after two failures."""
    job = msgspec.structs.replace(JOB, array=ArraySpec(ranges=((1, 10, 1),)), halt=2)
    queue.submit(job)
    return job


def fail(queue: Queue, task: int | None, attempt: int = 1, **fields: Any) -> TaskAttempt:
    """Have a task of job 1 begin and fail."""
    queue.begin(1, task, attempt, begun())
    queue.end(1, task, attempt, Ended(**{"how": "exit", "at": time.time(), "status": 3, **fields}))
    return TaskAttempt(1, task, attempt)


def cancelled_tasks(queue: Queue) -> list[int]:
    """Return the tasks of job 1 that were cancelled before they began."""
    receipts = {task: queue.begun(1, task, 1) for task in range(1, 11)}
    return [task for task, one in receipts.items() if one is not None and one.cancelled]


def test_after_so_many_failures_the_rest_of_an_array_is_cancelled(
    queue: Queue, halting_job: Job
) -> None:
    desk = Desk(queue)
    first, second, third = desk.plan.starts(now=0.0, room=lambda _: 3)
    fail(queue, first.task, how="timeout", status=0)
    queue.begin(1, third.task, 1, begun())
    desk.read_all([first, third])
    assert desk.look().stops == []
    fail(queue, second.task)

    desk.read_all([second])

    # At once, so that no task begins in between.
    assert starts(desk) == []
    assert desk.look().stops == [third]
    assert cancelled_tasks(queue) == list(range(4, 11))
    waiting = queue.begun(1, 4, 1)
    assert waiting is not None
    assert (waiting.cancelled, waiting.why) == ("--halt fail=2", "as 2 tasks have failed")
    assert 2 == queue.wishes.end()


def test_a_dispatcher_that_died_before_the_cancellation_leaves_it_to_the_next_one(
    queue: Queue, halting_job: Job
) -> None:
    Desk(queue)
    fail(queue, 1)
    fail(queue, 2)
    Desk(queue).look()
    assert cancelled_tasks(queue) == list(range(3, 11))


def test_failures_of_which_no_executor_has_told_count(queue: Queue, halting_job: Job) -> None:
    clock = Clock()
    queue.begin(1, 1, 1, begun())
    queue.begin(1, 2, 1, begun())
    desk = Desk(queue, clock)
    fail(queue, 1)
    fail(queue, 2)
    clock.now += 30
    desk.look()
    assert starts(desk) == []


def test_successes_and_retries_are_no_failures(queue: Queue) -> None:
    array = ArraySpec(ranges=((1, 10, 1),))
    queue.submit(msgspec.structs.replace(JOB, array=array, halt=1, retries=1))
    desk = Desk(queue)
    desk.read_all([fail(queue, 1), fail(queue, 2, status=0)])
    desk.look()
    assert cancelled_tasks(queue) == []
    desk.read_all([fail(queue, 1, 2)])
    desk.look()
    assert cancelled_tasks(queue) == list(range(3, 11))


@pytest.mark.parametrize("later", [1.0, -2.0])
def test_what_a_user_runs_again_counts_anew(queue: Queue, halting_job: Job, later: float) -> None:
    """Also if the clocks of workers are behind that of the user."""
    desk = Desk(queue)
    desk.read_all([fail(queue, 1, at=1.0), fail(queue, 2, at=2.0)])
    desk.look()
    wish = Wish(what="again", jobs=((1, 1),), attempt=2, at=3.0)
    queue.wish(msgspec.structs.replace(wish, tasks=((1, 1), (3, 9))))
    desk.look()
    desk.read_all([fail(queue, 1, 2, at=3.0 + later)])
    desk.look()
    assert [TaskAttempt(1, 3, 2)] == desk.plan.starts(now=0.0, room=lambda _: 1)
    desk.read_all([fail(queue, 3, 2, at=3.5 + later)])
    desk.look()
    for task in range(4, 10):
        assert queue.attempts(1, task)[1].begun.cancelled == "--halt fail=2"


def test_a_dispatcher_sees_that_another_one_is_in_charge(queue: Queue) -> None:
    first = Desk(queue)
    Desk(queue)
    assert not first.look().in_charge


@pytest.mark.parametrize(
    ("receipt", "why", "seconds"),
    [
        (dead(), "is gone", GONE),
        (dead(mark="of-no-process:"), "is gone", SOON),
        (dead(mark="of-no-process:", others=("n2",)), "is gone", GONE),
        (begun(boot="another"), "was started again", SOON),
    ],
    ids=["process", "all processes", "on several hosts", "host"],
)
def test_a_run_whose_process_is_known_to_be_dead_is_lost_after_a_while(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, receipt: Begun, why: str, seconds: float
) -> None:
    me = this_process()._replace(machine="m")  # not every host has one
    monkeypatch.setattr("grain.queue.dispatchers.this_process", lambda: me)
    queue.submit(JOB)
    queue.begin(1, None, 1, receipt)
    clock = Clock()
    desk = Desk(queue, clock)
    assert not desk.end_lost([FIRST])
    clock.now += seconds - 1
    assert not desk.end_lost([FIRST])
    clock.now += 1
    assert desk.end_lost([FIRST])
    ended = queue.ended(1, None, 1)
    assert ended is not None
    assert ended.how == "lost"
    assert why in ended.message
    assert starts(desk) == [TaskAttempt(1, None, 2)]


def test_a_run_is_lost_soon_when_the_last_process_that_it_left_is_gone(queue: Queue) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE,
        env={"GRAIN_SUBREAPERS": "outer:that-is-left:"},
    ) as left:
        queue.submit(JOB)
        queue.begin(1, None, 1, dead(mark="that-is-left:"))
        clock = Clock()
        desk = Desk(queue, clock)
        assert not desk.end_lost([FIRST])
        clock.now += GONE - 1
        assert not desk.end_lost([FIRST])
        left.communicate(b"\n")
        assert desk.end_lost([FIRST])


@pytest.mark.parametrize(
    "receipt",
    [
        begun(),
        begun(host="elsewhere", boot="another"),
        begun(machine="another", boot="another"),
        begun(machine="", boot="another"),
        begun(space=1, pid=1, pid_began=1),
        Begun(at=0.0, host=""),
    ],
    ids=["alive", "host", "name", "no machine id", "container", "unreadable"],
)
def test_silence_proves_nothing(queue: Queue, receipt: Begun) -> None:
    queue.submit(JOB)
    queue.begin(1, None, 1, receipt)
    clock = Clock()
    desk = Desk(queue, clock)
    for _ in range(3):
        assert not desk.end_lost([FIRST])
        clock.now += 10 * GONE
    assert queue.ended(1, None, 1) is None


def away(**fields: Any) -> Begun:
    """Return the receipt of a run in a batch job, on a host that cannot be seen from here."""
    there = begun(host="n17", boot="b", machine="", batch_system="slurm", batch_job="7_1")
    return msgspec.structs.replace(there, **fields)


def test_a_run_whose_batch_job_is_over_is_lost(queue: Queue) -> None:
    queue.submit(JOB)
    queue.begin(1, None, 1, away())
    clock = Clock()
    desk = Desk(queue, clock)
    assert not desk.end_lost([FIRST])
    clock.now += DOUBT - 1
    assert not desk.end_lost([FIRST])
    assert desk.in_doubt() == {}
    clock.now += 1
    assert desk.in_doubt() == {FIRST: WorkerJob("slurm", "7_1", "n17")}
    desk.note_death(FIRST, "the batch job is over")
    assert not desk.end_lost([FIRST])
    clock.now += GONE
    assert desk.end_lost([FIRST]) == [FIRST]
    ended = queue.ended(1, None, 1)
    assert ended is not None
    assert (ended.how, ended.message) == ("lost", "the batch job is over")
    assert desk.in_doubt() == {}


def test_a_run_whose_worker_reports_its_crash_is_lost_at_once_and_no_other(queue: Queue) -> None:
    queue.submit(JOB)
    queue.begin(1, None, 1, away(run=(3, 8)))
    desk = Desk(queue, Clock())
    # Another run of the same task has found the attempt taken; other tasks have runs of that name.
    desk.note_crash(7, (3, 9), "the runner on n18 was ended by SIGSEGV")
    desk.note_crash(9, (3, 8), "the runner on n18 was ended by SIGSEGV")
    assert not desk.has_crashed(FIRST)
    assert not desk.end_lost([FIRST])
    desk.note_crash(7, (3, 8), "the runner on n17 was ended by SIGKILL")
    assert desk.has_crashed(FIRST)
    assert desk.end_lost([FIRST]) == [FIRST]
    ended = queue.ended(1, None, 1)
    assert ended is not None
    assert (ended.how, ended.message) == ("lost", "the runner on n17 was ended by SIGKILL")
    assert starts(desk) == [TaskAttempt(1, None, 2)]


def test_of_many_crashes_the_last_ones_are_remembered(queue: Queue) -> None:
    """All runs of the workers that a queue has ever had would fill the memory."""
    queue.submit(JOB)
    queue.begin(1, None, 1, away(run=(3, 8)))
    desk = Desk(queue, Clock())
    desk.note_crash(7, (3, 8), "SIGKILL")
    for ticket in range(1000, 10_999):
        desk.note_crash(ticket, (1, 1), "SIGKILL")
    assert desk.has_crashed(FIRST)

    desk.note_crash(10_999, (1, 1), "SIGKILL")

    assert not desk.has_crashed(FIRST)


@pytest.mark.parametrize("receipt", [begun(batch_job="7"), away(batch_job="")])
def test_a_batch_system_is_not_asked_if_it_can_tell_nothing_new(
    queue: Queue, receipt: Begun
) -> None:
    queue.submit(JOB)
    queue.begin(1, None, 1, receipt)
    clock = Clock()
    desk = Desk(queue, clock)
    desk.end_lost([FIRST])
    clock.now += 2 * DOUBT
    assert desk.in_doubt() == {}


def test_an_end_that_comes_from_the_worker_is_read(queue: Queue) -> None:
    queue.submit(JOB)
    desk = Desk(queue)
    assert starts(desk) == [FIRST]
    queue.begin(1, None, 1, begun())
    assert not desk.read(FIRST)
    queue.end(1, None, 1, Ended(how="exit", at=1.0))
    assert desk.read(FIRST)
    assert not list(desk.plan.active())


def test_a_further_attempt_that_has_not_begun_is_not_handed_out_twice(queue: Queue) -> None:
    queue.submit(JOB)
    desk = Desk(queue)
    assert starts(desk) == [FIRST]
    queue.begin(1, None, 1, begun())
    queue.end(1, None, 1, Ended(how="returned", at=1.0))
    desk.read(FIRST)
    second = TaskAttempt(1, None, 2)
    assert starts(desk) == [second]
    # Its call has ended without a begin: it is tried again after a pause.
    assert desk.read_all([second]) == {second: False}
    assert starts(desk) == []
    desk.give_back(second)
    assert starts(desk) == [second]


def test_receipts_of_which_no_executor_tells_are_read_now_and_then(queue: Queue) -> None:
    queue.submit(JOB)
    queue.submit(JOB)
    clock = Clock()
    desk = Desk(queue, clock)
    assert starts(desk) == [FIRST, TaskAttempt(2, None, 1)]
    queue.begin(1, None, 1, begun())
    queue.end(1, None, 1, Ended(how="exit", at=1.0))
    desk.look()
    assert len(list(desk.plan.active())) == 2
    clock.now += 31
    desk.look()
    # The other one waits at the scheduler.
    assert list(desk.plan.active()) == [TaskAttempt(2, None, 1)]


def test_an_attempt_that_no_worker_can_run_has_failed(queue: Queue) -> None:
    queue.submit(JOB)
    desk = Desk(queue)
    assert starts(desk) == [FIRST]
    desk.refuse(FIRST, "no worker can run it: no such kind")
    ended = queue.ended(1, None, 1)
    assert ended is not None
    assert (ended.how, ended.message) == ("start", "no worker can run it: no such kind")
    assert not starts(desk)


def test_another_job_begins_when_its_dependency_has_begun(queue: Queue) -> None:
    queue.submit(JOB)
    queue.submit(msgspec.structs.replace(JOB, after=(Dependency(jobs=(1,), until="begun"),)))
    desk = Desk(queue)
    assert starts(desk) == [FIRST]
    desk.look()
    assert not starts(desk)
    queue.begin(1, None, 1, begun())
    desk.look()
    assert starts(desk) == [TaskAttempt(2, None, 1)]


def test_commands_find_the_tickets_of_attempts_that_the_scheduler_has(queue: Queue) -> None:
    clock = Clock()
    desk = Desk(queue, clock)
    queue.submit(JOB)
    desk.look()
    desk.book.tickets[FIRST] = 17
    desk.note_tickets()
    clock.now += 60.0
    desk.look()

    assert {FIRST: 17} == Book.read(queue).tickets


def test_nothing_that_comes_while_the_disk_is_full_is_forgotten(queue: Queue) -> None:
    queue.submit(JOB)
    desk = Desk(queue)
    [first] = starts(desk)
    queue.submit(JOB)
    queue.submit(JOB)
    queue.wish(Wish(what="cancel", jobs=((1, 2),), by="ann"))
    # Nothing can be written.
    incoming = queue.folder / "incoming"
    incoming.rmdir()
    with pytest.raises(CannotWrite):
        desk.look()
    assert starts(desk) == [TaskAttempt(3, None, 1)]
    incoming.mkdir()
    assert desk.look().stops == [first]
    assert desk.look().stops == []
    waiting = queue.begun(2, None, 1)
    assert waiting is not None
    assert waiting.cancelled == "ann"


def test_a_view_that_cannot_be_written_is_not_needed(queue: Queue) -> None:
    desk = Desk(queue)
    queue.submit(JOB)
    (queue.folder / "incoming").rmdir()
    assert desk.look().in_charge
    assert starts(desk) == [FIRST]


def test_a_cancellation_without_receipt_is_final_when_the_attempt_comes_back(queue: Queue) -> None:
    queue.submit(JOB)
    desk = Desk(queue)
    [first] = starts(desk)
    queue.wish(Wish(what="cancel", jobs=((1, 1),), by="ann"))
    assert desk.look().stops == [first]
    desk.give_back(first)
    desk.look()
    assert desk.book.entries[1].is_final


@pytest.mark.parametrize("how", ["exit", "signal", "timeout", "returned", "lost", "start"])
def test_a_cancellation_is_final_however_the_attempt_ends_that_ran_when_it_came(
    queue: Queue, how: How
) -> None:
    array = ArraySpec(ranges=((1, 2, 1),))
    queue.submit(msgspec.structs.replace(JOB, array=array, retries=5))
    queue.submit(msgspec.structs.replace(JOB, after=(Dependency(jobs=(1,), until="any"),)))
    desk = Desk(queue)
    first, second = starts(desk)
    queue.begin(*first, begun())
    queue.wish(Wish(what="cancel", jobs=((1, 1),), by="ann", why="wrong"))
    assert desk.look().stops == [first, second]
    # Nothing of the second has begun when its call comes back.
    desk.give_back(second)
    queue.end(*first, Ended(how=how, at=1.0, status=3, elapsed=60.0))
    desk.read(first)
    desk.look()
    assert desk.book.entries[1].counts.cancelled == 2
    last = queue.begun(1, 1, 2)
    assert last is not None
    assert (last.cancelled, last.why) == ("ann", "wrong")
    assert starts(desk) == [TaskAttempt(2, None, 1)]


@pytest.mark.parametrize("what", ["cancel", "again"])
def test_what_a_wish_was_to_end_is_to_end_under_the_next_dispatcher(
    queue: Queue, what: Literal["cancel", "again"]
) -> None:
    queue.submit(msgspec.structs.replace(JOB, array=ArraySpec(ranges=((1, 2, 1),))))
    queue.begin(1, 1, 1, begun(ticket=1))
    queue.begin(1, 2, 1, begun(ticket=2))
    queue.end(1, 2, 1, Ended(how="exit", at=1.0))
    queue.wish(Wish(what="cancel", jobs=((1, 1),), tasks=((2, 2),)))
    queue.wish(Wish(what="again", jobs=((1, 1),), tasks=((2, 2),), attempt=2))
    queue.begin(1, 2, 2, begun(ticket=3))  # what was cancelled was the run before
    queue.wish(Wish(what=what, jobs=((1, 1),), tasks=((1, 1),), attempt=2))
    desk = Desk(queue)
    assert [one.start for one in desk.adopted()] == [TaskAttempt(1, 1, 1), TaskAttempt(1, 2, 2)]
    assert desk.look().stops == [TaskAttempt(1, 1, 1)]
    assert desk.look().stops == []


def test_a_cancellation_that_is_read_before_its_job_is_made_final(queue: Queue) -> None:
    desk = Desk(queue)
    wish = Wish(what="cancel", jobs=((2, 2),), by="ann")

    class Late(Queue):
        """A queue in which a job and its cancellation come between two looks of a reader."""

        def jobs_from(self, number: int) -> Iterator[tuple[int, Job]]:
            yield from super().jobs_from(number)
            if self.wishes.end() == 1:
                self.submit(JOB)
                self.wish(wish)

    queue.submit(JOB)
    found = read_format(queue.files, "")
    assert found is not None
    desk.book.queue = Late(queue.files, found, queue.folder)
    desk.look()
    assert list(desk.book.entries) == [1]
    desk.look()
    assert starts(desk) == [FIRST]
    assert desk.book.entries[2].is_final


def test_a_job_that_cannot_be_cancelled_for_now_does_not_hold_up_others(queue: Queue) -> None:
    queue.submit(JOB)
    queue.submit(JOB)
    desk = Desk(queue)
    queue.wish(Wish(what="cancel", jobs=((1, 2),), by="ann"))
    with unreadable("attempts/0/1.1.begun"), pytest.raises(OSError, match="Input/output"):
        desk.look()
    assert desk.book.entries[2].is_final


def take_over(queue: Queue, run: Begun) -> int:
    """Have another dispatcher take charge, whose process is that of a run; return its number."""
    me = msgspec.structs.replace(this_dispatcher(), pid=run.pid, pid_began=run.pid_began)
    return Dispatchers(queue.files).take_charge(me)


async def test_a_dispatcher_serves_again_if_the_one_after_it_has_died_at_once(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ends if that one lives, or was ended by a user."""
    (tmp_path / "grain.toml").write_text('address = "tcp://n1:4000"\n')
    monkeypatch.chdir(tmp_path)
    numbers = []

    async def once(queue: Queue, desk: Desk, lifetime: Lifetime | None) -> None:
        assert lifetime is not None
        assert lifetime.seconds <= 60.0
        numbers.append(desk.number)
        number = take_over(queue, dead())
        assert not desk.look().in_charge
        if desk.number == 3:
            Dispatchers(queue.files).say_farewell(number)
        # Both tell of it at once, if the dispatcher was stopped for a while.
        told = MissionReplaced("another dispatcher serves it"), EdgeError("its connection is lost")
        raise ExceptionGroup("", [ExceptionGroup("", told), told[0]])

    with pytest.raises(MissionReplaced):
        await serve(queue.folder, Lifetime(60.0, ("grain",)), once)
    assert numbers == [1, 3]
    desk = Desk(queue)
    assert not desk.has_outlived_successor()
    Desk(queue)
    assert not desk.has_outlived_successor()


def test_a_dispatcher_of_replaced_code_starts_again_with_the_time_that_is_left() -> None:
    words = again("/queue", Lifetime(60.0, ("grain", "queue")), 12.5)
    assert ["/queue", "47.5", "grain", "queue"] == words[-4:]
    assert ["grain.dispatcher", "/queue"] == again("/queue", None, 12.5)[-2:]
    assert "0" == again("/queue", Lifetime(60.0, ()), 100.0)[-1]


@pytest.mark.parametrize("again", [False, True], ids=["removed", "made again"])
def test_a_dispatcher_ends_when_its_folder_is_removed(queue: Queue, again: bool) -> None:
    desk = Desk(queue)
    shutil.rmtree(queue.folder)
    if again:
        other = msgspec.structs.replace(this_dispatcher(), pid=1)
        Dispatchers(Queue.open(queue.folder, make=True).files).take_charge(other)
    assert not desk.look().in_charge


def test_receipts_that_cannot_be_read_do_not_hide_others(queue: Queue) -> None:
    queue.submit(JOB)
    queue.submit(JOB)
    desk = Desk(queue)
    first, second = starts(desk)
    for number in (1, 2):
        queue.begin(number, None, 1, begun())
        queue.end(number, None, 1, Ended(how="exit", at=1.0))
    with unreadable("attempts/0/1.1.begun"):
        assert desk.read_all([first, second]) == {second: True}


def test_a_job_that_cannot_be_read_does_not_hide_others(queue: Queue) -> None:
    queue.submit(JOB)
    queue.submit(JOB)
    (queue.folder / "jobs/0/1").write_bytes(b'{"name": "\xff"}')
    desk = Desk(queue)
    assert starts(desk) == [TaskAttempt(2, None, 1)]
    assert desk.look().in_charge


def test_an_attempt_on_several_workers_that_is_handed_back_runs_again_when_its_call_has_ended(
    queue: Queue,
) -> None:
    queue.submit(JOB)
    clock = Clock()
    desk = Desk(queue, clock)
    [start] = starts(desk)
    desk.book.tickets[start] = 7
    queue.begin(*start, begun(others=("n2",)))
    queue.end(*start, Ended(how="returned", at=1.0, elapsed=60.0))

    clock.now += 30
    desk.look()
    assert [] == starts(desk)

    assert desk.read(start)
    assert [start._replace(attempt=2)] == starts(desk)


@pytest.mark.parametrize("until", ["ok", "each"])
def test_a_job_that_asks_for_it_is_cancelled_when_it_can_never_begin(
    queue: Queue, until: Until
) -> None:
    array = ArraySpec(ranges=((0, 1, 1),))
    after = (Dependency(jobs=(1,), until=until),)
    queue.submit(msgspec.structs.replace(JOB, array=array))
    queue.submit(msgspec.structs.replace(JOB, array=array, after=after, options={KILL: "yes"}))
    queue.submit(msgspec.structs.replace(JOB, array=array, after=after))
    for task, status in (0, 0), (1, 1):
        queue.begin(1, task, 1, begun())
        queue.end(1, task, 1, Ended(how="exit", at=1.0, status=status))
    desk = Desk(queue)
    starts(desk)
    desk.look()

    of_task = [desk.book.standing(2, task, 0.0).state for task in (0, 1)]
    assert ["CANCELLED" if until == "ok" else "PENDING", "CANCELLED"] == of_task
    run = desk.book.standing(2, 1, 0.0).run
    assert run is not None
    assert ("--kill-on-invalid-dep", "as it could never begin") == (run.by, run.message)
    assert "PENDING" == desk.book.standing(3, 1, 0.0).state
