"""Jobs in `grain why` and `grain logs`, and `grain queue`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from grain.cli import main
from grain.cli.mission_records import End, MissionStart, make, missions_folder, write
from grain.eventlog.soft_stops import MANY, soft_stop_text
from grain.files.processes import start_time
from grain.queue.book import Book
from grain.queue.dispatchers import Dispatchers, this_dispatcher
from grain.queue.records import Begun, Dependency, Ended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.queue.folder import Queue
    from grain_testkit.job_commands import JobCommands


def test_a_job_that_has_ended_says_how_and_where(jobs: JobCommands) -> None:
    jobs.submit()
    jobs.end(1, status=3)

    lines = jobs.done("why", "1").splitlines()
    assert "job 1 (opt) has failed" == lines[0]
    assert lines[1].startswith("  attempt 1 ran on worker w1 (n17), from ")
    assert lines[1].endswith(", for 1 min 30 s")
    assert ["  it ended so: exit status 3", f"  its output is in {jobs.home}/job-1.out"] == lines[
        2:
    ]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"status": 3}, "exit status 3"),
        ({"how": "signal", "signal": int(signal.SIGSEGV)}, "SIGSEGV"),
    ],
)
def test_a_failed_job_shows_the_line_of_its_program_that_says_why(
    how: dict[str, Any], words: str, jobs: JobCommands
) -> None:
    jobs.submit()
    jobs.end(1, line="SCF did not converge", **how)

    for command in (("why", "1"), ("jobs",), ("jobs", "1")):
        assert f"{words}: SCF did not converge\n" in jobs.done(*command)
    [job] = json.loads(jobs.done("jobs", "--json"))
    assert "SCF did not converge" == job["attempts"]["1"][0]["line"]


def test_a_job_that_is_done_says_that_it_was_warned(jobs: JobCommands) -> None:
    warned = "warned before its time limit, so it may not be complete"
    jobs.submit()
    jobs.end(1, message=warned)

    lines = jobs.done("why", "1").splitlines()
    assert ("job 1 (opt) is done", f"  it ended so: {warned}") == (lines[0], lines[2])
    assert warned in jobs.done("jobs")


def test_a_job_names_its_earlier_attempts_and_how_they_ended(jobs: JobCommands) -> None:
    jobs.submit()
    for _ in range(MANY):
        jobs.begin(1)
        jobs.end(1, how="returned", interruption="stopped")
    jobs.begin(1)

    lines = jobs.done("why", "1").splitlines()
    ran = "ran on worker w1, for 1 min 30 s"
    assert [f"  attempt {n} {ran}: {soft_stop_text(n)}" for n in (8, 9, 10)] == lines[1:4]
    assert "it fails after 100 of these in a row" in lines[3]
    assert lines[4].startswith("  attempt 11 runs on worker w1 (n17)")


def test_of_an_attempt_whose_end_was_not_seen_no_time_is_named(jobs: JobCommands) -> None:
    jobs.submit()
    for _ in range(2):
        jobs.begin(1)
        jobs.end(1, how="lost", elapsed=0.0, message="its process is gone")

    lines = jobs.done("why", "1").splitlines()
    assert "  attempt 1 ran on worker w1: its process is gone" in lines
    assert any(" attempt 2 ran on worker w1 (n17), from" in one for one in lines)
    assert not any("for 0" in one for one in lines)


def test_an_array_that_has_failed_says_so_in_a_sentence(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-2")
    jobs.end(1, 1)
    jobs.end(1, 2, status=1)

    first = jobs.done("why", "1").splitlines()[0]
    assert "job 1 (opt) has failed: 0 of 2 tasks wait, 0 run, 2 ended" == first


def test_a_job_that_no_worker_could_begin_says_why(jobs: JobCommands) -> None:
    jobs.submit()
    assert jobs.queue.begin(1, None, 1, Begun(at=1.0, host="login1"))
    message = "no worker can run it: it asks for too much"
    assert jobs.queue.end(1, None, 1, Ended(how="start", at=1.0, status=127, message=message))

    assert ["job 1 (opt) has failed", f"  it never began: {message}"] == jobs.done(
        "why", "1"
    ).splitlines()


def test_a_job_says_for_which_job_it_waits(jobs: JobCommands) -> None:
    jobs.submit()
    jobs.submit(after=(Dependency(jobs=(1,), until="any"),))

    assert [
        "job 2 (opt) waits",
        "  it waits for other jobs",
        "  it waits for job 1 (until they end)",
    ] == jobs.done("why", "2").splitlines()


def test_a_job_that_runs_says_that_it_is_to_be_cancelled(jobs: JobCommands) -> None:
    """Its worker may not see that, as it is dead, for a minute."""
    jobs.submit()
    jobs.begin(1)
    jobs.done("cancel", "1")

    assert [
        "job 1 (opt) is running",
        "  it runs until it is cancelled",
    ] == jobs.done("why", "1").splitlines()[:2]
    assert jobs.done("jobs").splitlines()[2].endswith("  until it is cancelled")


def test_a_task_says_what_its_input_is(jobs: JobCommands) -> None:
    jobs.done("submit", "--each-line", "-", "-H", "--", "echo", "{}", input="a\nb \x1b[1m\n")

    assert ["task 1_2 waits", "  its input is b ?[1m", "  it waits on hold"] == jobs.done(
        "why", "1_2"
    ).splitlines()


def test_tasks_that_are_alike_are_explained_once(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-50")
    jobs.end(1, 1)
    for task in range(2, 6):
        jobs.begin(1, task)

    text = jobs.done("why", "1")
    assert "job 1 (opt) is running: 45 of 50 tasks wait, 4 run, 1 ended" in text
    assert 3 == text.count("\ntask 1_")
    assert "task 1_4 is running" in jobs.done("why", "1_4")


def test_a_job_says_that_no_dispatcher_runs_if_it_waits(idle: JobCommands) -> None:
    idle.submit()
    idle.submit()
    idle.end(2)
    hint = "no dispatcher runs, so no job begins: `grain queue status` says more\n"

    assert idle.done("why", "1").endswith(hint)
    assert hint not in idle.done("why", "2")


def test_the_scheduler_is_asked_about_a_job_that_it_has(
    jobs: JobCommands, monkeypatch: Any
) -> None:
    jobs.submit()
    book = Book.read(jobs.queue)
    book.tickets[1, None, 1] = 1_000_000_001
    book.write_view()
    asked = []

    def explain(_: object, mission: str, task: int, **_more: object) -> Any:
        asked.append((mission, task))
        return type("Explanation", (), {"reasons": ["no worker has 64 cores"]})

    monkeypatch.setattr("grain.cli.query.explain", explain)
    assert "  no worker has 64 cores\n" in jobs.done("why", "1")
    assert [1_000_000_001] == [task for _, task in asked]


def test_the_facts_on_a_job_are_there_as_json(jobs: JobCommands) -> None:
    jobs.submit()
    jobs.submit()
    assert [1, 2] == [one["job"] for one in json.loads(jobs.done("why", "--json", "1-2"))]


def test_the_output_of_a_job_is_shown(jobs: JobCommands) -> None:
    jobs.submit()
    path = jobs.home / "job-1.out"
    assert f"nothing was written yet; the output goes to {path}" in jobs.refused("logs", "queue:1")
    path.write_text("one\ntwo\nthree\n")

    assert "one\ntwo\nthree\n" == jobs.done("logs", "queue:1")
    assert "one\ntwo\nthree\n" == jobs.done("logs", "1")
    assert "two\nthree\n" == jobs.done("logs", "-n", "2", "queue:1")


def test_both_files_of_a_job_are_shown(jobs: JobCommands) -> None:
    jobs.submit(stderr="%x.err")
    (jobs.home / "job-1.out").write_text("result\n")
    (jobs.home / "opt.err").write_text("warning\n")

    text = jobs.done("logs", "queue:1")
    assert "result\n" in text
    assert "warning\n" in text


def test_one_task_of_an_array_is_shown(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-2")
    for task in (1, 2):
        (jobs.home / f"job-1_{task}.out").write_text(f"task {task}\n")

    assert "task 2\n" == jobs.done("logs", "queue:1_2")
    text = jobs.done("logs", "queue:1")
    assert text.index("task 1\n") < text.index("task 2\n")


def test_output_is_followed_from_before_it_is_there(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.submit()
    path = jobs.home / "job-1.out"
    looks = 0

    def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise KeyboardInterrupt
        with path.open("a") as file:
            file.write(f"line {looks}\n")

    monkeypatch.setattr("grain.cli.workers.logs.time.sleep", sleep)
    done = CliRunner().invoke(main, ["logs", "-f", "queue:1"])
    assert 130 == done.exit_code
    assert "line 1\nline 2\n" in done.output
    assert "what writes it goes on" in done.output


def test_the_state_of_a_queue(jobs: JobCommands, idle: JobCommands) -> None:
    jobs.submit("opt", "1-3")
    jobs.begin(1, 1)

    assert [
        "queue queue: 2 tasks wait, 1 runs",
        f"the dispatcher runs on {this_dispatcher().host}",
    ] == jobs.done("queue", "status").splitlines()
    assert {
        "queue": "queue", "folder": str(jobs.queue.folder), "waiting": 2, "running": 1,
        "dispatcher": this_dispatcher().host, "jobs": [],
    } == json.loads(jobs.done("queue", "status", "--json"))  # fmt: skip


def test_a_queue_without_a_dispatcher(idle: JobCommands) -> None:
    idle.submit()
    hint = "no dispatcher runs: `grain queue start` starts one\n"
    assert f"queue queue: 1 task waits, 0 run\n{hint}" == idle.done("queue", "status")
    assert None is json.loads(idle.done("queue", "status", "--json"))["dispatcher"]
    assert "no dispatcher runs\n" == idle.done("queue", "stop")
    assert "started" in idle.refused("queue", "start")


def test_a_dispatcher_that_runs_is_not_started_again(jobs: JobCommands) -> None:
    host = this_dispatcher().host
    assert f"the dispatcher runs on {host} already\n" == jobs.done("queue", "start")


@pytest.fixture
def dispatcher(idle: JobCommands) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that is in charge of a queue."""
    process = subprocess.Popen(["sleep", "1000"])
    mine = replace(this_dispatcher(), pid=process.pid, pid_began=start_time(process.pid) or 0)
    Dispatchers(idle.queue.files).take_charge(mine)
    yield process
    process.kill()
    process.wait()


