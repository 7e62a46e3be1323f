"""Jobs of an earlier run of the workflow, which was killed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from grain.queue.book import Book
from grain.queue.records import Dependency, Wish
from grain_testkit.fake_snakemake import FakeJob
from snakemake_executor_plugin_grain.leftovers import Identity, identity_of

if TYPE_CHECKING:
    from pathlib import Path

    from grain_testkit.fake_snakemake import FakeSnakemake
    from grain_testkit.job_commands import JobCommands


def of(job: FakeJob, home: Path) -> Identity:
    return identity_of(job, str(home / "Snakefile"))


def test_a_job_is_the_same_in_another_run(jobs: JobCommands) -> None:
    first, second = FakeJob(jobs.home), FakeJob(jobs.home, mem_mb=2)
    second.jobid, second.threads, second.attempt = 8, 2, 2
    assert of(first, jobs.home) == of(second, jobs.home)


def test_another_wildcard_or_rule_is_another_job(jobs: JobCommands) -> None:
    found = [
        of(job, jobs.home)
        for job in (
            FakeJob(jobs.home),
            FakeJob(jobs.home, wildcard="b"),
            FakeJob(jobs.home, "two"),
        )
    ]
    assert len({one.parts for one in found}) == 3


def test_what_a_job_does_follows_from_snakefile_parameters_and_input(jobs: JobCommands) -> None:
    file = jobs.home / "input"
    file.write_text("1")
    job = FakeJob(jobs.home)
    job.input = ["input", "missing"]
    found = [of(job, jobs.home)]
    job.params = {"a": 1}
    found.append(of(job, jobs.home))
    file.write_text("22")
    found.append(of(job, jobs.home))
    os.utime(file, ns=(1, 1))
    found.append(of(job, jobs.home))
    (jobs.home / "Snakefile").write_text("rule one: output: 'other'\n")
    found.append(of(job, jobs.home))

    assert len({one.parts for one in found}) == 1
    assert len({one.content for one in found}) == 5


def test_what_waits_is_cancelled_and_submitted_again(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    snakemake.executor().run_jobs([FakeJob(jobs.home)])
    again = FakeJob(jobs.home)
    snakemake.executor().run_jobs([again])

    book = Book.read(jobs.queue)
    assert book.standing(1, None, 0.0).state == "CANCELLED"
    assert again.registered == ["2"]
    assert jobs.queue.job(2).after == ()


def test_what_runs_and_does_the_same_is_taken_over(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    snakemake.executor().run_jobs([FakeJob(jobs.home)])
    jobs.begin(1)
    again = FakeJob(jobs.home)
    snakemake.executor().run_jobs([again])

    assert again.registered == ["1"]
    assert jobs.queue.jobs.end() == 2
    assert "Job 1 of Grain's queue, which an earlier run of Snakemake" in snakemake.printed()
    jobs.end(1)
    snakemake.until_done(again)


def test_what_runs_and_does_something_else_is_cancelled_and_its_end_waited_for(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    snakemake.executor().run_jobs([FakeJob(jobs.home)])
    jobs.begin(1)
    again = FakeJob(jobs.home)
    again.params = {"a": 2}
    snakemake.executor().run_jobs([again])

    assert Book.read(jobs.queue).entries[1].asked(None).cancelled is not None
    assert again.registered == ["2"]
    assert jobs.queue.job(2).after == (Dependency(jobs=(1,), until="any"),)


def test_what_is_being_cancelled_is_not_taken_over(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    snakemake.executor().run_jobs([FakeJob(jobs.home)])
    jobs.begin(1)
    jobs.queue.wish(Wish(what="cancel", jobs=((1, 1),)))
    again = FakeJob(jobs.home)
    snakemake.executor().run_jobs([again])

    assert jobs.queue.job(2).after == (Dependency(jobs=(1,), until="any"),)


def test_a_group_does_not_run_beside_a_job_that_is_in_it(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    snakemake.executor().run_jobs([FakeJob(jobs.home, wildcard=name) for name in "ab"])
    jobs.begin(2)
    snakemake.executor().run_jobs([FakeJob.group(jobs.home, "b", "c")])

    assert jobs.queue.job(3).after == (Dependency(jobs=(2,), until="any"),)
    assert Book.read(jobs.queue).standing(1, None, 0.0).state == "PENDING"


def test_jobs_of_other_workflows_and_of_commands_are_left_alone(
    jobs: JobCommands, snakemake: FakeSnakemake
) -> None:
    jobs.submit("one")
    snakemake.executor().run_jobs([FakeJob(jobs.home)])
    elsewhere = replace(jobs.queue.job(2), directory="/elsewhere")
    jobs.queue.submit(elsewhere)
    jobs.end(2)
    snakemake.executor().run_jobs([FakeJob(jobs.home)])

    assert jobs.queue.job(4).after == ()
    book = Book.read(jobs.queue)
    assert [book.standing(number, None, 0.0).state for number in (1, 3)] == ["PENDING"] * 2
