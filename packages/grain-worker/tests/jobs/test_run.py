"""An attempt of a job on a worker: real programs, real files."""

from __future__ import annotations

import errno
import math
import os
import re
import resource
import shutil
import signal
import socket
import time
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pytest
import trio
import trio.testing

from grain import GVAR
from grain.edge.channel import memory_channels
from grain.eventlog.soft_stops import STOPPED_SOFTLY
from grain.files.processes import this_process
from grain.queue.book import Book
from grain.queue.dispatchers import fate_of
from grain.queue.files import LocalDisk
from grain.queue.folder import Queue
from grain.queue.notes.steps import SCRIPT, steps_of
from grain.queue.records import ArraySpec, Begun, Ended, Job, JobUpdate, TaskInput, Wish
from grain.queue.selectors import plain_number
from grain.resource import ZERO, Cores, GPUs, Identities, Member, Memory, RootAllocation
from grain.worker import Call, MemoryTranslation, Runner
from grain.worker.errors import ExternalTimeoutError, Failure, failure_of
from grain.worker.external import ExternalError, ending_programs, run_external
from grain.worker.jobs.program import (
    last_line,
    output_trouble,
    receipt_of_failure,
    with_trouble,
)
from grain.worker.jobs.run import (
    AttemptCall,
    AttemptEnd,
    JobError,
    JobFunction,
    JobMemoryError,
    NotRun,
    run_job,
)
from grain.worker.jobs.variables import submitted_variables
from grain.worker.messages import AskEnding, EndingTold, JobBegins, RunOver, StartRun
from grain.worker.messages import Ended as RunEnd
from grain.worker.processes.account import RunAccount, WorkerEnd
from grain_testkit.queue_disk import unreadable
from grain_testkit.small_disk import small_disk

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from grain.edge.channel import MemoryChannel
    from grain.worker.call import Outcome


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue.open(tmp_path / "queues" / "queue", make=True)


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a run look for wishes more often than each five seconds."""
    monkeypatch.setattr("grain.worker.jobs.run._LOOK", 0.1)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def submit(queue: Queue, work: Path, *command: str, **fields: Any) -> int:
    job = Job(
        name="opt",
        at=0.0,
        host="login1",
        user="ann",
        directory=str(work),
        command=command,
        environment={"PATH": os.environ["PATH"]},
    )
    return queue.submit(msgspec.structs.replace(job, **fields))


def call(queue: Queue, number: int, task: int | None = None, attempt: int = 1) -> AttemptCall:
    return AttemptCall(
        str(queue.folder), number, task, attempt, ticket=17, wishes=1, mission=queue.mission
    )


async def ran(queue: Queue, number: int, task: int | None = None, attempt: int = 1) -> Ended:
    """Run an attempt, and return the receipt of its end."""
    assert (await run_job(call(queue, number, task, attempt))).what == "ended"
    ended = queue.ended(number, task, attempt)
    assert ended is not None
    return ended


async def begun_at(path: Path) -> None:
    """Wait until a program has written to a file."""
    while not path.exists() or not path.read_text().endswith("\n"):
        await trio.sleep(0.02)


async def test_a_command_runs_in_its_directory_between_two_receipts(
    queue: Queue, work: Path
) -> None:
    number = submit(queue, work, "sh", "-c", "pwd; echo bad >&2; umask; exit 3", umask=0o027)
    ended = await ran(queue, number)
    assert (ended.how, ended.status) == ("exit", 3)
    assert ended.usage is not None
    assert (work / f"job-{number}.out").read_text() == f"{work}\nbad\n0027\n"
    begun = queue.begun(number, None, 1)
    assert begun is not None
    assert (begun.pid, begun.ticket) == (os.getpid(), 17)
    assert fate_of(begun, this_process()) == "runs"
    assert begun.machine == this_process().machine


async def test_what_tasks_have_in_common_is_not_what_they_and_attempts_have_of_their_own(
    queue: Queue, work: Path
) -> None:
    names = "$SLURM_ARRAY_TASK_ID $GRAIN_ARRAY_TASK_ID $SLURM_JOB_ID $SLURM_JOBID $GRAIN_ATTEMPT"
    array = ArraySpec(ranges=((4, 5, 1),))
    number = submit(queue, work, "sh", "-c", f"echo {names}", array=array, stdout="%a")
    for task, attempt in (4, 1), (5, 1), (4, 2), (5, 2):
        await ran(queue, number, task, attempt)
    for task in 4, 5:
        plain = plain_number(number, task)
        lines = "".join(f"{task} {task} {plain} {plain} {attempt}\n" for attempt in (1, 2))
        assert lines == (work / str(task)).read_text()


UNTIL_EXIT = "until [ -e EXIT ]; do sleep 0.02; done; echo stored; exit %d"


@pytest.mark.parametrize("code", [0, 2])
async def test_a_job_that_stops_softly_at_its_workers_end_is_handed_back(
    queue: Queue, work: Path, code: int
) -> None:
    end = WorkerEnd(lambda: None)
    GVAR.enter(ZERO, "w", None, RunAccount(ZERO, end=end))
    end.announce(math.inf, now=True)
    number = submit(queue, work, "sh", "-c", UNTIL_EXIT % code, warn="EXIT", warn_before=60.0)
    assert "returned" == (await run_job(call(queue, number))).what
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert ("returned", STOPPED_SOFTLY) == (ended.how, ended.message)
    assert "stopped" == ended.interruption
    assert "stored\n" == (work / f"job-{number}.out").read_text()
    assert not (work / "EXIT").exists()


@pytest.mark.parametrize(("code", "status"), [(0, 0), (2, 2)])
async def test_a_job_that_stops_softly_before_its_time_limit_ends_as_it_does(
    queue: Queue, work: Path, code: int, status: int
) -> None:
    number = submit(
        queue, work, "sh", "-c", UNTIL_EXIT % code, warn="EXIT", warn_before=59.0, timeout=60.0
    )
    ended = await ran(queue, number)
    assert ("exit", status) == (ended.how, ended.status)
    assert ("stopped softly" if code else "warned") + " before its time limit" in ended.message
    # What is wrong with its output does not hide that.
    assert with_trouble(ended, "full").message == f"{ended.message}; full"


async def test_the_file_of_a_warning_is_named_by_patterns_as_outputs_are(
    queue: Queue, work: Path
) -> None:
    script = "until [ -s EXIT-1_3.opt ]; do sleep 0.02; done; cat EXIT*"
    number = submit(
        queue, work, "sh", "-c", script, warn="EXIT-%A_%a.%x", warn_before=59.0, timeout=60.0,
        array=ArraySpec(ranges=((3, 3, 1),)), stdout="out",
    )  # fmt: skip
    assert "exit" == (await ran(queue, number, 3)).how
    # So that no other job removes it.
    assert "grain warns queue:1_3\n" == (work / "out").read_text()


LIMITED = Wish(what="update", jobs=((1, 1),), update=JobUpdate(timeout=0.1))


@pytest.mark.parametrize("wish", [LIMITED, Wish(what="hold", jobs=((1, 1),))])
async def test_what_was_asked_since_it_was_handed_out_has_an_attempt_come_again(
    queue: Queue, work: Path, wish: Wish
) -> None:
    number = submit(queue, work, "touch", "ran")
    queue.wish(wish)
    assert ("not begun", True) == (await run_job(call(queue, number)))[:3:2]
    assert queue.begun(number, None, 1) is None
    seen = call(queue, number)._replace(wishes=2)
    assert "ended" == (await run_job(seen)).what


@pytest.mark.parametrize("wish", [LIMITED, Wish(what="hold", jobs=((1, 1),))])
async def test_what_is_asked_as_an_attempt_begins_has_it_handed_back_before_its_program_runs(
    queue: Queue, work: Path, wish: Wish, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = LocalDisk.note

    def asks(disk: LocalDisk, text: bytes, name: str) -> None:
        if name.endswith(".begun"):
            queue.wish(wish)
        note(disk, text, name)

    monkeypatch.setattr(LocalDisk, "note", asks)
    number = submit(queue, work, "touch", "ran", requeue=False)
    assert "returned" == (await run_job(call(queue, number))).what
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert ("returned", 0.0) == (ended.how, ended.elapsed)
    assert not (work / "ran").exists()
    # That was not its one run.
    book = Book.read(queue)
    assert ("PENDING", 2) == book.standing(number, None, 0.0)[:3:2]


@pytest.mark.parametrize("limit", [0.0, 1000.0])
async def test_a_time_limit_that_becomes_shorter_ends_what_runs(
    queue: Queue, work: Path, limit: float
) -> None:
    number = submit(queue, work, "sh", "-c", "echo > ran; sleep 1000", timeout=limit)

    async def ask() -> None:
        await begun_at(work / "ran")
        queue.wish(msgspec.structs.replace(LIMITED, update=JobUpdate(timeout=2000.0)))
        queue.wish(LIMITED)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        ended = await ran(queue, number)
    assert ("timeout", "ended at its time limit of 0.1 s") == (ended.how, ended.message)


async def test_what_cannot_end_by_its_deadline_does_not_begin(queue: Queue, work: Path) -> None:
    late = submit(queue, work, "true", deadline=time.time() + 1e6, timeout=1.1e6)
    soon = submit(queue, work, "true", deadline=time.time() + 50.0)
    for number in late, soon:
        assert ("not begun", True) == (await run_job(call(queue, number)))[:3:2]
        assert queue.begun(number, None, 1) is None
    assert "ended" == (await run_job(call(queue, late)._replace(timeout=1e5))).what


async def test_what_a_script_uses_is_noted_while_it_runs(
    queue: Queue, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grain.worker.jobs.run._MEASURE", 0.05)
    number = submit(queue, work, "sh", "-c", "until [ -e go ]; do sleep 0.02; done")

    async def see() -> None:
        while not (found := steps_of(queue, number, None, 1)):
            await trio.sleep(0.02)
        assert (SCRIPT, "batch", 0.0) == (found[0].step, found[0].name, found[0].ended)
        assert 0 < found[0].memory < 1
        (work / "go").touch()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(see)
        assert 0 == (await ran(queue, number)).status


@pytest.mark.parametrize(
    ("reason", "warned", "message"),
    [
        ("ended after its time limit of 2 s", "", "ended at its time limit of 3 s"),
        (
            "ended after its time limit of 2 s; it could not be warned: no room",
            "",
            "ended at its time limit of 3 s; it could not be warned: no room",
        ),
        ("ended at once by the warning SIGTERM", "time", "ended at once by the warning SIGTERM"),
    ],
)
def test_a_job_says_what_became_of_its_warning(
    reason: str, warned: Literal["", "time"], message: str
) -> None:
    error = ExternalTimeoutError(Failure(("sleep",), "n1", reason=reason, warned=warned))
    ended = receipt_of_failure(error, 3.0, 0.0)
    assert ("timeout", message) == (ended.how, ended.message)


async def test_the_limit_with_which_an_attempt_was_handed_out_counts(
    queue: Queue, work: Path
) -> None:
    number = submit(queue, work, "sleep", "1000", timeout=2000.0)
    what = call(queue, number)._replace(timeout=0.1)
    await run_job(what)
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert ("timeout", "ended at its time limit of 0.1 s") == (ended.how, ended.message)


async def test_the_receipt_of_the_begin_has_the_cpus_of_all_members(
    queue: Queue, work: Path
) -> None:
    nodes = [
        Member(f"w{k}", f"n{k}", res, "10.0.0.1")
        for k, res in enumerate((Cores([0]), Cores([1, 2])), 1)
    ]
    number = submit(queue, work, "true")
    with GVAR.scope(RootAllocation(Cores([0]), nodes)):
        await ran(queue, number)
    begun = queue.begun(number, None, 1)
    assert begun is not None
    assert (("n2",), 3) == (begun.others, begun.cpus)


async def test_the_receipt_of_the_begin_has_the_mark_of_all_that_the_attempt_starts(
    queue: Queue, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAIN_SUBREAPERS", "outer:inner:")
    number = submit(queue, work, "true")
    await ran(queue, number)
    begun = queue.begun(number, None, 1)
    assert begun is not None
    assert begun.mark == "inner:"


async def test_the_receipt_of_the_begin_names_the_batch_job_of_the_worker(
    queue: Queue, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    number = submit(queue, work, "true")
    await ran(queue, number)
    begun = queue.begun(number, None, 1)
    assert begun is not None
    assert (begun.batch_system, begun.batch_job) == ("slurm", "8")


async def test_a_script_is_run_as_it_was_when_it_was_submitted(queue: Queue, work: Path) -> None:
    script = '#!/bin/sh\necho "$1" "$GRAIN_JOB_ID" "$SLURM_ARRAY_TASK_ID"\n'
    number = submit(
        queue, work, "word", script=script, script_name="run.sh",
        array=ArraySpec(ranges=((0, 5, 1),)), stdout="out-%A-%3a",
    )  # fmt: skip
    await ran(queue, number, 4)
    assert (work / f"out-{number}-004").read_text() == f"word {number} 4\n"


async def test_a_task_of_an_array_has_its_own_words(queue: Queue, work: Path) -> None:
    job = Job(
        name="opt", at=0.0, host="login1", user="ann", directory=str(work), command=("echo", "{}"),
        array=ArraySpec(ranges=((2, 3, 1),)), stdout="%a",
        environment={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    words = ("sh", "-c", 'printf "%s|" "$@" "$GRAIN_ENTRY"', "sh")
    inputs = [
        TaskInput("b\nc", ("b", "c"), (*words, "b", "{}")),
        TaskInput("ü\udcff", ("ü",), (*words, "ü\udcff")),
    ]
    number = queue.submit(job, inputs=b"\n" + b"".join(one.line() for one in inputs))
    await ran(queue, number, 2)
    await ran(queue, number, 3)
    assert (work / "2").read_text() == "b|{}|b\nc|"
    assert (work / "3").read_bytes() == b"\xc3\xbc\xff|\xc3\xbc\xff|"


@pytest.mark.parametrize("pattern", ["in.%a", "%3a", "%x", "%A"])
async def test_names_of_files_to_read_have_symbols(queue: Queue, work: Path, pattern: str) -> None:
    for name in ("in.2", "002", "cat", "1"):
        (work / name).write_text(f"{name}\n")
    one = ArraySpec(ranges=((2, 2, 1),))
    number = submit(queue, work, "cat", array=one, stdin=pattern, stdout="out", name="cat")
    await ran(queue, number, 2)
    expected = {"in.%a": "in.2", "%3a": "002", "%x": "cat", "%A": str(number)}
    assert f"{expected[pattern]}\n" == (work / "out").read_text()


async def test_a_file_that_is_not_there_is_named_without_symbols(queue: Queue, work: Path) -> None:
    one = ArraySpec(ranges=((2, 2, 1),))
    number = submit(queue, work, "cat", array=one, stdin="in.%a")
    assert f"cannot read stdin from {work / 'in.2'}" in (await ran(queue, number, 2)).message


async def test_a_task_without_its_input_says_so(queue: Queue, work: Path) -> None:
    number = submit(queue, work, "true", array=ArraySpec(ranges=((1, 2, 1),)))
    job = msgspec.structs.replace(queue.job(number), inputs_blob="0" * 64)
    number = queue.submit(job)
    (queue.folder / "blobs" / job.inputs_blob).write_text('["a"]\n')

    for task in (1, 2):
        ended = await ran(queue, number, task)
        assert (ended.how, ended.status) == ("start", 127)
        assert f"the input of task {task} cannot be read" in ended.message


async def test_an_attempt_begins_once(queue: Queue, work: Path) -> None:
    number = submit(queue, work, "sh", "-c", "echo x >> began")
    await ran(queue, number)
    assert await run_job(call(queue, number)) == AttemptEnd("taken")
    assert (work / "began").read_text() == "x\n"


async def test_what_was_cancelled_before_never_begins(queue: Queue, work: Path) -> None:
    number = submit(queue, work, "touch", "began")
    queue.cancel_waiting(number, [(None, 1)], Begun(at=0.0, host="login1", cancelled="ann"))
    assert await run_job(call(queue, number)) == AttemptEnd("taken")
    assert not (work / "began").exists()


async def test_the_second_attempt_appends_to_the_output_of_the_first(
    queue: Queue, work: Path
) -> None:
    number = submit(queue, work, "sh", "-c", "echo $GRAIN_ATTEMPT; echo err >&2", stderr="err")
    await ran(queue, number)
    await ran(queue, number, attempt=2)
    assert (work / f"job-{number}.out").read_text() == "1\n2\n"
    assert (work / "err").read_text() == "err\nerr\n"


async def test_tasks_that_share_an_output_lose_nothing_of_it(queue: Queue, work: Path) -> None:
    (work / "all").write_text("before\n")
    (work / "err-1").write_text("before\n")
    count = 6
    line = "echo out $GRAIN_ARRAY_TASK_ID; echo err >&2; echo end $GRAIN_ARRAY_TASK_ID"
    number = submit(
        queue, work, "sh", "-c", line, array=ArraySpec(ranges=((1, count, 1),)), stdout="all",
        stderr="err-%a",
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        for task in range(1, count + 1):
            nursery.start_soon(ran, queue, number, task)
    written = [f"{word} {task}" for task in range(1, count + 1) for word in ("out", "end")]
    assert sorted(["before", *written]) == sorted((work / "all").read_text().splitlines())
    assert "err\n" == (work / "err-1").read_text()


@pytest.mark.parametrize(("wished", "how"), [(False, "returned"), (True, "cancelled")])
async def test_a_run_that_is_cancelled_is_handed_back_unless_a_user_wants_it_so(
    queue: Queue, work: Path, wished: bool, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grain.worker.jobs.run._LOOK", 1000.0)  # the scheduler was faster
    number = submit(queue, work, "sh", "-c", "echo began > began; exec sleep 1000")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_job, call(queue, number))
        await begun_at(work / "began")
        if wished:
            queue.wish(Wish(what="cancel", jobs=((number, number),)))
        nursery.cancel_scope.cancel()
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert ended.how == how


async def test_a_run_that_was_ended_for_its_nodes_memory_may_run_again_as_a_lost_one(
    queue: Queue, work: Path
) -> None:
    account = RunAccount(ZERO)
    GVAR.enter(ZERO, "w", None, account)
    number = submit(queue, work, "sh", "-c", "echo began > began; exec sleep 1000")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_job, call(queue, number))
        await begun_at(work / "began")
        account.short = "it had 9 GB"
        nursery.cancel_scope.cancel()
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert ("lost", "it had 9 GB", "short") == (ended.how, ended.message, ended.interruption)


async def test_an_end_that_cannot_be_noted_is_tried_again_and_the_output_says_it_once(
    queue: Queue, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note, tries = LocalDisk.note, count()

    def fails(disk: LocalDisk, text: bytes, name: str) -> None:
        if name.endswith(".ended") and next(tries) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        note(disk, text, name)

    monkeypatch.setattr(LocalDisk, "note", fails)
    monkeypatch.setattr("grain.worker.jobs.run._RETRY", 0.01)
    # The output fills the disk that has the queue, until a user makes room.
    full = iter(["there is no room for its output"])
    monkeypatch.setattr(
        "grain.worker.jobs.run.output_trouble", lambda _, failed: next(full, "") if failed else ""
    )
    number = submit(queue, work, "sleep", "1000", timeout=0.2)
    ended = await ran(queue, number)
    assert ("timeout", 4) == (ended.how, next(tries))
    assert ended.message.endswith("there is no room for its output")
    assert 1 == (work / f"job-{number}.out").read_text().count("DUE TO TIME LIMIT")


async def test_a_begin_that_the_disk_does_not_confirm_is_handed_back(
    queue: Queue, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = submit(queue, work, "touch", "began")
    sync, fails = LocalDisk.sync, [True]

    def sometimes(disk: LocalDisk, folder: str) -> None:
        if folder.startswith("attempts/") and fails:
            fails.clear()
            raise OSError(errno.EIO, "an error")
        sync(disk, folder)

    monkeypatch.setattr(LocalDisk, "sync", sometimes)
    assert "returned" == (await run_job(call(queue, number))).what
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert ("returned", False) == (ended.how, (work / "began").exists())


async def test_a_queue_that_cannot_be_read_for_now_is_tried_again(queue: Queue, work: Path) -> None:
    number = submit(queue, work, "true")
    with unreadable(f"jobs/0/{number}"):
        end = await run_job(call(queue, number))
    assert ("not begun", True) == (end.what, end.passing)


@pytest.mark.parametrize("wish", [{"what": "cancel"}, {"what": "again", "attempt": 2}])
async def test_a_wish_ends_a_run_without_any_scheduler(
    queue: Queue, work: Path, wish: dict[str, Any]
) -> None:
    number = submit(queue, work, "sh", "-c", "echo began > began; exec sleep 1000")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_job, call(queue, number))
        await begun_at(work / "began")
        queue.wish(Wish(**wish, jobs=((number, number),), by="ann", why="wrong basis"))
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert (ended.how, ended.by, ended.message) == ("cancelled", "ann", "wrong basis")


@pytest.mark.parametrize(
    ("fields", "how"),
    [
        ({"timeout": 0.5}, ("timeout", 0, signal.SIGTERM)),
        ({"command": ("sh", "-c", "kill -SEGV $$")}, ("signal", 0, signal.SIGSEGV)),
        ({"command": ("no-such-program",)}, ("start", 127, 0)),
        ({"stdin": "missing"}, ("start", 127, 0)),
    ],
)
async def test_the_receipt_says_how_it_ended(
    queue: Queue, work: Path, fields: dict[str, Any], how: tuple[str, int, int]
) -> None:
    number = submit(queue, work, **{"command": ("sleep", "1000"), **fields})
    ended = await ran(queue, number)
    assert (ended.how, ended.status, ended.signal) == how


@pytest.mark.parametrize("ended_by", ["its time limit", "a wish", "its worker"])
async def test_the_end_of_the_script_is_the_result_whatever_it_left_behind(
    queue: Queue, work: Path, ended_by: str, mock_clock: trio.testing.MockClock
) -> None:
    """What is left goes on after SIGTERM, until it is let go; meanwhile the run is to end."""
    script = """#!/bin/sh
