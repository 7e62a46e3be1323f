"""`grain hold`, `release`, `resubmit`, and jobs in `grain cancel`."""

from __future__ import annotations

import getpass
import json
import socket
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from grain.files.processes import this_process
from grain.queue.book import Book
from grain.queue.errors import Settled
from grain.queue.folder import Queue
from grain.queue.packing import pack_bucket
from grain.queue.records import VERSION, Begun, QueueFormat, Wish

if TYPE_CHECKING:
    from grain_testkit.job_commands import JobCommands


def state(jobs: JobCommands, number: int, task: int | None = None) -> str:
    standing = Book.read(jobs.queue).standing(number, task, 0.0)
    return f"{standing.state} {standing.reason}".strip()


def test_jobs_are_held_and_released(jobs: JobCommands) -> None:
    for _ in range(3):
        jobs.submit()
    jobs.begin(2)
    jobs.end(3)

    assert [
        "job 1 is on hold",
        "job 2 runs already, and goes on",
        "job 3 has ended already",
    ] == jobs.done("hold", "1-3").splitlines()
    assert "PENDING held" == state(jobs, 1)
    assert "job 1 is released\n" == jobs.done("release", "1")
    assert "PENDING" == state(jobs, 1)


def test_jobs_of_another_queue_are_changed_by_its_name(jobs: JobCommands) -> None:
    jobs.submit()
    jobs.done("submit", "--queue", "night", "true")

    assert "job 1 is on hold" in jobs.done("hold", "night:1")
    assert "on hold" in jobs.done("jobs", "night:1")
    assert "on hold" not in jobs.done("jobs", "1")
    assert "job 1 is released" in jobs.done("release", "night:1")
    assert "0 tasks run again" in jobs.done("resubmit", "night:1")
    assert "there is no job 2" in jobs.grain("wait", "night:2").stderr