def test_a_dispatcher_is_stopped_on_its_host(
    idle: JobCommands, dispatcher: subprocess.Popen[bytes]
) -> None:
    assert "the dispatcher has stopped; jobs that run go on\n" == idle.done("queue", "stop")
    assert -signal.SIGTERM == dispatcher.wait()
    assert "no dispatcher runs\n" == idle.done("queue", "stop")


class Starting:
    """A dispatcher that is just starting: it takes charge when a command waits for that."""

    def __init__(self, queue: Queue, command: str) -> None:
        start = MissionStart(
            name=queue.name,
            command=(command, str(queue.folder)),
            directory="/",
            environment={},
            at=0,
        )
        missions_folder().unlink()  # the file in its place, which lets none start
        self.record = make(missions_folder(), start)
        self.queue = queue
        self.process: subprocess.Popen[bytes] | None = None
        self.fails = False

    def sleep(self, _: float) -> None:
        if self.fails:
            write(self.record.folder, "end.json", End(status=1, at=0))
        elif self.process is None:
            self.process = subprocess.Popen(["sleep", "1000"])
            began = start_time(self.process.pid) or 0
            mine = replace(this_dispatcher(), pid=self.process.pid, pid_began=began)
            Dispatchers(self.queue.files).take_charge(mine)
        elif self.process.poll() is not None:  # as its keeper does
            write(self.record.folder, "end.json", End(status=-15, at=0))


