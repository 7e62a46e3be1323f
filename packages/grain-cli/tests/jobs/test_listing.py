"""`grain jobs`: tables, tasks and JSON."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from grain.cli.jobs.csv_table import LONGEST
from grain.cli.queue.rows import JobRow, jobs_text, tasks_text
from grain.cli.queue.tasks import TaskRow
from grain.queue.arrays import parse_array
from grain.queue.book import Entry
from grain.queue.records import Begun, Dependency, Ended, Wish
from grain.queue.states import Run, Standing
from grain_testkit.command_line import grain
from grain_testkit.queue_world import make_job

if TYPE_CHECKING:
    from pathlib import Path

    from grain_testkit.job_commands import JobCommands


def test_jobs_are_listed_with_their_states(jobs: JobCommands) -> None:
    for name in ("done", "fails", "killed", "runs", "waits"):
        jobs.submit(name)
    jobs.end(1)
    jobs.end(2, status=3)
    jobs.end(3, how="signal", signal=9)
    jobs.begin(4)

    lines = jobs.done("jobs").splitlines()
    assert [
        "QUEUE queue",
        "JOB  NAME    STATE    TASKS  TOOK      HOST  REASON",
    ] == lines[:2]
    assert ["1", "done", "done", "00:01:30", "n17"] == lines[2].split()
    assert ["2", "fails", "failed", "00:01:30", "n17", "exit", "status", "3"] == lines[3].split()
    assert lines[4].endswith("  SIGKILL")
    assert ["4", "runs", "running"] == lines[5].split()[:3]
    assert ["5", "waits", "waiting", "-"] == lines[6].split()
    assert "1 job done, 2 jobs failed, 1 job running, 1 job waiting" == lines[7]


def test_a_job_took_what_its_last_attempt_took_without_its_wait_for_a_worker(
    jobs: JobCommands,
) -> None:
    began = time.time() - 7200
    for number in (jobs.submit(), jobs.submit()):
        jobs.queue.begin(number, None, 1, Begun(at=began, host="n17", worker="w1"))
        jobs.queue.end(number, None, 1, Ended(how="returned", at=began + 30, elapsed=30.0))
    jobs.end(2)

    lines = jobs.done("jobs").splitlines()

    assert ["1", "opt", "waiting", "30", "s"] == lines[2].split()[:5]
    assert ["2", "opt", "done", "00:01:30"] == lines[3].split()[:4]
    assert ["30.000", "90.000"] == [row["JobRuntime"] for row in table(jobs)]


def test_an_array_takes_no_longer_while_none_of_its_tasks_runs(jobs: JobCommands) -> None:
    began = time.time() - 7200
    array = jobs.submit("opt", "1-3")
    jobs.queue.begin(array, 1, 1, Begun(at=began, host="n17", worker="w1"))
    jobs.queue.end(array, 1, 1, Ended(how="exit", at=began + 90, elapsed=90.0))

    assert ["1", "opt", "waiting", "1/3", "00:01:30"] == jobs.done("jobs").splitlines()[2].split()
    jobs.begin(array, 2)
    took = jobs.done("jobs").splitlines()[2].split()[4]
    assert took.startswith("02:0")


def test_a_job_says_for_what_it_waits(jobs: JobCommands) -> None:
    jobs.submit("first")
    jobs.submit("held", held=True)
    jobs.submit("after", after=(Dependency(jobs=(1,)),))
    jobs.submit("later", not_before=time.time() + 3600)
    jobs.end(jobs.submit("bad"), status=1)
    jobs.submit("never", after=(Dependency(jobs=(5,)),))

    reasons = {one["name"]: one["reason"] for one in json.loads(jobs.done("jobs", "--json"))}
    assert {
        "first": "",
        "held": "on hold",
        "after": "for other jobs",
        "later": "for its begin time",
        "bad": "",
        "never": "job 5 did not succeed",
    } == reasons


def test_an_array_waits_for_what_its_next_task_waits_for(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-3")
    jobs.end(1, 1)
    jobs.queue.wish(Wish(what="hold", jobs=((1, 1),)))

    assert jobs.done("jobs").splitlines()[2].endswith("  on hold")


def test_an_array_has_one_line_and_its_tasks_have_one_each(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-4")
    jobs.submit()
    jobs.end(1, 1)
    jobs.end(1, 2, how="timeout", message="ended at its time limit of 60 s")
    jobs.begin(1, 3)

    line = jobs.done("jobs").splitlines()[2]
    assert "running  2/4" in line
    assert line.endswith("  1 without success")
    lines = jobs.done("jobs", "1").splitlines()
    assert "JOB 1 (opt)" == lines[0]
    assert ["1_1", "done", "1", "00:01:30", "n17"] == lines[2].split()
    assert lines[3].endswith("  n17   ended at its time limit of 60 s")
    assert ["1_3", "running", "1"] == lines[4].split()[:3]
    assert ["1_4", "waiting", "-"] == lines[5].split()


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ((), [1, 2, 3]),
        (("2-3",), [2, 3]),
        (("3,1",), [1, 3]),
        (("2", "3"), [2, 3]),
        (("last",), [3]),
        (("all",), [1, 2, 3]),
        (("2-999999999999",), [2, 3]),
    ],
)
def test_jobs_are_selected(jobs: JobCommands, words: tuple[str, ...], numbers: list[int]) -> None:
    for _ in range(3):
        jobs.submit()

    assert numbers == [one["job"] for one in json.loads(jobs.done("jobs", "--json", *words))]


def test_the_name_of_a_queue_goes_before_its_jobs(jobs: JobCommands) -> None:
    jobs.submit("day")
    jobs.done("submit", "--queue", "night", "-J", "late", "true")

    [late] = json.loads(jobs.done("jobs", "--json", "night:1"))
    assert ("late", "night") == (late["name"], late["queue"])
    [day] = json.loads(jobs.done("jobs", "--json", "--queue", "night", "queue:all"))
    assert "day" == day["name"]
    assert "jobs of several queues (night, queue)" in jobs.refused("jobs", "1", "night:1")
    assert "there is no job 7" in jobs.refused("jobs", "night:7")
    assert "there is no queue in" in jobs.refused("jobs", "morning:1")


def test_tasks_are_selected(jobs: JobCommands) -> None:
    jobs.submit("opt", "1-9")

    text = jobs.done("jobs", "1_[2-3,7]")
    assert ["1_2", "1_3", "1_7"] == [line.split()[0] for line in text.splitlines()[2:]]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("7", "there is no job 7: the last one is 2"),
        ("1_12", "job 1 has no such task: its array is 1-9"),
        ("2_1", "job 2 is not an array"),
        ("x", "'x' names no jobs; write 12"),
        ("3-2", "ends before it begins"),
    ],
)
def test_what_is_not_there_is_named(jobs: JobCommands, word: str, message: str) -> None:
    jobs.submit("opt", "1-9")
    jobs.submit()

    assert message in jobs.refused("jobs", word)


def test_an_empty_queue_says_how_to_fill_it(jobs: JobCommands) -> None:
    assert "no jobs are in queue queue: `grain submit` puts one there\n" == jobs.done("jobs")
    assert "the queue is empty" in jobs.refused("jobs", "1")
    assert [] == json.loads(jobs.done("jobs", "--json"))


def test_nothing_was_ever_submitted(alone: Path) -> None:
    assert "[]\n" == grain("jobs", "--json").stdout
    assert "no jobs are in queue queue" in grain("jobs").stdout
    assert 1 == grain("jobs", "1").exit_code


def test_a_queue_that_is_not_there_is_named(jobs: JobCommands) -> None:
    message = jobs.refused("jobs", "--queue", "night")
    assert "there is no queue in" in message
    assert message.endswith("queues/night: grain submit makes it\n")


def test_jobs_that_ended_long_ago_are_listed_on_request(jobs: JobCommands) -> None:
    jobs.submit("old")
    jobs.end(1, at=time.time() - 2 * 86400)

    assert "`grain jobs --all` lists others" in jobs.done("jobs")
    assert "old" in jobs.done("jobs", "--all")
    assert "1     done" in jobs.done("jobs", "1")


def test_the_attempts_of_a_job_are_in_its_json(jobs: JobCommands) -> None:
    jobs.submit(retries=1)
    jobs.end(1, status=3)
    jobs.end(1)

    [one] = json.loads(jobs.done("jobs", "--json"))
    assert ("done", 1, 1, 0) == (one["state"], one["tasks"], one["ended"], one["unsuccessful"])
    assert [(1, 3), (2, 0)] == [
        (run["attempt"], run["exit_status"]) for run in one["attempts"]["1"]
    ]


def test_what_a_job_asked_for_is_in_its_json(jobs: JobCommands) -> None:
    jobs.submit(request={"Cores": 2, "Memory": 4}, timeout=60.0)

    [one] = json.loads(jobs.done("jobs", "--json"))
    assert ({"Cores": 2, "Memory": 4}, 60.0) == (one["request"], one["time_limit"])
    assert ("ann", "queue") == (one["user"], one["queue"])


def test_a_list_says_that_no_dispatcher_runs(idle: JobCommands) -> None:
    idle.submit()
    hint = "no dispatcher runs: `grain queue start` starts one\n"
    assert idle.done("jobs").endswith(hint)

    idle.end(1)
    assert hint not in idle.done("jobs")


ROWS = [
    JobRow(7, "a-rather-long-name-of-a-job.sh", "waiting", "dependency", 0, 1, 0, None, "", ""),
    JobRow(8, "opt", "failed", "", 1, 1, 1, 3725.0, "node0017", "exit status 3"),
    JobRow(9, "array", "running", "", 1200, 100_000, 3, 90.0, "", "3 without success"),
]


def test_a_table_of_jobs_fits_a_terminal_of_80_columns() -> None:
    lines = jobs_text("night", ROWS, 80).splitlines()
    assert max(map(len, lines)) <= 80
    # There is no room for a column of reasons.
    assert ["for other jobs", "exit status 3"] == [lines[3].strip(), lines[5].strip()]
    assert lines[4].endswith("  01:02:05  node0017")
    assert "1200/100000" in lines[6]
    assert jobs_text("night", ROWS, 64).splitlines()[4].endswith("  01:02:05  node0017")
    assert jobs_text("night", ROWS, 120).splitlines()[3].endswith("  node0017  exit status 3")


def test_a_table_of_jobs_on_a_narrow_terminal_has_states_and_no_times() -> None:
    lines = jobs_text("night", ROWS, 40).splitlines()
    assert max(map(len, lines)) <= 40
    assert ["JOB", "NAME", "STATE", "TASKS"] == lines[1].split()
    assert ["waiting", "for other jobs"] == [lines[2].split()[2], lines[3].strip()]


def test_a_table_of_tasks_fits_terminals() -> None:
    run = Run(1, 0.0, "node0017", "w1", "exit", 5.0, status=3, elapsed=3725.0)
    entry = Entry(12, make_job("opt", array=parse_array("1-2")))
    rows = [
        TaskRow(entry, 1, Standing("FAILED", "", 1, run), 10.0),
        TaskRow(entry, 2, Standing("PENDING", "never", 1), 10.0),
    ]
    wide = tasks_text(12, "opt", rows, 80).splitlines()
    assert ["12_1", "failed", "1", "01:02:05", "node0017", "exit status 3"] == [
        cell for cell in map(str.strip, wide[2].split("  ")) if cell
    ]
    narrow = tasks_text(12, "opt", rows, 40).splitlines()
    assert max(map(len, narrow)) <= 40
    assert ["TASK", "STATE"] == narrow[1].split()
    assert ["12_1", "failed"] == narrow[2].split()
    assert "  exit status 3" == narrow[3]


def table(jobs: JobCommands, *words: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(jobs.done("jobs", "--csv", *words))))


def test_a_table_has_inputs_ends_and_outputs(jobs: JobCommands) -> None:
    jobs.done(
        "submit", "--csv", "-", "--header", ":", "-H", "--", "echo", "{T}",
        input='molecule,T\n"my ""water""",300\nethanol,350\nmethane,400\nx,1\n',
    )  # fmt: skip
    for task, how in (
        (1, {}),
        (2, {"status": 3, "elapsed": 1.5}),
        (3, {"how": "timeout", "signal": 15}),
    ):
        jobs.begin(1, task)
        jobs.end(1, task, **how)
    (jobs.home / "job-1_1.out").write_bytes(b'a,b\n"c"\xff\n')

    rows = table(jobs, "1")
    assert [
        "Job", "Task", "State", "Attempt", "Host", "Starttime", "JobRuntime", "Exitval", "Signal",
        "molecule", "T", "Stdout", "Stderr",
    ] == list(rows[0])  # fmt: skip
    assert 'my "water"' == rows[0]["molecule"]
    assert ["done", "failed", "timed out", "waiting"] == [row["State"] for row in rows]
    assert [("0", "0"), ("3", "0"), ("-1", "15"), ("", "")] == [
        (row["Exitval"], row["Signal"]) for row in rows
    ]
    assert ["90.000", "1.500", "90.000", ""] == [row["JobRuntime"] for row in rows]
    assert ["n17", "n17", "n17", ""] == [row["Host"] for row in rows]
    assert ["300", "350", "400", "1"] == [row["T"] for row in rows]
    assert ["", "", ""] == [row["Stdout"] for row in rows[1:]]
    assert b',"a,b\n""c""\xff\n",\n' in jobs.grain("jobs", "--csv", "1").stdout_bytes
    assert ["2"] == [row["Task"] for row in table(jobs, "1_2")]


