"""`grain why` of tasks that have ended, from the logs of their missions."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from grain.cli import main
from grain.edge.questions import CallAnswer, ProgramsAnswer, WhyAnswer
from grain.eventlog.causes import RunFailure
from grain.eventlog.schema import BriefTasks, RunEnded, TaskStarted, TaskSubmitted
from grain.eventlog.soft_stops import STOPPED_SOFTLY
from grain.eventlog.usage import MemberUsage, RunMember, Usage
from grain_testkit.small_log import BEGAN, END, HEADER, body, learned, write

if TYPE_CHECKING:
    from pathlib import Path


NO_CALL, NO_PROGRAMS = CallAnswer(""), ProgramsAnswer([])


@pytest.fixture
def opt(address: str) -> Path:
    return write(HEADER, [*body(), END])


def why(*words: str, patience: float = 0.1) -> Result:
    words = ("why", "--patience", str(patience), *words)
    return CliRunner().invoke(main, [*words], catch_exceptions=False)


def lines(task: str) -> list[str]:
    done = why(task)
    assert 0 == done.exit_code, done.output
    return [line.strip() for line in done.stdout.splitlines()]


def test_a_task_that_was_only_counted_is_one_of_the_brief_ones(address: str) -> None:
    brief = BriefTasks(time=BEGAN + 60, function="look", tasks=1234, began=BEGAN, seconds=9.0)
    write(HEADER, [*body(), brief, END])
    text = lines("opt:1239")

    assert ["task opt:1239 is done", "it calls look"] == text[:2]
    assert text[2].startswith("it was one of 1,234 brief tasks (look), which the log counts")
    assert why("opt:1240").exit_code
    assert "failed on n17" in lines("opt:4")[2]


@pytest.mark.usefixtures("address")
def test_a_task_whose_memory_was_learned_says_how_much_it_got() -> None:
    write(HEADER, [*learned(), END])
    asked = "it asked for Cores(1) & Memory(32, group='opt'), and got"
    first, again = lines("opt:4"), lines("opt:3")
    assert f"{asked} 2.4 GB of memory, as its group opt asked for then" in first
    assert f"{asked} 8 GB of memory in attempt 2 of its group opt, as 4 GB were too little" in again


@pytest.mark.usefixtures("opt")
def test_without_a_scheduler_the_log_says_how_a_task_has_failed() -> None:
    text = lines("opt:4")

    assert ["task opt:4 has failed", "it calls optimise"] == text[:2]
    error = "ExternalError: xtb b.xyz --opt: exit code 2: no convergence"
    assert f"failed on n17 after 2 attempts: {error}" == text[2]
    assert "it asked for Cores(4) & Memory(8)" == text[3]
    assert text[4].startswith("it waited for 0 s, and ran on worker w1 from ")
    assert text[4].endswith(", for 1 min 40 s")
    assert text[5].startswith("before that it failed on n17 after 6 min 40 s, as task 3: Ext")
    assert text[-1].startswith("by the event log of mission opt (a1b2c3d4) of ")
    assert text[-1].endswith(", which has failed")


@pytest.mark.usefixtures("opt")
def test_a_task_that_failed_is_shown_with_its_arguments_from_the_log() -> None:
    """Also while it waits again, after a run that was lost with its worker."""
    call = "optimise('b.xyz')"
    runs = [
        replace(line, call=call) if isinstance(line, RunEnded) and line.outcome != "value" else line
        for line in body()
    ]
    write(replace(HEADER, id="77", name="opt2"), [*runs, END])
    write(replace(HEADER, id="78", name="opt3"), [*runs[:9], END])

    assert ["task opt2:4 has failed", f"it calls {call}"] == lines("opt2:4")[:2]
    assert call == json.loads(why("--json", "opt2:4").stdout)["call"]
    assert f"it calls {call}" in lines("opt3:2")
    assert "call" not in json.loads(why("--json", "opt2:1").stdout)


@pytest.mark.usefixtures("opt")
def test_a_task_that_was_tried_again_names_the_next_attempt() -> None:
    assert "it was tried again, as task 4" in lines("opt:3")


@pytest.mark.usefixtures("opt")
def test_a_task_that_is_done_shows_what_it_used_and_lost_runs() -> None:
    done, again = lines("opt:1"), lines("opt:2")

    assert "task opt:1 is done" == done[0]
    used = "it used 12 min of CPU time and at most 3.1 GB of memory, in 1 program"
    assert used in done
    assert "it returned a value on n17 after 2 attempts" in again
    assert "before that it was lost on n18 after 1 min 40 s" in again


@pytest.mark.usefixtures("opt")
def test_a_task_that_had_not_ended_says_so_and_that_of_a_living_mission_runs() -> None:
    assert "task opt:5 had not ended when its mission did" == lines("opt:5")[0]

    living = write(replace(HEADER, id="77", name="now"), body())

    assert "task now:5 is running" == lines("now:5")[0]
    [runs] = [line for line in lines("now:5") if line.startswith("it runs on worker")]
    # No line has come since, and it has run for a long time by now.
    assert re.search(r", for \d+ d", runs)  # days
    assert not runs.endswith("of the log")
    os.utime(living / "events.jsonl", (BEGAN, BEGAN))
    assert "task now:5 had not ended when its mission did" == lines("now:5")[0]


@pytest.mark.usefixtures("opt")
def test_the_data_have_every_run() -> None:
    answer = json.loads(why("--json", "opt:4").stdout)

    assert ("ended", "error", "opt") == (answer["state"], answer["ended"], answer["mission"])
    assert [(3, 400.0), (4, 100.0)] == [(run["task"], run["seconds"]) for run in answer["runs"]]


@pytest.mark.usefixtures("opt")
@pytest.mark.parametrize("task", ["opt:99", "nope:1"])
def test_a_task_of_no_log_leaves_the_error_of_the_scheduler(task: str) -> None:
    done = why(task)

    assert 1 == done.exit_code
    assert "no scheduler answers" in done.stderr
    assert f"no event log has task {task}" in done.stderr


@pytest.mark.usefixtures("opt")
def test_what_the_scheduler_has_forgotten_is_in_the_log(address: str, answering: Any) -> None:
    forgotten = WhyAnswer(4, "unknown", ["it has ended or was cancelled"])
    with answering(address, why=forgotten, arguments=NO_CALL, programs=NO_PROGRAMS):
        done = why("opt:4", patience=60)

    assert 0 == done.exit_code
    assert "failed on n17 after 2 attempts" in done.stdout


@pytest.mark.usefixtures("opt")
@pytest.mark.parametrize("number", [0, 6])
def test_a_number_that_no_task_has_is_not_taken_for_a_task_that_is_forgotten(
    number: int, address: str, answering: Any
) -> None:
    forgotten = WhyAnswer(number, "unknown", ["it has ended or was cancelled"])
    with answering(address, why=forgotten, arguments=NO_CALL, programs=NO_PROGRAMS):
        done = why(f"opt:{number}", patience=60)

    assert 1 == done.exit_code
    assert "it has ended" not in done.stdout
    never = "  the mission has submitted no task of this number: the last one is 5\n"
    assert f"task opt:{number} is unknown\n{never}" in done.stdout


@pytest.mark.usefixtures("opt")
def test_what_the_scheduler_knows_to_run_is_not_looked_up(address: str, answering: Any) -> None:
    """A mission of the same name may have left a log."""
    running = WhyAnswer(4, "running", ["on w1"])
    with answering(address, why=running, arguments=NO_CALL, programs=NO_PROGRAMS):
        done = why("opt:4", patience=60)

    assert "task opt:4 is running\n  on w1\n" == done.stdout


@pytest.mark.usefixtures("opt")
def test_the_call_that_the_mission_remembers_stays_and_so_does_what_the_scheduler_knows(
    address: str, answering: Any
) -> None:
    ended = WhyAnswer(4, "ended", ["its group has two maxima"], "opt", ended="error")
    call = CallAnswer("optimise('b.xyz')")
    with answering(address, why=ended, arguments=call, programs=NO_PROGRAMS):
        done = why("opt:4", patience=60)

    assert "it calls optimise('b.xyz')" in done.stdout
    assert "failed on n17 after 2 attempts" in done.stdout
    assert "its group has two maxima" in done.stdout


@pytest.mark.usefixtures("address")
def test_an_attempt_that_stopped_softly_is_named_when_the_task_has_ended() -> None:
    soft = RunEnded(
        time=BEGAN + 70, task=77, outcome="returned", worker="w0", started=BEGAN + 61,
        ended=BEGAN + 69, failure=RunFailure(message=STOPPED_SOFTLY), final=False,
    )  # fmt: skip
    done = RunEnded(time=BEGAN + 90, task=77, outcome="value", worker="w1", attempt=2)
    write(HEADER, [TaskSubmitted(time=BEGAN + 60, task=77, function="f"), soft, done, END])

    [line] = [line for line in lines("opt:77") if line.startswith("before that")]
    assert f"it was handed back on w0 after 8 s: {STOPPED_SOFTLY}" in line


def test_a_task_on_several_workers_names_all_of_them(address: str) -> None:
    members = tuple(RunMember(worker=f"w{number}") for number in range(3))
    run = RunEnded(
        time=BEGAN + 70, task=77, outcome="value", worker="w0", started=BEGAN + 61,
        ended=BEGAN + 69, members=members,
    )  # fmt: skip
    going = TaskStarted(time=BEGAN + 80, task=78, worker="w0", members=("w0", "w1", "w2"))
    both = [TaskSubmitted(time=BEGAN + 60, task=task, function="f") for task in (77, 78)]
    write(HEADER, [*body(), *both, run, going, END])

    assert any("ran on workers w[0-2] from" in line for line in lines("opt:77"))
    assert any("it ran on workers w[0-2] since" in line for line in lines("opt:78"))


@pytest.mark.parametrize("count", [2, 10])
def test_a_task_on_several_workers_shows_what_it_used_on_each(address: str, count: int) -> None:
    members = tuple(
        RunMember(worker=f"w{one}", host=f"n{one}", cpus=(0, 1, one + 4)) for one in range(count)
    )
    each = tuple(
        MemberUsage(user=10.0 * one, peak_memory=0.5 * one, measured_by="polling", programs=1)
        for one in range(count)
    )
    run = RunEnded(
        time=BEGAN + 70, task=77, outcome="value", worker="w0", started=BEGAN + 61,
        ended=BEGAN + 69, members=members,
        usage=Usage(user=99.0, peak_memory=4.5, measured_by="polling", programs=2, members=each),
    )  # fmt: skip
    write(HEADER, [*body(), TaskSubmitted(time=BEGAN + 60, task=77, function="f"), run, END])

    said = [line.strip() for line in lines("opt:77") if "it used" in line]

    total = "it used 1 min 39 s of CPU time and at most 4.5 GB of memory on one worker"
    assert f"{total}, in 2 programs" == said[0]
    second = "on w1 (host n1, CPUs 0-1,5) it used 10 s of CPU time and at most 0.5 GB of memory"
    if count == 2:
        assert ("on w0 (host n0, CPUs 0-1,4) it used 0 s of CPU time", second) == (
            said[1].partition(" and")[0], said[2]
        )  # fmt: skip
    else:  # those with the most
        assert ["w9", "w2"] == [said[1].split()[1], said[8].split()[1]]
        assert "on 2 other workers it used less memory" == said[9]