@pytest.fixture
def starting(idle: JobCommands, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starting]:
    started = Starting(idle.queue, "another-python")
    monkeypatch.setattr("grain.cli.jobs.dispatcher.time.sleep", started.sleep)
    yield started
    if started.process is not None:
        started.process.kill()
        started.process.wait()


def test_a_dispatcher_that_is_just_starting_is_stopped(
    idle: JobCommands, starting: Starting
) -> None:
    assert "the dispatcher has stopped; jobs that run go on\n" == idle.done("queue", "stop")
    assert starting.process is not None
    assert -signal.SIGTERM == starting.process.wait()
    assert "no dispatcher runs\n" == idle.done("queue", "stop")


def test_a_dispatcher_that_fails_to_start_is_not_there_to_stop(
    idle: JobCommands, starting: Starting
) -> None:
    starting.fails = True
    assert "no dispatcher runs\n" == idle.done("queue", "stop")


def test_status_and_lists_say_that_a_dispatcher_is_starting(
    idle: JobCommands, starting: Starting
) -> None:
    idle.submit()
    hint = "a dispatcher is starting\n"
    assert f"queue queue: 1 task waits, 0 run\n{hint}" == idle.done("queue", "status")
    assert idle.done("jobs").endswith(hint)

    os.utime(starting.record.folder / "start.json", (0, 0))
    assert "no dispatcher runs: " in idle.done("queue", "status")