def test_a_table_of_several_jobs_has_the_columns_of_all(jobs: JobCommands) -> None:
    jobs.submit(stderr="err-%j")
    jobs.done("submit", "--csv", "-", "--", "echo", input="a,b\nc\n")
    jobs.done("submit", "--from-json", "-", "--", "echo", input='[{"x": 1}]')
    (jobs.home / "err-1").write_text("bad\n")

    rows = table(jobs)
    assert [
        ("1", "", "", "", "", "bad\n"),
        ("2", "1", "a", "b", "", ""),
        ("2", "2", "c", "", "", ""),
        ("3", "1", "", "", "1", ""),
    ] == [(row["Job"], row["Task"], row["V1"], row["V2"], row["x"], row["Stderr"]) for row in rows]


def test_a_table_of_no_jobs_has_a_head(jobs: JobCommands) -> None:
    assert [] == table(jobs)
    assert jobs.done("jobs", "--csv").startswith("Job,Task,State,")
    assert "exclude each other" in jobs.refused("jobs", "--csv", "--json")


def test_a_job_on_several_workers_is_listed_with_all_hosts(jobs: JobCommands) -> None:
    jobs.begin(jobs.submit("wide"), others=("n18", "n19"))

    assert "n[17-19]" == jobs.done("jobs").splitlines()[2].split()[-1]
    assert "n[17-19]" == jobs.done("jobs", "1").splitlines()[2].split()[-1]
    [found] = json.loads(jobs.done("jobs", "--json"))
    [attempt] = found["attempts"]["1"]
    assert ("n17", ["n17", "n18", "n19"]) == (attempt["host"], attempt["hosts"])
    assert "on worker w1 (n17) and 2 others (n[18-19]), from " in jobs.done("why", "1")


