"""`grain wait`: exit statuses, and progress on a terminal."""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from grain.cli.jobs.dispatcher import revive_dispatcher
from grain.cli.jobs.wait import wait_for
from grain.cli.queue.rows import block_text
from grain.cli.slurm.__main__ import answer
from grain.cli.slurm.here import Here
from grain.cli.slurm.reading import NeverBegins
from grain.cli.slurm.reading import wait_for as slurm_wait_for
from grain.queue.book import Block, Book, Entry
from grain.queue.dispatchers import Dispatchers, this_dispatcher
from grain.queue.files import LocalDisk
from grain.queue.records import Dependency
from grain.queue.selectors import Selected

if TYPE_CHECKING:
    from grain.queue.folder import Queue
    from grain_testkit.job_commands import JobCommands


def test_jobs_that_succeed_have_exit_status_0(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-3")
    for task in (1, 2, 3):
        jobs.end(1, task)

    assert "" == jobs.done("wait", "1")


def test_the_exit_status_is_the_number_of_tasks_without_success(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-3")
    jobs.submit("one")
    jobs.end(1, 1)
    jobs.end(1, 2, status=4)
    jobs.end(1, 3, how="timeout")
    jobs.end(2, status=7)

    done = jobs.grain("wait", "1-2")
    assert 3 == done.exit_code
    assert [
        "job 1 (opt) 2 of 3 tasks without success; `grain jobs 1` lists them",
        "job 2 (one) failed: exit status 7",
    ] == done.stderr.splitlines()
    assert 3 == jobs.grain("wait", "1", "1-2").exit_code, "each counts once"


def test_programs_get_the_jobs_as_they_have_ended(jobs: JobCommands) -> None:
    jobs.submit("one")
    jobs.end(1, status=7)

    done = jobs.grain("wait", "--json", "1")
    assert (1, "") == (done.exit_code, done.stderr)
    [one] = json.loads(done.stdout)
    assert (1, "one", "failed", 1) == (one["job"], one["name"], one["state"], one["unsuccessful"])
    assert 7 == one["attempts"]["1"][0]["exit_status"]


def test_tasks_that_are_named_are_waited_for_and_no_others(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-3")
    jobs.end(1, 1)
    jobs.end(1, 2, status=4)

    assert 0 == jobs.grain("wait", "1_1").exit_code
    assert 1 == jobs.grain("wait", "1_[1-2]").exit_code


def test_more_than_100_failures_are_101(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-102")
    jobs.submit("opt", "1-100")
    for number, last in (1, 102), (2, 100):
        for task in range(1, last + 1):
            jobs.end(number, task, status=1)

    assert 101 == jobs.grain("wait", "1").exit_code
    assert 100 == jobs.grain("wait", "2").exit_code


@pytest.mark.parametrize("words", [("2",), (), ("x",), ("--no-such", "1"), ("1_1",)])
def test_other_errors_are_255_so_that_they_do_not_look_like_failed_tasks(
    jobs: JobCommands, words: tuple[str, ...]
) -> None:
    jobs.submit()
    done = jobs.grain("wait", *words)

    assert 255 == done.exit_code
    assert "Error: " in done.stderr


def test_a_job_that_runs_is_waited_for_with_progress_on_a_terminal(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.submit("opt", "1-2")
    jobs.begin(1, 1)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    seen: list[str] = []

    def end() -> None:
        for task, status in (1, 0), (2, 3):
            text = f"{task - 1} of 2 tasks ended"
            while text not in "".join(seen):
                seen.append(capsys.readouterr().err)
                time.sleep(0.01)
            jobs.end(1, task, status=status)

    thread = threading.Thread(target=end)
    thread.start()
    status = wait_for(jobs.queue, [Selected(1, 1)])
    thread.join()
    lines = "".join([*seen, capsys.readouterr().err]).split("\r\033[K")

    assert 1 == status
    assert ["", "0 of 2 tasks ended, 1 running"] == lines[:2]
    assert "1 of 2 tasks ended, 0 running" in lines
    assert lines[-1].startswith("2 of 2 tasks ended, 0 running, 1 without success\n")


def test_a_pipe_gets_no_progress(jobs: JobCommands) -> None:
    jobs.submit()
    jobs.end(1)
    assert "" == jobs.grain("wait", "1").stderr


@pytest.mark.parametrize("how", ["wait", "srun"])
def test_who_waits_starts_a_dispatcher_each_time_the_last_one_was_killed(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    jobs.submit()
    jobs.begin(1)
    now = 0.0
    started: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now > 80.0:
            jobs.end(1)

    def start(_: Queue, config: str | None) -> str:
        assert ("grain.toml" if how == "wait" else None) == config
        started.append(now)  # this one is killed, too
        return ""

    monkeypatch.setattr("grain.cli.jobs.dispatcher.wake_dispatcher", start)
    Dispatchers(jobs.queue.files).take_charge(replace(this_dispatcher(), pid_began=1))
    clock = SimpleNamespace(monotonic=lambda: now, sleep=sleep)
    monkeypatch.setattr("grain.cli.queue.looks.time", clock)
    if how == "wait":
        assert 0 == wait_for(jobs.queue, [Selected(1, 1)], config="grain.toml")
    else:
        assert slurm_wait_for(Here("srun"), jobs.queue, 1).is_final
    assert [pytest.approx(at, abs=3.1) for at in (0.0, 30.0, 60.0)] == started


def test_who_waits_is_told_once_that_no_end_can_be_noted_for_want_of_room(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.submit()
    jobs.begin(1)
    jobs.dispatch()
    now, create = 0.0, LocalDisk.create

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now > 200.0:
            monkeypatch.setattr(LocalDisk, "create", create)
            jobs.end(1)

    def refuse(*_: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(LocalDisk, "create", refuse)
    clock = SimpleNamespace(monotonic=lambda: now, sleep=sleep)
    monkeypatch.setattr("grain.cli.queue.looks.time", clock)
    assert 0 == wait_for(jobs.queue, [Selected(1, 1)])
    assert (
        f"{jobs.queue.folder}: Disk quota exceeded. What has ended cannot be noted there until you "
        "make room; nothing is lost\n"
    ) == capsys.readouterr().err


def test_who_waits_starts_no_dispatcher_where_a_user_has_stopped_it(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatchers = Dispatchers(jobs.queue.files)
    dispatchers.say_farewell(dispatchers.take_charge(replace(this_dispatcher(), pid_began=1)))

    def start(*_: object) -> str:
        pytest.fail("it was stopped on purpose")

    monkeypatch.setattr("grain.cli.jobs.dispatcher.wake_dispatcher", start)
    revive_dispatcher(jobs.queue, None)


AFTER_1 = (Dependency(jobs=(1,)),)


def test_a_job_that_never_begins_is_not_waited_for(jobs: JobCommands) -> None:
    jobs.submit("one")
    jobs.submit("two", after=AFTER_1)
    jobs.submit("three", after=(Dependency(jobs=(2,), until="any"),))
    jobs.end(1, status=1)

    for name in ("2", "all"):
        done = jobs.grain("wait", name)
        assert 102 == done.exit_code, "no number of failures below 100"
        assert (
            "job 2 (two) never begins: job 1 did not succeed; `grain resubmit 1` runs that again, "
            "`grain cancel 2` gives this one up"
        ) in done.stderr.splitlines()
    assert (
        "job 3 (three) never begins: job 1 did not succeed, and job 2 waits for that; "
        "`grain resubmit 1` runs that again, `grain cancel 3` gives this one up\n"
    ) == jobs.grain("wait", "3").stderr
    done = jobs.grain("wait", "--json", "2")
    assert (102, "") == (done.exit_code, done.stderr)
    assert ["impossible"] == [one["state"] for one in json.loads(done.stdout)]


def test_a_job_that_is_removed_is_named_as_such(jobs: JobCommands) -> None:
    jobs.submit("one")
    entry = Entry(2, replace(jobs.queue.job(1), after=AFTER_1))
    book = Book(jobs.queue)
    book.counts = lambda number: None  # type: ignore[method-assign]  # noqa: ARG005
    text = block_text(book, entry, Block(1, "ok"))
    assert "never begins: job 1 ended long ago, and its files were removed; " in text


@pytest.mark.parametrize("command", ["sbatch", "srun"])
def test_commands_of_slurm_do_not_wait_for_it_either(jobs: JobCommands, command: str) -> None:
    jobs.submit("one")
    jobs.submit("two", after=AFTER_1)
    jobs.end(1, status=1)
    with pytest.raises(NeverBegins) as caught:
        slurm_wait_for(Here(command), jobs.queue, 2)
    assert str(caught.value).startswith(
        f"{command}: error: (Grain) job 2 (two) never begins: job 1 did not succeed; "
    )


def test_srun_gives_up_its_job_if_it_never_begins(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.submit("one")
    jobs.end(1, status=1)
    monkeypatch.setattr("grain.cli.slurm.sbatch.wake_dispatcher", lambda _: "")
    monkeypatch.setattr("grain.cli.slurm.outside._stdin", lambda: b"")
    monkeypatch.delenv("GRAIN_JOB_ID", raising=False)

    done = answer(Here("srun"), ["--dependency=afterok:1", "true"])
    why = "job 2 (true) never begins: job 1 did not succeed; it is cancelled"
    assert (1, f"srun: error: (Grain) {why}") == (done.status, done.err)
    assert "CANCELLED" == Book.read(jobs.queue).standing(2, None, 0.0).state


@pytest.mark.parametrize("waited_for", ["1-3", "2", "3"])
def test_a_job_on_hold_is_waited_for_and_named_also_if_others_wait_for_it(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch, waited_for: str
) -> None:
    jobs.submit("one", held=True)
    jobs.submit("two", after=(Dependency(jobs=(1,)),))
    jobs.submit("three", after=(Dependency(jobs=(2,)),))

    def end(_: float) -> None:
        for number in (1, 2, 3):
            jobs.end(number)

    monkeypatch.setattr("grain.cli.queue.looks.time.sleep", end)
    done = jobs.grain("wait", waited_for)
    told = "job 1 (one) is on hold: `grain release 1` lets it begin\n"
    assert (0, told) == (done.exit_code, done.stderr)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("1",), "job 1 goes on: `grain wait 1` waits for it again, `grain cancel 1` ends it"),
        (
            ("1_[2-3],3", "4-5"),
            "jobs 1_[2-3],3,4-5 go on: `grain wait 1_[2-3],3,4-5` waits for them again, "  # noqa: ISC004
            "`grain cancel 1_[2-3],3,4-5` ends them",
        ),
    ],
)
def test_ctrl_c_says_that_jobs_go_on_and_what_ends_them(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    jobs.submit("opt", "1-3")
    for _ in range(4):
        jobs.submit()
    monkeypatch.setattr("grain.cli.queue.looks.time.sleep", interrupt)
    done = jobs.grain("wait", *words)
    assert (130, f"\n{said}\n") == (done.exit_code, done.stderr)


@pytest.mark.parametrize("where", ["queue.looks.time.sleep", "jobs.dispatcher.wake_dispatcher"])
def test_ctrl_c_says_so_from_the_moment_at_which_a_job_is_in_the_queue(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr("grain.cli.jobs.dispatcher.wake_dispatcher", lambda *_: "")
    monkeypatch.setattr(f"grain.cli.{where}", interrupt)
    done = jobs.grain("submit", "--queue", "night", "-W", "--", "true")
    assert (130, "job 1\n") == (done.exit_code, done.stdout)
    assert "\njob 1 goes on: `grain wait night:1` " in done.stderr
    assert "`grain cancel night:1` ends it\n" in done.stderr


def test_ctrl_c_ends_any_other_command_as_shells_expect_it(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grain.queue.book.Book.read", interrupt)
    done = jobs.grain("jobs")
    assert (130, "\ninterrupted\n") == (done.exit_code, done.stderr)


def test_ctrl_c_on_sbatch_wait_says_that_the_job_goes_on(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("grain.cli.slurm.sbatch.wake_dispatcher", lambda _: "")
    monkeypatch.setattr("grain.cli.queue.looks.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):  # whose exit status is 130
        answer(Here("sbatch"), ["--wait", "--wrap=true"])
    assert "sbatch: (Grain) job 1 goes on: `scancel 1` ends it\n" == capsys.readouterr().err
