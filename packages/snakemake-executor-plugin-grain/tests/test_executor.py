"""The executor: jobs are submitted, their ends are reported, and they are cancelled."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from snakemake_interface_common.exceptions import WorkflowError

from grain.queue.book import Book
from grain_testkit.fake_snakemake import FakeJob
from snakemake_executor_plugin_grain import executor as module
from snakemake_executor_plugin_grain.executor import log_folder, pause

if TYPE_CHECKING:
    from grain.queue.records import Job
    from grain_testkit.fake_snakemake import FakeSnakemake
    from grain_testkit.job_commands import JobCommands


def state(jobs: JobCommands, number: int) -> str:
    return Book.read(jobs.queue).standing(number, None, 0.0).state


def write_log(jobs: JobCommands, job: Job, number: int) -> str:
    """Write what a job prints, as its worker would; return the path."""
    path = jobs.home / job.stdout.replace("%j", str(number))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("it is broken\n")
    return str(path)


def test_a_job_is_a_command_in_the_queue(jobs: JobCommands, snakemake: FakeSnakemake) -> None:
    one = FakeJob(jobs.home, mem_mb=500, runtime=10)
    one.threads, one.priority = 2, 5
    snakemake.executor().run_jobs([one])

    job = jobs.queue.job(1)
    assert job.name == "one"
    assert job.request == {"Cores": 2, "Memory": 0.5}
    assert (job.timeout, job.priority) == (600, 5)
    assert job.directory == str(jobs.home)
    assert job.stdout == ".snakemake/grain_logs/one/i_a/%j.log"
    shell, option, command = job.command
    assert (shell, option) == ("/bin/sh", "-c")
    assert " -m snakemake --snakefile " in command
    assert "--target-jobs 'one:i=a'" in command
    assert re.search("--mode '?remote'?$", command)
    assert job.environment["HOME"] == str(jobs.home)
    assert one.registered == ["1"]


def test_a_job_with_a_jobscript_of_the_user_or_a_long_command_is_a_script(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    (jobs.home / "mine.sh").write_text("#!/bin/bash\n# {properties}\n{exec_job}\n")
    snakemake.executor(jobscript=str(jobs.home / "mine.sh")).run_jobs([FakeJob(jobs.home)])
    long = FakeJob.group(jobs.home, *(f"{i:05}" for i in range(10_000)))
    snakemake.executor().run_jobs([long])

    first, second = jobs.queue.job(1), jobs.queue.job(2)
    assert first.command == second.command == ()
    assert first.script.startswith('#!/bin/bash\n# {"rule": "one"')
    script = jobs.queue.script(second)
    assert script is not None
    assert script.read_text().startswith("#!/bin/sh\n# properties")


def test_ends_are_reported_and_only_logs_of_failures_are_kept(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    names = ("good", "bad", "slow", "late")
    good, bad, slow, late = (FakeJob(jobs.home, wildcard=name) for name in names)
    snakemake.executor(keep_going=True).run_jobs([good, bad, slow, late])
    logs = [write_log(jobs, jobs.queue.job(number), number) for number in (1, 2)]
    jobs.begin(3)
    jobs.end(1)
    jobs.end(2, status=3, line="The basis is missing.")
    snakemake.until_done(good)
    snakemake.until_failed(bad)

    assert list((jobs.home / ".snakemake/grain_logs").rglob("*.log")) == [jobs.home / logs[1]]
    assert not (jobs.home / ".snakemake/grain_logs/one/i_good").exists()
    [(message, shown)] = bad.errors
    said = "has failed: exit status 3: The basis is missing. For further"
    assert message.startswith(f"Job 2 of Grain's queue {said}")
    assert shown == [logs[1]]
    # With --keep-going, the others are wanted, whether they run or wait.
    jobs.end(3)
    jobs.end(4)
    snakemake.until_done(slow, late)


def test_all_logs_are_kept_on_request(jobs: JobCommands, snakemake: FakeSnakemake) -> None:
    one = FakeJob(jobs.home)
    snakemake.executor(keep_logs=True).run_jobs([one])
    log = write_log(jobs, jobs.queue.job(1), 1)
    jobs.end(1)
    snakemake.until_done(one)
    assert Path(log).read_text() == "it is broken\n"


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ({"how": "timeout"}, "was ended at its time limit; give the rule a larger runtime. "),
        ({"how": "memory"}, "has failed: its memory was not enough; give the rule more mem_mb. "),
        ({"how": "signal", "signal": 11}, "has failed: SIGSEGV"),
        ({"how": "cancelled", "by": "ann on login1"}, "was cancelled: by ann on login1. "),
    ],
)
def test_the_message_says_how_a_job_ended_and_what_to_do(
    jobs: JobCommands, snakemake: FakeSnakemake, end: dict[str, Any], message: str
) -> None:
    one = FakeJob(jobs.home)
    snakemake.executor().run_jobs([one])
    jobs.end(1, **end)
    snakemake.until_failed(one)
    assert one.errors[0][0].startswith(f"Job 1 of Grain's queue {message}")
    assert one.errors[0][1] == []


def test_cancelling_ends_what_runs_and_what_waits(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    executor = snakemake.executor()
    executor.run_jobs([FakeJob(jobs.home, wildcard=name) for name in "abc"])
    jobs.begin(1)
    jobs.end(2)
    # The base class takes the jobs that it looks at out of this list.
    with executor.lock:
        executor.active_jobs.clear()
    # One whose number did not come back, as Ctrl-C was pressed at that moment.
    jobs.queue.submit(replace(jobs.queue.job(3), name="unknown"))
    executor.cancel()

    book = Book.read(jobs.queue)
    assert state(jobs, 3) == state(jobs, 4) == "CANCELLED"
    assert book.entries[1].asked(None).cancelled is not None
    assert state(jobs, 2) == "COMPLETED"
    # Snakemake ends: nothing is said of jobs that it has given up.
    assert not snakemake.scheduler.failed


def test_when_a_job_has_failed_those_that_wait_are_cancelled_and_those_that_run_go_on(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    bad, runs, waits = (FakeJob(jobs.home, wildcard=name) for name in ("bad", "runs", "waits"))
    snakemake.executor().run_jobs([bad, runs, waits])
    jobs.begin(2)
    jobs.end(1, status=1)
    snakemake.until_failed(bad, waits)

    assert state(jobs, 3) == "CANCELLED"
    assert waits.errors == []
    assert "and are cancelled: 1. Jobs that run, and go on to their ends: 1." in snakemake.printed()
    assert Book.read(jobs.queue).entries[2].asked(None).cancelled is None
    jobs.end(2)
    snakemake.until_done(runs)


def test_a_resource_that_makes_no_sense_fails_its_job_only(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    bad, good = FakeJob(jobs.home, wildcard="bad", nodes="two"), FakeJob(jobs.home, wildcard="good")
    snakemake.executor(keep_going=True).run_jobs([bad, good])
    snakemake.until_failed(bad)

    assert bad.errors[0][0].startswith("nodes is 'two': write a number")
    assert [job.options["snakemake-parts"] for _, job in jobs.queue.jobs_from(1)]
    assert jobs.queue.jobs.end() == 2
    assert good.registered == ["1"]


def test_a_queue_that_cannot_be_read_for_now_is_read_again(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    one = FakeJob(jobs.home)
    snakemake.executor().run_jobs([one])
    place = jobs.queue.folder / "attempts/0"
    target = place.readlink()
    place.unlink()
    place.symlink_to("0")  # a link that leads to itself
    line = snakemake.until_printed("cannot be read for now")
    assert "symbolic links" in line
    place.unlink()
    place.symlink_to(target)
    jobs.end(1)
    snakemake.until_done(one)


def test_jobs_that_wait_for_want_of_a_dispatcher_are_told(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    for file in (jobs.queue.folder / "dispatchers").iterdir():
        file.unlink()
    snakemake.executor().run_jobs([FakeJob(jobs.home)])
    assert "Jobs wait in Grain's queue: no dispatcher could be started" in snakemake.printed()


def test_rules_that_no_worker_can_run_are_named_once(
    jobs: JobCommands, snakemake: FakeSnakemake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grain.cli.jobs.client import QueueClient, UnfitJobs

    asked: list[object] = []

    def unfit(client: QueueClient) -> list[UnfitJobs]:
        with snakemake.scheduler.ended:
            asked.append(client)
            snakemake.scheduler.ended.notify_all()
        return [
            UnfitJobs(1, {"Cores": 64}, 0.0, "w1: it has 2 Cores"),
            UnfitJobs(9, {"Cores": 64}, 60.0, "another workflow's"),
        ]

    monkeypatch.setattr(QueueClient, "unfit", unfit)
    monkeypatch.setattr(module, "_FIRST_ASK", 0.0)
    large, small = FakeJob(jobs.home, "large"), FakeJob(jobs.home, "small")
    large.threads = 64
    snakemake.executor().run_jobs([large, small])

    line = snakemake.until_printed("No worker")
    assert line == (
        "No worker that is here can run large: w1: it has 2 Cores. It waits until there is one; "
        "`grain why 1` shows more."
    )
    snakemake.until(lambda: len(asked) > 2)
    assert snakemake.printed().count("No worker") == 1


def test_immediate_submit_is_refused(snakemake: FakeSnakemake) -> None:
    with pytest.raises(WorkflowError, match="--immediate-submit is not for --executor grain"):
        snakemake.executor(immediate=True)
    for thread in threading.enumerate():
        if "_wait_thread" in thread.name:
            thread.join(60)
            assert not thread.is_alive()


def test_a_queue_that_cannot_be_used_is_named(snakemake: FakeSnakemake) -> None:
    with pytest.raises(WorkflowError, match="Grain's queue cannot be used: .*name of a queue"):
        snakemake.executor(queue="no/queue")


def test_a_queue_of_another_name_is_used(jobs: JobCommands, snakemake: FakeSnakemake) -> None:
    snakemake.executor(queue="other").run_jobs([FakeJob(jobs.home)])
    assert (jobs.queue.folder.parent / "other/live/jobs-0/1").is_file()


def test_names_of_logs_are_safe() -> None:
    assert log_folder("/one/i_a b%j/../../x\\y.log") == ".snakemake/grain_logs/one/i_a_b_j/x_y"
    assert len(log_folder("/one/" + 300 * "x" + ".log").rpartition("/")[2]) == 100


@pytest.mark.parametrize(
    ("quiet", "cost", "seconds"),
    [(0, 0.001, 0.1), (10, 0.001, 0.5), (100, 0.001, 2.0), (0, 0.02, 0.4), (0, 5.0, 2.0)],
)
def test_the_queue_is_looked_at_more_rarely_when_nothing_happens_or_looks_are_dear(
    quiet: float, cost: float, seconds: float
) -> None:
    assert pause(quiet, cost) == pytest.approx(seconds)