def test_a_cell_has_the_end_of_an_output_of_gigabytes(jobs: JobCommands) -> None:
    jobs.submit()
    jobs.end(1)
    with (jobs.home / "job-1.out").open("wb") as file:
        file.truncate(3_000_000_000)
        file.seek(0, os.SEEK_END)
        file.write(b"x" * (LONGEST - 4) + b"\nend")
    line = f"ulimit -v 400000; exec {sys.executable} -m grain.cli jobs --csv 1"
    done = subprocess.run(["bash", "-c", line], stdout=subprocess.PIPE, check=True, text=True)
    csv.field_size_limit(2 * LONGEST)
    [row] = csv.DictReader(io.StringIO(done.stdout))
    note, _, rest = row["Stdout"].partition("\n")
    assert f"(grain: 3,000,000,000 bytes before this are only in {jobs.home}/job-1.out)" == note
    assert rest == "x" * (LONGEST - 4) + "\nend"


def test_an_output_that_is_a_named_pipe_or_a_device_holds_up_no_command(
    jobs: JobCommands,
) -> None:
    os.mkfifo(jobs.home / "job-1.out")
    jobs.submit(stderr="/dev/zero")
    [row] = table(jobs, "1")
    assert ("", "") == (row["Stdout"], row["Stderr"])
    assert "nothing was written yet" in jobs.refused("logs", "queue:1")
