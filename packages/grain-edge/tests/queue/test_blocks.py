"""`Blocks`: the tasks that never begin unless a user acts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grain.queue.arrays import parse_array
from grain.queue.book import Block, Blocks, Book
from grain.queue.files import WholeFiles
from grain.queue.folder import Queue, make_format
from grain.queue.records import Begun, Dependency, Ended, Until, Wish
from grain_testkit.queue_disk import Host, Server
from grain_testkit.queue_world import make_job

BEGUN = Begun(at=1.0, host="h", worker="w")


@pytest.fixture
def queue() -> Queue:
    files = WholeFiles(Host(Server()))
    return Queue(files, make_format(files, "model"), Path("model"))


def submit(queue: Queue, *after: int, until: Until = "ok", array: str = "", **more: Any) -> int:
    if after:
        more["after"] = (Dependency(jobs=after, until=until),)
    return queue.submit(make_job("opt", array=parse_array(array) if array else None, **more))


def end(queue: Queue, number: int, status: int = 1, task: int | None = None) -> None:
    attempt = len(queue.attempts(number, task)) + 1
    assert queue.begin(number, task, attempt, BEGUN)
    assert queue.end(number, task, attempt, Ended(how="exit", at=2.0, status=status))


def block_of(queue: Queue, number: int, *tasks: int) -> Block | None:
    book = Book.read(queue)
    return Blocks(book).of(book.entries[number], (lambda task: task in tasks) if tasks else None)


@pytest.mark.parametrize(
    ("until", "status", "blocked"),
    [
        ("ok", 1, True), ("ok", 0, False), ("fail", 0, True), ("fail", 1, False),
        ("any", 1, False), ("begun", 1, False),
    ],
)  # fmt: skip
def test_a_job_never_begins_after_another_end_than_it_wants(
    queue: Queue, until: Until, status: int, blocked: bool
) -> None:
    submit(queue)
    submit(queue, 1, until=until)
    assert block_of(queue, 2) is None, "it may still end so"
    end(queue, 1, status)
    assert (Block(1, until) if blocked else None) == block_of(queue, 2)


@pytest.mark.parametrize("until", ["ok", "fail", "any", "begun"])
def test_what_waits_for_a_job_that_never_begins_does_not_begin_either(
    queue: Queue, until: Until
) -> None:
    submit(queue)
    submit(queue, 1)
    submit(queue, 2, until=until)
    submit(queue, 3, until="any")
    end(queue, 1)

    assert Block(1, "ok", (2,)) == block_of(queue, 3)
    assert Block(1, "ok", (3, 2)) == block_of(queue, 4)


def test_a_chain_may_be_longer_than_the_stack(queue: Queue) -> None:
    submit(queue)
    for number in range(1, 1500):
        submit(queue, number)
    end(queue, 1)
    block = block_of(queue, 1500)
    assert block is not None
    assert (1, 1498) == (block.job, len(block.by_way_of))


def test_a_job_goes_on_when_the_other_one_runs_again(queue: Queue) -> None:
    submit(queue)
    submit(queue, 1)
    end(queue, 1)
    assert block_of(queue, 2) is not None
    queue.wish(Wish(what="again", jobs=((1, 1),), attempt=2))
    assert block_of(queue, 2) is None


def test_a_cancellation_ends_a_job_that_never_begins(queue: Queue) -> None:
    submit(queue)
    submit(queue, 1)
    submit(queue, 2, until="any")
    end(queue, 1)
    queue.wish(Wish(what="cancel", jobs=((2, 2),)))
    assert block_of(queue, 2) is None
    assert block_of(queue, 3) is None


def test_a_job_on_hold_may_be_released_unless_that_does_not_help(queue: Queue) -> None:
    submit(queue, held=True)
    submit(queue, 1, held=True)
    assert block_of(queue, 1) is None
    assert block_of(queue, 2) is None
    end(queue, 1)
    assert Block(1, "ok") == block_of(queue, 2)


def test_tasks_that_run_keep_a_job_from_being_given_up(queue: Queue) -> None:
    submit(queue)
    submit(queue, 1, array="1-2")
    submit(queue, 2, until="any")
    end(queue, 1, 0)
    assert queue.begin(2, 2, 1, BEGUN)
    queue.wish(Wish(what="again", jobs=((1, 1),), attempt=2))
    end(queue, 1)

    assert Block(1, "ok") == block_of(queue, 2, 1)
    assert block_of(queue, 2, 1, 2) is None
    assert block_of(queue, 2) is None
    assert block_of(queue, 3) is None


def test_tasks_that_wait_one_by_one_are_told_apart(queue: Queue) -> None:
    submit(queue, array="1-2")
    submit(queue, 1, until="each", array="1-2")
    submit(queue, 2, until="each", array="1-2")
    end(queue, 1, task=1)

    assert block_of(queue, 2) is None
    assert Block(1, "each") == block_of(queue, 2, 1)
    assert Block(1, "each", (2,)) == block_of(queue, 3, 1)
    assert block_of(queue, 3, 2) is None
    assert block_of(queue, 3) is None
    end(queue, 1, task=2)
    assert Block(1, "each", (2,)) == block_of(queue, 3)


def test_a_task_that_runs_again_is_not_blocked_by_the_past(queue: Queue) -> None:
    submit(queue, array="1-2")
    submit(queue, 1, until="each", array="1-2")
    submit(queue, 2, until="each", array="1-2")
    end(queue, 1, 0, task=1)
    assert queue.begin(2, 1, 1, BEGUN)
    queue.wish(Wish(what="again", jobs=((1, 1),), attempt=2))
    end(queue, 1, task=1)
    assert block_of(queue, 3, 1) is None, "task 1 of job 2 runs"


def test_a_job_that_fits_no_worker_never_begins_nor_does_what_waits_for_it(queue: Queue) -> None:
    submit(queue, array="1-2", request={"Cores": 1000})
    submit(queue, 1, until="any")
    submit(queue)
    book = Book.read(queue)
    blocks = Blocks(book, lambda job: "too large" if job.request.get("Cores") == 1000 else "")

    own = Block(1, "begun", why="too large")
    entries = book.entries
    assert own == blocks.of(entries[1]) == blocks.of(entries[1], lambda task: task == 2)
    assert own == blocks.of_task(entries[1], 2)
    assert Block(1, "begun", (1,), "too large") == blocks.of(entries[2])
    assert blocks.of(entries[3]) is None