def test_tasks_are_held_and_released(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-3")

    assert "these tasks of job 1 are on hold\n" == jobs.done("hold", "1_[1-2]")
    assert ("PENDING held", "PENDING") == (state(jobs, 1, 2), state(jobs, 1, 3))
    assert "these tasks of job 1 are released\n" == jobs.done("release", "1_2")
    assert ("PENDING held", "PENDING") == (state(jobs, 1, 1), state(jobs, 1, 2))


def test_held_tasks_that_end_or_run_are_named(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-3")
    jobs.begin(1, 1)
    jobs.end(1, 2)

    assert "these tasks of job 1 run or have ended already\n" == jobs.done("hold", "1_[1-2]")


@pytest.mark.parametrize("command", ["hold", "release", "resubmit", "cancel"])
def test_a_job_that_is_not_there_is_named(jobs: JobCommands, command: str) -> None:
    jobs.submit()
    assert "there is no job 2: the last one is 1" in jobs.refused(command, "2")
    assert "job 1 is not an array" in jobs.refused(command, "1_1")
    assert [] == list(jobs.queue.wishes_from(1))


def test_released_jobs_wait_if_no_dispatcher_can_be_started(idle: JobCommands) -> None:
    idle.submit(held=True)
    done = idle.grain("release", "1")

    assert (0, "job 1 is released\n") == (done.exit_code, done.stdout)
    assert done.stderr.startswith("they wait: no dispatcher could be started, so ")
    assert "PENDING" == state(idle, 1)


def test_jobs_that_have_ended_run_again_under_the_same_number(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-4")
    jobs.end(1, 1)
    jobs.end(1, 2, status=1)
    jobs.begin(1, 3)

    assert "1 task runs again\n" == jobs.done("resubmit", "--failed", "1")
    assert ("COMPLETED", "PENDING", "RUNNING") == tuple(state(jobs, 1, n) for n in (1, 2, 3))
    assert "0 tasks run again\n" == jobs.done("resubmit", "--failed", "1")
    assert "1 task runs again\n" == jobs.done("resubmit", "1")
    assert "PENDING" == state(jobs, 1, 1)
    assert "0 tasks run again\n" == jobs.done("resubmit", "1")


def test_jobs_that_ended_days_ago_do_not_run_again_and_the_others_do(jobs: JobCommands) -> None:
    # A bucket of three jobs, which is packed; then two more.
    (jobs.queue.folder / "format").write_bytes(
        msgspec.json.encode(QueueFormat(version=VERSION, mission="m", bucket=4))
    )
    jobs.queue = Queue.open(jobs.queue.folder)
    for number in range(1, 6):
        jobs.submit()
        jobs.end(number, status=number % 2)
    book = Book.read(jobs.queue)
    pack_bucket(jobs.queue, 0, book.entries.values())

    done = jobs.grain("resubmit", "1-5")
    assert (1, "2 tasks run again\n") == (done.exit_code, done.stdout)
    message = "Error: jobs 1-3 ended days ago, so they do not run again: submit them as new jobs\n"
    assert message == done.stderr
    assert ("PENDING", "PENDING") == (state(jobs, 4), state(jobs, 5))
    jobs.end(4)
    jobs.end(5)
    done = jobs.grain("resubmit", "--failed", "2-5")
    message = "Error: job 3 ended days ago, so it does not run again: submit it as a new job\n"
    assert (1, "0 tasks run again\n", message) == (done.exit_code, done.stdout, done.stderr)
    assert "0 tasks run again\n" == jobs.done("resubmit", "--failed", "2")


def test_a_job_that_is_about_to_be_packed_does_not_run_again(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settled(*_: object) -> int:
        raise Settled("jobs 1 to 999 ended days ago")

    jobs.submit()
    jobs.end(1)
    monkeypatch.setattr(Queue, "wish", settled)
    done = jobs.grain("resubmit", "1")
    message = "Error: job 1 ended days ago, so it does not run again: submit it as a new job\n"
    assert (1, "0 tasks run again\n", message) == (done.exit_code, done.stdout, done.stderr)


def test_a_task_that_workers_hand_back_at_once_is_lost_at_last(jobs: JobCommands) -> None:
    jobs.submit()
    for _ in range(20):
        jobs.begin(1)
        jobs.end(1, how="returned", elapsed=0.1)
    assert "its worker handed it back at once" in jobs.done("why", "1")
    assert "1 task runs again\n" == jobs.done("resubmit", "1")
    jobs.begin(1)
    jobs.end(1)
    assert "is done" in jobs.done("why", "1")


def test_a_task_whose_worker_lives_on_this_host_is_not_taken_for_lost(jobs: JobCommands) -> None:
    jobs.submit()
    me = this_process()
    begun = Begun(
        at=time.time(), host=me.host, machine=me.machine, boot=me.boot, space=me.space, pid=me.pid,
        pid_began=me.start, worker="w1",
    )  # fmt: skip
    assert jobs.queue.begin(1, None, 1, begun)

    done = jobs.grain("resubmit", "--lost", "1")
    assert (1, "0 tasks run again\n") == (done.exit_code, done.stdout)
    assert "1: the worker lives on this host, so nothing is lost" in done.stderr
    assert "RUNNING" == state(jobs, 1)


def test_a_task_that_is_lost_runs_again_only_on_request(jobs: JobCommands) -> None:
    jobs.submit(requeue=False)
    jobs.begin(1)

    assert "0 tasks run again\n" == jobs.done("resubmit", "1")
    assert "RUNNING" == state(jobs, 1)
    assert "1 task runs again\n" == jobs.done("resubmit", "--lost", "1")
    assert "PENDING" == state(jobs, 1)
    ended = jobs.queue.ended(1, None, 1)
    assert ended is not None
    assert ("lost", "its worker was silent, and the user said that it is dead") == (
        ended.how,
        ended.message,
    )


def test_a_job_that_waits_is_cancelled_for_good(jobs: JobCommands) -> None:
    jobs.submit()

    assert "job 1 is cancelled; it waited\n" == jobs.done("cancel", "--reason", "wrong", "1")
    assert "CANCELLED" == state(jobs, 1)
    by = f"by {getpass.getuser()} on {socket.gethostname()}, wrong"
    assert jobs.done("jobs", "1").endswith(f"  {by}\n")
    assert "job 1 has ended already\n" == jobs.done("cancel", "1")


def test_a_job_that_runs_is_told_to_end(jobs: JobCommands) -> None:
    jobs.submit()
    jobs.begin(1)

    said = jobs.done("cancel", "--reason", "wrong", "1")
    assert "job 1 is cancelled; it ran, and ends now\n" == said
    [(_, wish)] = jobs.queue.wishes_from(1)
    assert Wish(what="cancel", jobs=((1, 1),), by=wish.by, at=wish.at, why="wrong") == wish
    assert state(jobs, 1) == "RUNNING cancel", "until its worker says that it is gone"


def test_an_array_is_cancelled_as_a_whole_or_in_part(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-6")
    jobs.end(1, 1)
    jobs.begin(1, 2)

    assert "job 1 is cancelled; 1 task waited\n" == jobs.done("cancel", "1_3")
    assert "these tasks of job 1 have ended already\n" == jobs.done("cancel", "1_[1,3]")
    assert "job 1 is cancelled; 3 tasks waited, 1 task ran, and ends now\n" == jobs.done(
        "cancel", "1"
    )
    assert ("COMPLETED", "CANCELLED") == (state(jobs, 1, 1), state(jobs, 1, 6))


@pytest.mark.parametrize(
    ("word", "cancelled"),
    [
        ("queue:2", [2]),
        ("1,3", [1, 3]),
        ("2-3", [2, 3]),
        ("queue:last", [3]),
        ("queue:all", [1, 2, 3]),
    ],
)
def test_jobs_to_cancel_are_named_as_elsewhere(
    jobs: JobCommands, word: str, cancelled: list[int]
) -> None:
    for _ in range(3):
        jobs.submit()
    jobs.done("cancel", word)

    found = json.loads(jobs.done("jobs", "--json"))
    assert cancelled == [one["job"] for one in found if one["state"] == "cancelled"]


def test_programs_get_what_has_changed_as_json(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-3")
    jobs.end(jobs.submit())

    def answer(*words: str) -> object:
        return json.loads(jobs.done(words[0], "--json", *words[1:]))

    assert [
        {"job": 1, "tasks": 3, "text": "job 1 is on hold"},
        {"job": 2, "tasks": 0, "text": "job 2 has ended already"},
    ] == answer("hold", "1-2")
    assert [{"job": 1, "tasks": 1, "text": "these tasks of job 1 are released"}] == answer(
        "release", "1_2"
    )
    jobs.begin(1, 1)
    assert [
        {
            "job": 1, "waited": 2, "ran": 1,
            "text": "job 1 is cancelled; 2 tasks waited, 1 task ran, and ends now",
        },
        {"job": 2, "waited": 0, "ran": 0, "text": "job 2 has ended already"},
    ] == answer("cancel", "1", "2")  # fmt: skip
    assert {"tasks": ["1_2", "1_3", "2"]} == answer("resubmit", "1", "2")


def test_of_several_words_none_is_cancelled_if_one_is_wrong(jobs: JobCommands) -> None:
    jobs.submit()

    assert "there is no job 7" in jobs.refused("cancel", "1", "7")
    assert "name several jobs of the queue" in jobs.refused("cancel", "1", "opt")
    assert "--json is for jobs" in jobs.refused("cancel", "--json", "opt")
    assert "PENDING" == state(jobs, 1)
    assert 1 == jobs.queue.wishes.end()