def test_submissions_one_by_one_do_not_start_a_dispatcher_each(
    idle: JobCommands, starting: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRAIN_JOB_ID", raising=False)
    started: list[str] = []
    monkeypatch.setattr(
        "grain.cli.jobs.dispatcher._start", lambda queue, _: started.append(queue.name)
    )
    for seconds, starts in ((0.0, 0), (50.0, 0), (70.0, 1)):  # a minute, as it has failed then
        made = starting.record.made - seconds
        os.utime(starting.record.folder / "start.json", (made, made))
        idle.done("submit", "--", "true")
        assert ["queue"] * starts == started


def test_a_dispatcher_that_takes_its_time_to_stop_is_not_waited_for(
    idle: JobCommands, dispatcher: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grain.cli.jobs.dispatcher._STOPPING", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr("grain.cli.jobs.dispatcher.os.kill", lambda *_: None)
        text = idle.done("queue", "stop")
    assert "the dispatcher is told to stop; jobs that run go on\n" == text


def test_a_dispatcher_on_another_host_is_not_stopped_from_here(idle: JobCommands) -> None:
    there = replace(this_dispatcher(), host="login2", boot="b")
    Dispatchers(idle.queue.files).take_charge(there)

    assert "it runs on login2: give this command there" in idle.refused("queue", "stop")
    assert "the dispatcher runs on login2" in idle.done("queue", "status")


def test_a_dispatcher_in_another_container_is_not_stopped_from_here(idle: JobCommands) -> None:
    here = this_dispatcher()
    there = replace(here, space=here.space + 1, pid=1)
    Dispatchers(idle.queue.files).take_charge(there)

    message = f"it runs on {here.host}, in another container: give this command there"
    assert message in idle.refused("queue", "stop")


def test_a_dispatcher_whose_file_cannot_be_read_may_run(idle: JobCommands) -> None:
    idle.submit()
    (idle.queue.folder / "dispatchers/1").write_bytes(b'{"host": "\xff"}')
    assert "the dispatcher runs on an unknown host" in idle.done("queue", "status")
    assert "it runs on an unknown host" in idle.refused("queue", "stop")
