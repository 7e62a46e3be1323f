"""The book of a queue: what is ready, its view, packing and removal."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grain.files.forms import structs_in
from grain.queue.arrays import parse_array
from grain.queue.book import (
    VIEW,
    Book,
    Entry,
    ListedJob,
    QueueView,
    read_tickets,
    view_version,
)
from grain.queue.errors import BadInput, NoSuchJob
from grain.queue.files import WholeFiles
from grain.queue.folder import PACKED_AFTER, Queue, make_format
from grain.queue.packing import CLEARED_AFTER, FORGOTTEN_AFTER, keep_house
from grain.queue.records import ArraySpec, Begun, Dependency, Ended, Job, JobUpdate, Wish
from grain.queue.states import Asked, Run, StateCounts, asked_of
from grain_testkit import queue_world
from grain_testkit.queue_disk import Host, Server
from grain_testkit.queue_world import make_job

if TYPE_CHECKING:
    from collections.abc import Iterable

BEGUN = Begun(at=1.0, host="h", worker="w")
CANCELLED = Begun(at=1.0, host="h", cancelled="me")


@pytest.fixture
def server() -> Server:
    return Server()


def opened(server: Server, *, late: bool = False) -> Queue:
    files = WholeFiles(Host(server, late=late))
    return Queue(files, make_format(files, "model", 4), Path("model"))


@pytest.fixture
def queue(server: Server) -> Queue:
    return opened(server)


def run(queue: Queue, number: int, task: int | None = None, status: int = 0) -> None:
    attempt = len(queue.attempts(number, task)) + 1
    assert queue.begin(number, task, attempt, BEGUN)
    assert queue.end(number, task, attempt, Ended(how="exit", at=2.0, status=status))


def ready(queue: Queue, now: float = 0.0, **more: object) -> list[tuple[int, int | None, int]]:
    found = queue_world.ready(Book.read(queue), now, **more)  # type: ignore[arg-type]
    return [(entry.number, task, attempt) for entry, task, attempt in found]


def same(queue: Queue, book: Book) -> bool:
    """Return True if a book is as one that is made without a view."""
    fresh = Book(queue)
    fresh.refresh()
    return [
        (e.number, e.job, e.runs, e.wishes, e.counts, e.is_final) for e in fresh.entries.values()
    ] == [(e.number, e.job, e.runs, e.wishes, e.counts, e.is_final) for e in book.entries.values()]


def test_a_job_is_ready_until_it_has_begun(queue: Queue) -> None:
    queue.submit(make_job("x", retries=1))
    assert [(1, None, 1)] == ready(queue)
    queue.begin(1, None, 1, BEGUN)
    assert [] == ready(queue)
    queue.end(1, None, 1, Ended(how="exit", at=2.0, status=1))
    assert [(1, None, 2)] == ready(queue)
    run(queue, 1)
    assert [] == ready(queue)


def test_held_and_cancelled_jobs_and_such_that_begin_later_are_not_ready(queue: Queue) -> None:
    for _ in range(3):
        queue.submit(make_job("x"))
    queue.submit(make_job("x", not_before=5.0))
    queue.wish(Wish(what="hold", jobs=((1, 1),)))
    queue.wish(Wish(what="cancel", jobs=((2, 2),)))

    assert [(3, None, 1)] == ready(queue)
    assert [(3, None, 1), (4, None, 1)] == ready(queue, 5.0)
    queue.wish(Wish(what="release", jobs=((1, 1),)))
    assert [(1, None, 1), (3, None, 1)] == ready(queue)


def test_a_dependency_that_is_packed_is_known(queue: Queue, server: Server) -> None:
    for status in (0, 1, 0, 0):
        run(queue, queue.submit(make_job("x")), status=status)
    server.clock += PACKED_AFTER + 1.0
    keep_house(Book.read(queue))
    queue.submit(make_job("ok", after=(Dependency(jobs=(1,)),)))
    queue.submit(make_job("never", after=(Dependency(jobs=(2,)),)))
    queue.submit(make_job("any", after=(Dependency(jobs=(2,), until="any"),)))

    book = Book.read(queue)
    assert [4, 5, 6, 7] == list(book.entries)
    assert [(5, None, 1), (7, None, 1)] == ready(queue)
    assert "never" == book.standing(6, None, 0.0).reason
    assert StateCounts(failed=1) == book.counts(2)
    packed = book.find(2)
    assert packed is not None
    assert ("x", StateCounts(failed=1)) == (packed.job.name, packed.counts)
    assert book.entries[5] is book.find(5)
    with pytest.raises(NoSuchJob):
        book.find(8)


def test_an_array_runs_so_many_tasks_at_a_time(queue: Queue) -> None:
    queue.submit(make_job("x", array=parse_array("0-9%2")))
    assert [(1, 0, 1), (1, 1, 1)] == ready(queue)
    assert [(1, 1, 1)] == ready(queue, taken={(1, 0, 1)})
    queue.begin(1, 0, 1, BEGUN)
    assert [(1, 1, 1)] == ready(queue, taken={(1, 0, 1)})
    run(queue, 1, 5)
    assert [(1, 1, 1)] == ready(queue)
    assert StateCounts(pending=8, running=1, completed=1) == Book.read(queue).counts(1)


def test_tasks_of_an_array_can_be_held_and_run_again(queue: Queue) -> None:
    queue.submit(make_job("x", array=parse_array("0-3")))
    for task in (0, 1):
        run(queue, 1, task, status=1)
    queue.wish(Wish(what="hold", jobs=((1, 1),), tasks=((2, 2),)))
    queue.wish(Wish(what="again", jobs=((1, 1),), tasks=((1, 1),), attempt=2))

    assert [(1, 1, 2), (1, 3, 1)] == ready(queue)


def test_what_was_asked_of_a_task_is_what_all_wishes_say_in_their_order() -> None:
    dice = random.Random(3)
    job = make_job("x", array=parse_array("1-300"))
    for _ in range(50):
        entry = Entry(1, job)
        for _ in range(20):
            whole, first = dice.random() < 0.2, dice.randint(1, 300)
            tasks = () if whole else ((first, first + dice.choice([0, 0, 0, 5, 250])),)
            what = dice.choice(["hold", "release", "cancel", "again"])
            attempt = dice.randint(1, 3)
            wish = Wish(what=what, jobs=((1, 1),), tasks=tasks, attempt=attempt)  # type: ignore[arg-type]
            entry.add_wish(wish)
            for task in {first, *dice.sample(range(1, 301), 5)}:
                assert asked_of(job, 1, task, entry.wishes) == entry.asked(task)


def test_many_wishes_for_single_tasks_do_not_make_lists_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = [0]

    def counting(job: Job, number: int, task: int | None, wishes: Iterable[Wish]) -> Asked:
        found = list(wishes)
        read[0] += len(found)
        return asked_of(job, number, task, found)

    monkeypatch.setattr("grain.queue.book.asked_of", counting)
    entry = Entry(1, make_job("x", array=parse_array("1-3000")))
    for task in range(1, 1001):
        entry.add_wish(Wish(what="hold", jobs=((1, 1),), tasks=((task, task),)))
    held = sum(entry.standing(task, 0.0).reason == "held" for task in entry.task_numbers())
    assert (held, read[0]) == (1000, 1000)


def test_a_view_has_the_tickets_of_attempts(queue: Queue) -> None:
    queue.submit(make_job("x", array=parse_array("0-3")))
    book = Book.read(queue)
    book.tickets[1, 2, 1] = 17
    book.write_view()
    assert {(1, 2, 1): 17} == Book.read(queue).tickets


def test_a_job_that_has_ended_is_open_again_if_it_runs_again(queue: Queue) -> None:
    queue.submit(make_job("x"))
    run(queue, 1, status=1)
    book = Book.read(queue)
    assert [] == book.open_entries()
    queue.wish(Wish(what="again", jobs=((1, 1),), attempt=2))
    book.refresh()

    assert [1] == [entry.number for entry in book.open_entries()]
    assert [(1, None, 2)] == ready(queue)


def test_running_tasks_are_known_with_their_workers(queue: Queue) -> None:
    queue.submit(make_job("x"))
    queue.begin(1, None, 1, BEGUN)

    assert [(1, None, "w")] == [
        (entry.number, task, run.worker)
        for entry, task, run in queue_world.running(Book.read(queue))
    ]


def test_a_view_and_what_is_newer_are_the_whole_book(queue: Queue) -> None:
    for number in range(1, 10):
        queue.submit(make_job("x", array=parse_array("1-2") if number % 3 == 0 else None))
    run(queue, 1)
    queue.begin(2, None, 1, BEGUN)
    run(queue, 3, 2, status=1)
    queue.cancel_waiting(4, [(None, 1)], CANCELLED)
    queue.wish(Wish(what="hold", jobs=((5, 7),)))
    book = Book.read(queue)
    book.write_view()
    assert same(queue, Book.read(queue))

    queue.submit(make_job("later"))
    queue.end(2, None, 1, Ended(how="exit", at=2.0))
    run(queue, 3, 1)
    queue.wish(Wish(what="again", jobs=((1, 1),), attempt=2))
    queue.wish(Wish(what="hold", jobs=((1, 99),)))
    assert same(queue, Book.read(queue))
    book.refresh()
    assert same(queue, book)


def test_a_view_that_cannot_be_read_is_not_needed(queue: Queue) -> None:
    queue.submit(make_job("x"))
    queue.files.replace(VIEW, b'{"version": 99}')
    assert [1] == list(Book.read(queue).entries)


def test_a_view_with_other_fields_is_made_again(queue: Queue) -> None:
    queue.submit(make_job("x"))
    queue.begin(1, None, 1, BEGUN)
    book = Book.read(queue)
    book.tickets = {(1, None, 1): 7}
    book.write_view()
    [job] = Book.read(queue).entries.values()
    assert ("x", {(1, None, 1): 7}) == (job.job.name, read_tickets(queue))
    content = queue.files.read(VIEW)
    assert content is not None

    for version in (1, view_version() + 1):  # 1: of before versions followed from fields
        old = re.sub(rb'"version":\d+', b'"version":%d' % version, content)
        queue.files.replace(VIEW, old.replace(b'"x"', b'"old"'))
        [job] = Book.read(queue).entries.values()
        assert ("x", {}) == (job.job.name, read_tickets(queue))


def test_every_field_of_a_listed_job_and_of_its_runs_belongs_to_the_version() -> None:
    assert {ListedJob, Job, Run, StateCounts, Wish} <= set(structs_in(QueueView))


def test_a_list_that_is_old_does_not_hide_the_end_of_what_runs(
    queue: Queue, server: Server
) -> None:
    queue.submit(make_job("x"))
    queue.begin(1, None, 1, BEGUN)
    late = opened(server, late=True)
    book = Book.read(late)
    server.clock += 50.0
    queue.end(1, None, 1, Ended(how="exit", at=2.0))
    server.clock += 1.0
    late.receipt_names(0)
    assert ["1.1.begun"] == late.receipt_names(0)
    server.clock += 10.0  # what it did not find 61 seconds ago is looked for again
    book.refresh()

    assert StateCounts(completed=1) == book.counts(1)


def test_a_bucket_is_packed_cleared_and_forgotten(queue: Queue, server: Server) -> None:
    disk = queue.files.disk
    for number in range(1, 4):
        queue.submit(make_job(f"job {number}", array=parse_array("1-2") if number == 1 else None))
    run(queue, 1, 1)
    run(queue, 1, 2, status=1)
    queue.cancel_waiting(2, [(None, 1)], CANCELLED)
    server.clock += PACKED_AFTER + 1.0
    run(queue, 3)
    keep_house(Book.read(queue))
    assert not disk.is_file("jobs/0")
    queue.submit(make_job("next"))  # now it is full

    server.clock += PACKED_AFTER - 1.0
    keep_house(Book.read(queue))
    assert not disk.is_file("jobs/0")
    server.clock += 2.0
    keep_house(Book.read(queue))
    assert disk.is_file("jobs/0")
    assert disk.exists("live/jobs-0")
    server.clock += CLEARED_AFTER + 1.0
    keep_house(Book.read(queue))
    assert ["attempts-1", "jobs-1"] == sorted(disk.list("live"))

    assert [f"job {number}" for number in (1, 2, 3)] == [queue.job(n).name for n in (1, 2, 3)]
    assert [1, 1] == [len(queue.attempts(1, task)) for task in (1, 2)]
    assert CANCELLED == queue.begun(2, None, 1)
    assert not queue.begin(3, None, 2, BEGUN)
    assert not queue.end(3, None, 2, Ended(how="lost", at=1.0))
    assert [] == queue.cancel_waiting(3, [(None, 2)], CANCELLED)
    assert 5 == queue.jobs.end()

    server.clock += FORGOTTEN_AFTER
    keep_house(Book.read(queue))
    later = opened(server)
    with pytest.raises(NoSuchJob, match="its files were removed"):
        later.job(1)
    assert Book.read(later).counts(1) is None
    assert [4] == [number for number, _ in later.jobs_from(1)]
    assert 5 == later.submit(make_job("x"))


@pytest.mark.parametrize("broken", [b"", b'{"name": "jo', b"\xff", b"\0" * 300])
def test_a_file_that_is_broken_does_not_take_its_packed_bucket_along(
    queue: Queue, server: Server, broken: bytes
) -> None:
    disk = queue.files.disk
    for number in range(1, 5):
        queue.submit(make_job(f"job {number}"))
    for name in ("jobs/0/2", "attempts/0/3.1.ended"):
        if name.startswith("attempts"):
            run(queue, 3)
        disk.remove(name)
        disk.create(name, broken)
    run(queue, 1)
    queue.wish(Wish(what="cancel", jobs=((2, 2),)))
    queue.cancel_waiting(2, [(None, 1)], CANCELLED)
    server.clock += PACKED_AFTER + 1.0
    keep_house(Book.read(queue))
    assert disk.is_file("jobs/0")
    assert disk.is_file("attempts/0")

    later = opened(server)
    assert [(1, "job 1"), (2, "(unreadable)"), (3, "job 3")] == [
        (number, job.name) for number, job in later.jobs_from(1) if number < 4
    ]
    ended = later.ended(3, None, 1)
    assert ended is not None
    assert ended.how == "start"
    assert BEGUN == later.begun(3, None, 1)


def test_a_bucket_with_a_job_that_waits_is_not_packed(queue: Queue, server: Server) -> None:
    for number in range(1, 5):
        queue.submit(make_job("x", held=number == 2))
    run(queue, 1)
    run(queue, 3)
    server.clock += 90 * 86400.0
    keep_house(Book.read(queue))

    assert not queue.files.disk.is_file("jobs/0")


def test_old_wishes_are_packed_and_read_from_the_pack(queue: Queue, server: Server) -> None:
    for _ in range(5):
        queue.submit(make_job("x"))
    for what in ("hold", "release", "hold", "cancel"):
        queue.wish(Wish(what=what, jobs=((5, 5),)))
    server.clock += PACKED_AFTER + 1.0
    keep_house(Book.read(queue))

    assert queue.files.disk.is_file("wishes/0")
    assert ["hold", "release", "hold", "cancel"] == [w.what for _, w in queue.wishes_from(1)]
    assert 5 == queue.wish(Wish(what="hold", jobs=((5, 5),)))


def test_a_wish_that_is_broken_does_not_stop_the_removal_of_old_ones(
    queue: Queue, server: Server
) -> None:
    disk = queue.files.disk
    for number in range(1, 5):
        queue.submit(make_job("x"))
        queue.wish(Wish(what="hold", jobs=((number, number),)))
        run(queue, number)
    disk.remove("wishes/0/2")
    disk.create("wishes/0/2", b"{")
    for after in (PACKED_AFTER, FORGOTTEN_AFTER):
        server.clock += after + 1.0
        keep_house(Book.read(queue))

    later = opened(server)
    assert [4] == [number for number, _ in later.wishes_from(1)]
    assert 5 == later.jobs.end()


def test_what_killed_processes_have_left_goes_after_a_day(queue: Queue, server: Server) -> None:
    queue.files.disk.create("incoming/left", b"")
    server.clock += 86_399.0
    queue.files.clean()
    assert ["left"] == queue.files.disk.list("incoming")
    server.clock += 2.0
    queue.files.clean()
    assert [] == queue.files.disk.list("incoming")


def test_what_another_process_cancels_first_has_waited_and_what_a_worker_begins_runs(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.submit(make_job("x", array=ArraySpec(ranges=((1, 3, 1),))))
    book = Book.read(queue)
    before = queue.cancel_waiting

    def late(number: int, tasks: Any, begun: Begun) -> list[tuple[int | None, int]]:
        before(number, [(1, 1)], Begun(at=1.0, host="h", cancelled="dispatcher"))
        assert queue.begin(number, 2, 1, Begun(at=1.0, host="h", worker="w"))
        return before(number, tasks, begun)

    monkeypatch.setattr(queue, "cancel_waiting", late)
    assert (2, 1) == book.cancel(1, lambda _: True, by="me")


def test_an_update_replaces_properties_of_a_job_with_and_without_a_view(queue: Queue) -> None:
    for _ in range(3):
        queue.submit(make_job("x", timeout=60.0, priority=2))
    after = (Dependency(jobs=(1,), until="any"),)
    queue.wish(Wish(what="update", jobs=((2, 3),), update=JobUpdate(timeout=0.0, after=after)))
    queue.wish(Wish(what="update", jobs=((3, 3),), update=JobUpdate(priority=-4)))
    book = Book.read(queue)
    for _ in range(2):
        found = [book.entries[one].job for one in (1, 2, 3)]
        assert [(60.0, 2), (0.0, 2), (0.0, -4)] == [(one.timeout, one.priority) for one in found]
        assert [(), after, after] == [one.after for one in found]
        assert [(1, None, 1)] == ready(queue)
        book.write_view()
        book = Book.read(queue)
    queue.wish(Wish(what="update", jobs=((3, 3),), update=JobUpdate(after=())))
    assert [(1, None, 1), (3, None, 1)] == sorted(ready(queue))


def test_a_task_of_an_array_may_have_a_time_limit_of_its_own(queue: Queue) -> None:
    queue.submit(make_job("x", timeout=60.0, array=ArraySpec(ranges=((1, 3, 1),))))
    for tasks, timeout in (((2, 3),), 90.0), ((), 120.0), (((3, 3),), 150.0):
        update = JobUpdate(timeout=timeout)
        queue.wish(Wish(what="update", jobs=((1, 1),), tasks=tasks, update=update))
    entry = Book.read(queue).entries[1]
    assert [120.0, 120.0, 150.0] == [entry.job_of(task).timeout for task in (1, 2, 3)]
    assert 120.0 == entry.job.timeout


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_update_has_no_job_wait_for_itself_or_a_later_one(queue: Queue, number: int) -> None:
    for _ in range(2):
        queue.submit(make_job("x"))
    update = JobUpdate(after=(Dependency(jobs=(number,)),))
    with pytest.raises(BadInput):
        queue.wish(Wish(what="update", jobs=((1, 2),), update=update))
    assert [] == list(queue.wishes_from(1))


def test_an_update_holds_for_a_job_that_the_writer_of_the_view_could_not_read(
    queue: Queue, server: Server
) -> None:
    queue.submit(make_job("x", timeout=60.0))
    queue.wish(Wish(what="update", jobs=((1, 1),), update=JobUpdate(timeout=90.0)))
    disk = queue.files.disk
    content = disk.read("jobs/0/1")
    for there in b"{", content:
        disk.remove("jobs/0/1")
        disk.create("jobs/0/1", there)
        book = Book.read(opened(server))
        book.write_view()
    assert ("x", 90.0) == (book.entries[1].job.name, book.entries[1].job.timeout)