setsid sh -c 'trap "echo told >told" TERM; echo >there; until test -e go; do sleep 0.02; done' &
until test -e there; do sleep 0.02; done
"""
    number = submit(queue, work, script=script, timeout=100.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_job, call(queue, number))
        while not (work / "told").exists():
            await trio.to_thread.run_sync(time.sleep, 0.01)
        if ended_by == "a wish":
            queue.wish(Wish(what="cancel", jobs=((number, number),), by="ann"))
            mock_clock.jump(10)  # to the next look
        elif ended_by == "its worker":
            nursery.cancel_scope.cancel()
        else:
            mock_clock.jump(101)
        with trio.CancelScope(shield=True):
            while not ending_programs():
                await trio.to_thread.run_sync(time.sleep, 0.01)
            let_go = time.time()
            (work / "go").touch()
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert (ended.how, ended.status) == ("exit", 0)
    assert ended.at < let_go


async def test_the_output_of_a_run_that_was_ended_says_so_in_the_words_of_slurm(
    queue: Queue, work: Path
) -> None:
    late = submit(queue, work, "sleep", "1000", timeout=0.5, stderr="err")
    await ran(queue, late)
    command = ("sh", "-c", "echo out; echo began > began; exec sleep 1000")
    array = ArraySpec(ranges=((2, 2, 1),))
    cancelled = submit(queue, work, *command, array=array, stdout="cancelled")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_job, call(queue, cancelled, 2))
        await begun_at(work / "began")
        queue.wish(Wish(what="cancel", jobs=((cancelled, cancelled),), by="ann"))
    line = r"grain: error: \*\*\* JOB {} ON [^ .]+ CANCELLED AT [\dT:-]{{19}}{} \*\*\*\n"
    assert (work / f"job-{late}.out").read_text() == ""
    assert re.fullmatch(line.format(late, " DUE TO TIME LIMIT"), (work / "err").read_text())
    plain = plain_number(cancelled, 2)
    assert re.fullmatch("out\n" + line.format(plain, ""), (work / "cancelled").read_text())


def test_the_output_says_that_memory_ran_out_and_nothing_of_other_ends() -> None:
    ended = [Ended(how=how, at=0.0) for how in ("memory", "exit", "signal", "start", "returned")]
    ran_out = (
        "grain: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks have "
        "been OOM Killed.\n"
    )
    assert [last_line(one, 7, "n1") for one in ended] == [ran_out, "", "", "", ""]
    by_grain = Ended(how="memory", at=0.0, message="used 2 GB of 1 and was ended")
    why = "grain: error: used 2 GB of 1 and was ended\n"
    assert last_line(by_grain, 7, "n1") == why + ran_out
    again = last_line(Ended(how="cancelled", at=0.0), 7, "n1", again=True)
    assert again.endswith(" DUE TO JOB REQUEUE ***\n")


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (Ended(how="exit", at=0.0), "it is full"),
        (Ended(how="exit", at=0.0, status=3), "exit status 3; it is full"),
        (Ended(how="signal", at=0.0, signal=11), "SIGSEGV; it is full"),
        (Ended(how="timeout", at=0.0, message="at its limit"), "at its limit; it is full"),
        (Ended(how="cancelled", at=0.0, message="wrong basis"), "wrong basis"),
        (Ended(how="start", at=0.0, message="no such file"), "no such file"),
        (Ended(how="returned", at=0.0), ""),
    ],
)
def test_a_full_disk_is_said_beside_the_end_of_a_program_and_in_place_of_no_reason(
    ended: Ended, said: str
) -> None:
    assert said == with_trouble(ended, "it is full").message
    assert ended == with_trouble(ended, "")


async def test_a_named_pipe_that_no_process_reads_does_not_hold_up_the_end(
    queue: Queue, work: Path
) -> None:
    os.mkfifo(work / "err")
    reader = os.open(work / "err", os.O_RDONLY | os.O_NONBLOCK)
    number = submit(queue, work, "sh", "-c", "echo x > began; exec sleep 99", stderr="err")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_job, call(queue, number))
        await begun_at(work / "began")
        os.close(reader)
        queue.wish(Wish(what="cancel", jobs=((number, number),), by="ann"))
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert ended.how == "cancelled"


@pytest.mark.parametrize(
    ("fields", "message", "words"),
    [
        ({"command": ("sh", "-c", "exit 3")}, "^sh: exit code 3$", "exit 3: sh"),
        (
            {"command": ("sh", "-c", "echo no such basis >&2; echo cleaned >&2; exit 3")},
            "^sh: exit code 3: no such basis$", "exit 3: no such basis",
        ),
        ({"command": ("sh", "-c", "kill -11 $$")}, "^sh: ended by signal SIGSEGV$", "SIGSEGV: sh"),
        ({"timeout": 0.5}, "ended at its time limit of 0.5 s", "JobError: ended at its time"),
        ({"stdin": "missing"}, "missing: No such file", "JobError: "),
    ],
)  # fmt: skip
async def test_a_job_without_success_is_a_call_that_raises(
    queue: Queue, work: Path, fields: dict[str, Any], message: str, words: str
) -> None:
    number = submit(queue, work, **{"command": ("sleep", "1000"), **fields})
    with pytest.raises(JobError, match=message) as raised:
        await JobFunction("opt")(call(queue, number))
    assert failure_of(raised.value).words().startswith(words)
    assert queue.ended(number, None, 1) is not None


async def test_a_job_that_succeeds_is_one_call_that_returns_and_others_raise(
    queue: Queue, work: Path
) -> None:
    number = submit(queue, work, "true")
    await JobFunction("opt")(call(queue, number))
    with pytest.raises(NotRun, match="another worker has begun it"):
        await JobFunction("opt")(call(queue, number))


@asynccontextmanager
async def runner(
    told_at: float = math.inf,
) -> AsyncGenerator[MemoryChannel[Call | None, Outcome | None]]:
    """A runner that asks its agent, which is the test.

    Args:
        told_at: when a batch system tells its process to end.
    """
    agent: MemoryChannel[Call | None, Outcome | None]
    theirs: MemoryChannel[Outcome | None, Call | None]
    agent, theirs = memory_channels()
    serves = Runner("w", theirs, MemoryTranslation(), interruptible=False, told_at=lambda: told_at)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serves.serve)
        yield agent
        nursery.cancel_scope.cancel()


async def start(
    agent: MemoryChannel[Call | None, Outcome | None],
    queue: Queue,
    number: int,
    fn: Callable[[AttemptCall], Awaitable[Any]] | None = None,
) -> None:
    """Have a runner run a job, of which it first tells what it is about to begin."""
    agent.post(
        [(StartRun((1, 1), ZERO), Call(fn or JobFunction("opt"), (call(queue, number),), {}))]
    )
    begins = JobBegins((1, 1), str(queue.folder), number, None, 1)
    assert [(begins, None)] == await agent.receive()


@pytest.mark.parametrize(
    ("does", "signal_told", "how"),
    [
        ("kill -TERM $$", signal.SIGTERM, "signal"),
        ("kill -USR2 $$", signal.SIGUSR2, "signal"),
        ("sh -c 'kill -TERM $$'; exit $?", signal.SIGTERM, "exit"),
        ("exit 1", 0, "exit"),
    ],
)
@pytest.mark.parametrize("ends", [False, True])
async def test_a_program_that_is_ended_together_with_its_worker_has_not_failed(
    queue: Queue, work: Path, does: str, signal_told: int, how: str, ends: bool
) -> None:
    """Only the agent knows, so the runner asks it before there is a receipt."""
    number = submit(queue, work, "sh", "-c", does)
    async with runner() as agent:
        await start(agent, queue, number)
        assert [(AskEnding((1, 1), signal_told), None)] == await agent.receive()
        assert queue.ended(number, None, 1) is None
        agent.post([(EndingTold((1, 1), ends), None)])
        # The call asks as well, as every call that raises.
        assert [(AskEnding((1, 1), 0), None)] == await agent.receive()
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert ended.how == ("returned" if ends else how)


@pytest.mark.parametrize("ends", [False, True])
async def test_a_program_that_ends_well_when_it_is_told_to_has_not_ended(
    queue: Queue, work: Path, ends: bool
) -> None:
    number = submit(queue, work, "true")
    async with runner(told_at=time.monotonic()) as agent:
        await start(agent, queue, number)
        assert [(AskEnding((1, 1), signal.SIGTERM), None)] == await agent.receive()
        assert queue.ended(number, None, 1) is None
        agent.post([(EndingTold((1, 1), ends), None)])
        if not ends:
            assert [(RunOver((1, 1)), None)] == await agent.receive()
        # The runner asks as well: a call that was handed back raises.
        assert [(AskEnding((1, 1), 0 if ends else signal.SIGTERM), None)] == await agent.receive()
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert (ended.how, ended.status) == ("returned" if ends else "exit", 0)


async def test_a_program_that_has_ended_well_asks_nobody_before_it_is_told_to_end(
    queue: Queue, work: Path
) -> None:
    number = submit(queue, work, "true")
    async with runner(told_at=time.monotonic() + 1000) as agent:
        await start(agent, queue, number)
        assert [(RunOver((1, 1)), None)] == await agent.receive()
        ((ended, _),) = await agent.receive()
        assert isinstance(ended, RunEnd)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_job_that_has_succeeded_is_over_before_the_disk_has_its_end(
    queue: Queue, work: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """The place of one that has failed is judged by its end."""
    monkeypatch.setattr("grain.worker.jobs.run._RETRY", 0.01)
    away, attempts = queue.folder / "away", queue.folder / "live" / "attempts-0"
    number = submit(queue, work, "sh", "-c", f"mv {attempts} {away}; exit {int(fails)}")
    async with runner() as agent:
        await start(agent, queue, number)
        if fails:
            while not away.exists():
                await trio.sleep(0.01)
        else:
            assert [(RunOver((1, 1)), None)] == await agent.receive()
        away.rename(attempts)
        messages = [one for one, _ in await agent.receive()]
        while isinstance(messages[-1], AskEnding):
            agent.post([(EndingTold((1, 1), False), None)])
            messages += [one for one, _ in await agent.receive()]
    assert [RunEnd] == [type(one) for one in messages if not isinstance(one, AskEnding)]
    assert queue.ended(number, None, 1) is not None


@pytest.mark.parametrize("fields", [{"timeout": 0.5}, {"stdin": "missing"}])
async def test_a_job_that_says_itself_what_was_wrong_asks_nobody(
    queue: Queue, work: Path, fields: dict[str, Any]
) -> None:
    number = submit(queue, work, "sleep", "1000", **fields)
    async with runner() as agent:
        await start(agent, queue, number, run_job)
        ((ended, _),) = await agent.receive()
        assert isinstance(ended, RunEnd)


async def test_a_directory_that_was_removed_is_not_made_again(queue: Queue, work: Path) -> None:
    number = submit(queue, work, "true", stdout="out/log")
    shutil.rmtree(work)
    ended = await ran(queue, number)
    assert (ended.how, ended.status) == ("start", 127)
    assert ended.message == f"its directory {work} is not there on {socket.gethostname()}"
    assert not work.exists()


async def test_what_cannot_be_a_program_has_failed_and_is_not_handed_back(
    queue: Queue, work: Path
) -> None:
    job = Job(
        name="opt", at=0.0, host="login1", user="ann", directory=str(work),
        command=("echo", "{}"), array=ArraySpec(ranges=((1, 1, 1),)),
        environment={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    number = queue.submit(job, inputs=TaskInput("a\0b", ("a\0b",), ("echo", "a\0b")).line())
    ended = await ran(queue, number, 1)
    assert (ended.how, ended.status) == ("start", 127)
    assert ended.message.startswith("it cannot be run: a null character in the arguments")


async def test_a_program_that_the_worker_cannot_start_has_failed(
    queue: Queue, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("grain.worker.jobs.run.run_program_call", fails)
    ended = await ran(queue, submit(queue, work, "true"))
    assert (ended.how, ended.status) == ("start", 127)
    assert ended.message == "it cannot be run: can't start new thread"


async def test_an_attempt_whose_script_cannot_be_written_has_not_begun(
    queue: Queue, work: Path
) -> None:
    number = submit(queue, work, script="#!/bin/sh\necho x\n", script_name="run.sh")
    # As on a full disk, of the blobs only.
    (queue.folder / "blobs").rmdir()
    (queue.folder / "blobs").touch()
    end = await run_job(call(queue, number))
    assert end.what == "not begun"
    assert queue.begun(number, None, 1) is None
    (queue.folder / "blobs").unlink()
    (queue.folder / "blobs").mkdir()
    ended = await ran(queue, number)
    assert (ended.how, ended.status) == ("exit", 0)


async def test_a_script_that_is_not_safe_on_the_disk_does_not_end_an_attempt(
    queue: Queue, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = submit(queue, work, script="#!/bin/sh\necho x\n", script_name="run.sh")
    sync = LocalDisk.sync

    def fails(disk: LocalDisk, folder: str) -> None:
        if folder == "blobs":
            raise OSError(errno.EIO, "an error")
        sync(disk, folder)

    monkeypatch.setattr(LocalDisk, "sync", fails)
    end = await run_job(call(queue, number))
    assert (end.what, end.passing) == ("not begun", True)
    assert queue.ended(number, None, 1) is None


async def test_what_a_job_lacks_is_named_without_the_shell_around_it(
    queue: Queue, work: Path
) -> None:
    (work / "folder").mkdir()
    for fields, message in (
        ({"stdout": "folder"}, f"cannot write stdout to {work}/folder: Is a directory"),
        ({"stdin": "none"}, f"cannot read stdin from {work}/none: No such file or directory"),
        ({"stdout": "x" * 300}, f"cannot write stdout to {work}/{'x' * 300}: File name too long"),
        ({"script": "#! /no/such/sh -e\n"}, "its interpreter /no/such/sh is not there on "),
    ):
        ended = await ran(queue, submit(queue, work, "true", **fields))
        assert (ended.how, ended.status) == ("start", 127)
        assert ended.message.startswith(message)


async def test_the_output_says_why_a_script_could_not_be_started(queue: Queue, work: Path) -> None:
    ended = await ran(queue, submit(queue, work, script="#!/no/such/sh\n", stdout="out"))
    assert ended.message
    assert f"grain: error: {ended.message}\n" == (work / "out").read_text()


@pytest.mark.parametrize("there", [True, False])
async def test_what_a_job_reads_is_not_changed_where_it_is_its_output_too(
    queue: Queue, work: Path, there: bool
) -> None:
    (work / "again").symlink_to("data")
    if there:
        (work / "data").write_text("kept\n")
        os.link(work / "data", work / "other")
    for fields in (
        {"stdout": "data"},
        {"stdout": "again"},
        {"stdout": "other" if there else "data"},
        {"stdout": "out", "stderr": "again"},
        {"stdout": "data", "stderr": "err"},
    ):
        number = submit(queue, work, "sed", "p", stdin="data", **fields)
        for attempt in (1, 2):
            ended = await ran(queue, number, attempt=attempt)
            assert ("start", 127) == (ended.how, ended.status)
            assert "the program reads it" in ended.message
    assert there == (work / "data").exists()
    assert not there or "kept\n" == (work / "data").read_text()
    assert "cannot write to" in (work / "err").read_text()
    if there:  # who asks for it gets it
        asked = submit(queue, work, "head", "-n1", stdin="data", stdout="data", append=True)
        assert ("exit", 0) == ((ended := await ran(queue, asked)).how, ended.status)
        assert "kept\nkept\n" == (work / "data").read_text()
    same = submit(queue, work, "cat", stdin="/dev/null", stdout="/dev/null")
    assert ("exit", 0) == ((ended := await ran(queue, same)).how, ended.status)


async def test_a_script_that_was_removed_from_the_queue_is_named(queue: Queue, work: Path) -> None:
    number = submit(queue, work, script="#!/bin/sh\n" + "true\n" * 20_000)
    [blob] = (queue.folder / "blobs").iterdir()
    blob.unlink()
    ended = await ran(queue, number)
    assert (ended.how, ended.message) == ("start", f"{blob}: No such file or directory")


async def test_an_interpreter_with_options_or_none_is_no_obstacle(queue: Queue, work: Path) -> None:
    for script in ("#!/bin/sh -e\ntrue\n", "#! /usr/bin/env sh\ntrue\n"):
        ended = await ran(queue, submit(queue, work, script=script))
        assert (ended.how, ended.status) == ("exit", 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives links to others")
@pytest.mark.parametrize("append", [True, False])
async def test_outputs_go_through_no_link_of_another_user(
    queue: Queue, work: Path, tmp_path: Path, append: bool
) -> None:
    """Tried: Plant the output of a job, or of `grain map`, as a link to a file of the user's.
    Result: refused, neither emptied nor appended to.
    """
    own = tmp_path / "thesis"
    own.write_text("whole")
    (work / "planted").symlink_to(own)
    (work / "ours").symlink_to("planted")
    os.chown(work / "planted", 54321, 54321, follow_symlinks=False)
    for fields in ({"stdout": "planted"}, {"stderr": "planted"}, {"stdout": "ours"}):
        number = submit(queue, work, "touch", "began", append=append, **fields)
        ended = await ran(queue, number)
        assert ("start", 127) == (ended.how, ended.status)
        assert ended.message.startswith(f"cannot write to {work}/planted: another user has made")
    assert "whole" == own.read_text()
    assert not (work / "began").exists()
    with pytest.raises(ExternalError, match="another user has made this link"):
        await run_external(["echo"], cwd=work, stdout="planted")
    # The last line of a job that was ended, too.
    line = "rm out; ln -s thesis out; chown -h 54321 out; echo x > began; exec sleep 1000"
    number = submit(queue, work, "sh", "-c", line, stdout="out", append=append)
    (work / "thesis").touch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_job, call(queue, number))
        await begun_at(work / "began")
        queue.wish(Wish(what="cancel", jobs=((number, number),), by="ann"))
    assert "" == (work / "thesis").read_text()


@pytest.mark.parametrize("limits", [{}, {"NOFILE": 99}])
async def test_outputs_go_through_links_of_the_user_and_to_devices(
    queue: Queue, work: Path, tmp_path: Path, limits: dict[str, int]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (work / "b").symlink_to(tmp_path / "elsewhere/out")
    (work / "a").symlink_to("b")
    number = submit(
        queue, work, "sh", "-c", "echo x; echo e >&2", stdout="a", stderr="/dev/null",
        limits=limits,
    )  # fmt: skip
    assert (await ran(queue, number)).how == "exit"
    assert "x\n" == (tmp_path / "elsewhere/out").read_text()
    (work / "loop").symlink_to("loop")
    ended = await ran(queue, submit(queue, work, "true", stdout="loop"))
    assert f"cannot write stdout to {work}/loop: Too many levels of symbolic" in ended.message


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("head -c 999999 /dev/zero", ("exit", 1, "exit status 1; ")),
        ("head -c 999999 /dev/zero; true", ("exit", 0, "")),
        ("head -c 999999 /dev/zero; kill -USR1 $$", ("signal", 0, "SIGUSR1; ")),
    ],
)
async def test_a_job_whose_output_has_no_room_says_so(
    queue: Queue, work: Path, line: str, how: tuple[str, int, str]
) -> None:
    with small_disk("64k") as disk:
        number = submit(queue, work, "sh", "-c", line, stdout=str(disk / "out"), stderr="err")
        end = await run_job(call(queue, number))
        ended = queue.ended(number, None, 1)
        assert ended is not None
        message = f"{how[2]}the disk of its output {disk}/out is full"
    assert (how[0], how[1], message) == (ended.how, ended.status, ended.message)
    # Displays have the line of the program that says so, or else the same message.
    said = "" if end.failure is None else end.failure.message
    assert bool(how[2]) == bool(said)
    assert not how[2] or said == message or "No space left on device" in said


@pytest.mark.parametrize(("status", "failed"), [(0, False), (3, True)])
async def test_a_quota_is_looked_for_after_a_failure_only(
    queue: Queue, work: Path, monkeypatch: pytest.MonkeyPatch, status: int, failed: bool
) -> None:
    asked: list[tuple[list[Path], bool]] = []

    def trouble(outputs: list[Path], *, failed: bool) -> str:
        asked.append((outputs, failed))
        return "trouble" * failed

    monkeypatch.setattr("grain.worker.jobs.run.output_trouble", trouble)
    number = submit(queue, work, "sh", "-c", f"exit {status}", stderr="err")
    ended = await ran(queue, number)
    assert [([work / f"job-{number}.out", work / "err"], failed)] == asked
    assert ("exit status 3; trouble" if failed else "") == ended.message


async def test_the_scratch_directory_of_an_outer_job_is_not_given_to_an_inner_one(
    queue: Queue, work: Path
) -> None:
    number = submit(queue, work, "env", "-0", scratch=True)
    assert (await ran(queue, number)).how == "exit"
    lines = (work / f"job-{number}.out").read_text().split("\0")
    outer = dict(line.split("=", 1) for line in lines if line)
    assert "TMPDIR" in outer
    inner = msgspec.structs.replace(queue.job(number), environment=outer)
    assert "TMPDIR" not in submitted_variables(inner)


def test_a_quota_is_found_where_a_program_has_failed(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "out").touch()

    def refused(_: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr("grain.worker.jobs.program.os.fsync", refused)
    text = f"there is no room for its output {work}/out: Disk quota exceeded"
    assert text == output_trouble([work / "none", work / "out"], failed=True)
    assert "" == output_trouble([work / "out", Path("/dev/full")], failed=False)
    assert ["out"] == [one.name for one in work.iterdir()]


async def test_outputs_may_be_in_directories_that_are_made(queue: Queue, work: Path) -> None:
    number = submit(queue, work, "echo", "x", stdout="out/%x/%j")
    await ran(queue, number)
    assert (work / "out" / "opt" / str(number)).read_text() == "x\n"


async def test_the_environment_arrives_with_what_sh_would_lose(queue: Queue, work: Path) -> None:
    shell = {
        "PATH": os.environ["PATH"],
        "BASH_FUNC_module%%": "() {  echo loaded $1\n}",
        "my.var": "1",
        "\udcff": "\udcfe",
    }
    script = "#!/bin/bash\nmodule xtb\nenv\n"
    for attempt in (1, 2):
        number = submit(queue, work, script=script, environment=shell, append=attempt == 2)
        ended = await ran(queue, number)
        assert (ended.how, ended.status) == ("exit", 0)
        lines = (work / f"job-{number}.out").read_bytes().split(b"\n")
        assert {b"loaded xtb", b"my.var=1", b"\xff=\xfe"} <= {*lines}


async def test_outputs_and_their_directories_have_the_umask_of_the_shell(
    queue: Queue, work: Path
) -> None:
    for umask in (0o007, 0o022, 0o077):
        number = submit(
            queue, work, "touch", f"{umask:o}.made", umask=umask, stdout="%j/out", stderr="%j/err"
        )
        assert (await ran(queue, number)).how == "exit"
        made = [work / f"{number}/out", work / f"{number}/err", work / f"{umask:o}.made"]
        assert [0o666 & ~umask] * 3 == [one.stat().st_mode & 0o777 for one in made]
        assert 0o777 & ~umask == (work / f"{number}").stat().st_mode & 0o777
    # The supervisor is the same, and has its own umask again.
    await run_external(["touch", "own"], cwd=work)
    mask = os.umask(0o077)
    os.umask(mask)
    assert 0o666 & ~mask == (work / "own").stat().st_mode & 0o777


async def test_limits_are_those_of_the_shell_and_can_be_raised_again(
    queue: Queue, work: Path
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    session = '[ "$(ps -o sid= -p $$)" -eq $$ ] && echo leads'
    command = ("bash", "-c", f"ulimit -Ss; ulimit -Sc; ulimit -Hs; ulimit -Sn; {session}")
    limits = {"STACK": 2**20, "CORE": 0, "NOFILE": 99, "SOME_LATER_LIMIT": 3}
    number = submit(queue, work, *command, limits=limits)
    assert (await ran(queue, number)).how == "exit"
    written = "unlimited" if hard == resource.RLIM_INFINITY else str(hard // 1024)
    assert f"1024\n0\n{written}\n99\nleads\n" == (work / f"job-{number}.out").read_text()


async def test_a_limit_that_cannot_be_had_is_said_and_the_job_runs(
    queue: Queue, work: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = submit(
        queue, work, "bash", "-c", "ulimit -Sn", limits={"NOFILE": hard + 1}, stderr="err"
    )
    assert (await ran(queue, number)).how == "exit"
    assert f"{hard}\n" == (work / f"job-{number}.out").read_text()
    assert (
        f"grain: RLIMIT_NOFILE is {hard + 1} where the job was submitted, and {hard} here, as the "
        "hard limit of this host is not higher\n"
    ) == (work / "err").read_text()
    assert (soft, hard) == resource.getrlimit(resource.RLIMIT_NOFILE)


@pytest.mark.parametrize("limits", [{}, {"NOFILE": 99}])
async def test_a_program_that_cannot_be_run_is_named_with_any_limits(
    queue: Queue, work: Path, limits: dict[str, int]
) -> None:
    (work / "text").write_text("echo $0 $1\n")
    (work / "text").chmod(0o755)
    (work / "odd").write_text("#!/no/such/sh\n")
    (work / "odd").chmod(0o755)
    number = submit(queue, work, "./text", "a", limits=limits)  # by sh, as a shell runs it
    assert (await ran(queue, number)).how == "exit"
    assert "./text a\n" == (work / f"job-{number}.out").read_text()
    for program, message in (
        ("none", "program not found on PATH: none"),
        ("./none", "program not found: ./none"),
        ("./odd", "cannot run ./odd: the interpreter that its first line or header names is missi"),
    ):
        ended = await ran(queue, submit(queue, work, program, limits=limits))
        assert ("start", 127) == (ended.how, ended.status)
        assert ended.message.startswith(message)


async def test_a_program_with_limits_can_be_ended_and_leaves_nothing(
    queue: Queue, work: Path
) -> None:
    number = submit(
        queue, work, "sh", "-c", "sleep 1000 & echo x > began; wait", limits={"NOFILE": 99}
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_job, call(queue, number))
        await begun_at(work / "began")
        queue.wish(Wish(what="cancel", jobs=((number, number),), by="ann"))
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert "cancelled" == ended.how


async def warned(
    queue: Queue, work: Path, clock: trio.testing.MockClock, script: str, **fields: Any
) -> Ended:
    """Run a script that is to be warned half a minute before its limit, once it is `there`."""
    clock.rate = 1.0
    number = submit(
        queue, work, script=script, script_name="run.sh", timeout=600.0, signal_before=30.0,
        stdout="out", **fields,
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_job, call(queue, number))
        await begun_at(work / "there")
        clock.jump(575)
    ended = queue.ended(number, None, 1)
    assert ended is not None
    return ended


async def test_a_script_can_trap_the_warning_before_its_time_limit(
    queue: Queue, work: Path, mock_clock: trio.testing.MockClock
) -> None:
    # The step, a program of the script, would die of the signal.
    script = "#!/bin/sh\ntrap 'echo warned; exit 5' USR2\necho x >there\nsleep 1000 & wait\n"
    fields = {"signal": signal.SIGUSR2, "signal_to": "script"}
    ended = await warned(queue, work, mock_clock, script, **fields)
    assert (ended.how, ended.status) == ("exit", 5)
    assert (work / "out").read_text() == "warned\n"


async def test_a_warning_for_steps_spares_the_script(
    queue: Queue, work: Path, mock_clock: trio.testing.MockClock
) -> None:
    script = "#!/bin/sh\nsleep 1000 & echo x >there; wait $!\necho step $?\n"
    ended = await warned(queue, work, mock_clock, script, signal=signal.SIGUSR1)
    assert (ended.how, ended.status) == ("exit", 0)
    assert (work / "out").read_text().endswith(f"step {128 + signal.SIGUSR1}\n")


async def test_a_warning_that_comes_before_the_program_is_sent_when_it_is_there(
    queue: Queue, work: Path
) -> None:
    number = submit(
        queue, work, "sleep", "1000", timeout=600.0, signal=signal.SIGUSR2, signal_before=600.0,
        signal_to="script",
    )  # fmt: skip
    ended = await ran(queue, number)
    assert (ended.how, ended.signal) == ("signal", signal.SIGUSR2)


# Of the last hundredth of a second no process can be told from the program by its begin.
LEAVES_BEHIND = """sleep 0.05; (setsid sh -c 'echo x > left; exec sleep 99' &)
while ! [ -s left ]; do sleep 0.01; done
"""


@pytest.mark.parametrize("before", ["", LEAVES_BEHIND])
async def test_a_user_can_send_a_signal_to_the_script_whatever_that_has_left_behind(
    queue: Queue, work: Path, before: str
) -> None:
    script = f"trap 'exit 9' USR1\n{before}echo x > began; sleep 99 & wait"
    number = submit(queue, work, "sh", "-c", script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_job, call(queue, number))
        await begun_at(work / "began")
        queue.wish(
            Wish(what="signal", jobs=((number, number),), signal=signal.SIGUSR1, signal_to="script")
        )
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert (ended.how, ended.status) == ("exit", 9)


async def test_threads_are_those_of_the_submission(queue: Queue, work: Path) -> None:
    number = submit(
        queue, work, "sh", "-c", "echo $OMP_NUM_THREADS $HOME",
        environment={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "3"},
    )  # fmt: skip
    await ran(queue, number)
    # No variable of the worker is in it.
    assert (work / f"job-{number}.out").read_text() == "3\n"


@pytest.mark.parametrize("first", ["#!/bin/bash\n", "#!/bin/sh -e\n", ""])
@pytest.mark.parametrize("name", ["opt.sh", "my job\n\033[1m.sh", "-x", "", "n" * 300])
async def test_a_script_has_the_name_that_its_user_knows_while_it_runs(
    queue: Queue, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    first: str, name: str,
) -> None:  # fmt: skip
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    script = first + 'printf "%s\\0" "$0" "$@"\ncat "$0" > copy\nnosuch-command\n'
    number = submit(queue, work, "a word", script=script, script_name=name and f"/home/ann/{name}")
    ended = await ran(queue, number)

    own, word, message = (work / f"job-{number}.out").read_text().split("\0")
    if len(name) < 256:
        assert own.startswith(f"{tmp_path}/tmp/grain-")
        assert (name or "slurm_script") == own.rpartition("/")[2]
    assert ("a word", 127) == (word, ended.status)
    assert f"{own}: " in message
    assert script == (work / "copy").read_text()
    assert not list((tmp_path / "tmp").glob("grain-*/*"))


async def test_a_script_finds_nothing_that_another_one_has_left_beside_its_name(
    queue: Queue, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    found = []
    for last in ("touch left", "rm -r $PWD", ""):
        script = f"#!/bin/sh\ncd ${{0%/*}}; ls; {last}\n"
        number = submit(queue, work, script=script, script_name="run.sh")
        await ran(queue, number)
        found.append((work / f"job-{number}.out").read_text().splitlines()[:1])
    assert [["run.sh"]] * 3 == found


async def test_a_script_runs_where_no_link_to_it_can_be_made(
    queue: Queue, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/nowhere")
    number = submit(queue, work, script="#!/bin/sh\necho $0\n", script_name="run.sh")
    await ran(queue, number)
    assert "/blobs/" in (work / f"job-{number}.out").read_text()


async def test_a_script_finds_its_number_and_what_it_has(queue: Queue, work: Path) -> None:
    said = "$$ $SLURM_TASK_PID $GRAIN_CORES $GRAIN_MEMORY_MB $SLURM_MEM_PER_NODE $SLURM_JOB_GPUS"
    script = f"echo {said} $SLURM_JOB_UID $CUDA_VISIBLE_DEVICES"
    number = submit(queue, work, "sh", "-c", script, options={"submit-dir": str(work)})
    with GVAR.scope(Cores([3, 5]) & Memory(2) & GPUs([4, 6])):
        await ran(queue, number)
    own, told, *rest = (work / f"job-{number}.out").read_text().split()
    assert own == told
    assert ["2", "2000", "1907", "4,6", str(os.getuid()), "4,6"] == rest


class Misled(Identities):
    """A kind with a mistake."""

    def _variables(self, worker: Mapping[str, str]) -> Mapping[str, str]:
        return {"NUMBER": self.N} if self.N == 1 else {worker["NOWHERE"]: ""}  # type: ignore[dict-item]


@pytest.mark.parametrize(("n", "why"), [(1, "write 'NUMBER': '1'"), (2, "NOWHERE")])
async def test_a_kind_whose_variables_are_wrong_is_the_reason_why_a_job_did_not_start(
    queue: Queue, work: Path, n: int, why: str
) -> None:
    number = submit(queue, work, "touch", "began")
    with GVAR.scope(Misled(n)):
        ended = await ran(queue, number)
    assert ("start", True) == (ended.how, why in ended.message)
    assert not (work / "began").exists()


async def test_a_job_that_runs_out_of_memory_says_so(queue: Queue, work: Path) -> None:
    number = submit(queue, work, "sh", "-c", "kill -9 $$")
    with GVAR.scope(Memory(1e-6)):
        ended = await ran(queue, number)
    assert ended.how == "memory"
    assert ended.message.startswith("killed for want of memory: ")


@pytest.mark.parametrize("requeue", [True, False])
async def test_a_job_of_a_group_notes_the_memory_that_was_too_little(
    queue: Queue, work: Path, requeue: bool
) -> None:
    number = submit(queue, work, "sh", "-c", "kill -9 $$", requeue=requeue)
    with GVAR.scope(Cores(1) & Memory(group="opt").given(1e-6, last=True)):
        end = await run_job(call(queue, number))
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert ("memory", 1e-6, True) == (ended.how, ended.amount, ended.last)
    assert requeue is ("; with --no-requeue it does not run again" not in ended.message)
    with pytest.raises(JobMemoryError, match="want of memory"):
        end.check()


async def test_ranks_share_the_cpus_of_their_job_and_stay_on_them(queue: Queue, work: Path) -> None:
    """By the real mpirun, which would bind each rank by itself, from core 0 on."""
    if shutil.which("mpirun.openmpi") is None:
        pytest.skip("mpirun.openmpi is not installed")
    as_root = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    rank = "echo $OMP_NUM_THREADS $(grep -h Cpus_allowed_list /proc/self/status)"
    cpus = sorted(os.sched_getaffinity(0))
    for ranks, own in (("1", cpus[-1:]), ("2", cpus[-2:])):
        number = submit(
            queue, work, "mpirun.openmpi", "-n", ranks, "sh", "-c", rank,
            environment={"PATH": os.environ["PATH"], **as_root}, options={"ntasks": ranks},
        )  # fmt: skip
        with GVAR.scope(Cores(own)):
            await ran(queue, number)
        listed = ",".join(map(str, own)) if len(own) == 1 else f"{own[0]}-{own[-1]}"
        line = f"1 Cpus_allowed_list: {listed}"
        assert (work / f"job-{number}.out").read_text().splitlines() == [line] * int(ranks)


async def test_a_queue_that_cannot_be_read_is_reported_and_nothing_runs(
    queue: Queue, work: Path
) -> None:
    number = submit(queue, work, "touch", "began")
    there = call(queue, number)._replace(queue=str(queue.folder) + "-gone")
    end = await run_job(there)
    assert (end.what, end.passing) == ("not begun", False)
    assert "there is no queue" in end.why
    assert not (work / "began").exists()


async def test_nothing_runs_where_the_folder_is_another_queue(queue: Queue, work: Path) -> None:
    number = submit(queue, work, "true")
    end = await run_job(call(queue, number)._replace(mission="another"))
    assert end.what == "not begun"
    assert "does not share that directory" in end.why
    assert queue.begun(number, None, 1) is None


async def test_what_an_attempt_has_read_holds_for_the_next_one_while_the_queue_is_the_same(
    queue: Queue, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_script = {"script": "#!/bin/sh\n", "array": ArraySpec(ranges=((1, 3, 1),))}
    number = submit(queue, work, **of_script)
    reads: list[str] = []
    read = LocalDisk.read

    def noted(disk: LocalDisk, name: str) -> bytes:
        reads.append(name)
        return read(disk, name)

    await ran(queue, number, 1)
    monkeypatch.setattr(LocalDisk, "read", noted)
    monkeypatch.setattr(LocalDisk, "touch", lambda _, name: reads.append(name))
    await ran(queue, number, 2)
    assert ["format"] == [name for name in reads if not name.startswith(("wishes", "attempts"))]

    monkeypatch.undo()
    shutil.rmtree(queue.folder)
    other = Queue.open(queue.folder, make=True)
    assert number == submit(other, work, **of_script)
    end = await run_job(call(queue, number, 3))
    assert ("not begun", None) == (end.what, other.begun(number, 3, 1))
    await ran(other, number, 3)
    assert other.begun(number, 3, 1) is not None
