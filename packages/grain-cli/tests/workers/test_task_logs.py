"""`grain logs NAME:NUMBER`: the lines of a task, and where its programs' output is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.cli.batch import JobRecord, JobRecords
from grain.cli.workers.task_logs import TaskLines
from grain.edge.questions import ProgramsAnswer, ProgramState, WhyAnswer
from grain.eventlog.causes import RunFailure
from grain.eventlog.names import folder_name, logs_folder
from grain.eventlog.schema import LogStarted, RunEnded, TaskSubmitted, encode
from grain.eventlog.usage import Usage
from grain_testkit import states
from grain_testkit.command_line import grain

if TYPE_CHECKING:
    from pathlib import Path


def worker(folder: Path, name: str, log: str) -> None:
    (folder / f"{name}.log").write_text(log)
    records = JobRecords(folder / "state/grain/jobs")
    record = JobRecord(name, "slurm", name, f"{folder}/{name}.log", "edge:///x", "", 1.0)
    records.add(records.new_file(), record)


def event_log(started: float, *lines: Any, mission: str = "1234abcd", number: int = 0) -> None:
    folder = logs_folder() / folder_name(started, "opt", mission, number)
    folder.mkdir(parents=True)
    first = LogStarted(time=started, version=1, grain="1", id=mission, name="opt")
    (folder / "events.jsonl").write_bytes(b"".join(map(encode, (first, *lines))))


def test_the_lines_of_a_task_are_shown_from_all_workers(alone: Path) -> None:
    worker(alone, "w1", "opt:1 energy | one\nopt:17 energy | other\nopt:1 energy | two\nidle\n")
    assert "opt:1 energy | one\nopt:1 energy | two\n" == grain("logs", "opt:1").output
    assert "opt:1 energy | two\n" == grain("logs", "-n", "1", "opt:1").output
    worker(alone, "w2", "opt:1 energy | again\n")
    assert (
        f"==> {alone}/w1.log <==\nopt:1 energy | one\nopt:1 energy | two\n\n"
        f"==> {alone}/w2.log <==\nopt:1 energy | again\n"
    ) == grain("logs", "opt:1").output


def test_the_runs_and_the_files_of_the_programs_come_from_the_event_log(alone: Path) -> None:
    common: dict[str, Any] = {"task": 1, "host": "n17"}
    lost = RunEnded(time=1.0, outcome="lost", worker="w1", final=False, **common)
    ended = RunEnded(
        time=20.0,
        outcome="error",
        worker="w2",
        attempt=2,
        started=5.0,
        ended=15.0,
        failure=RunFailure("ValueError"),
        usage=Usage(outputs=("/job/a.out",)),
        **common,
    )
    event_log(0.0, lost, ended, number=2)
    worker(alone, "w1", "opt:1 (1234abcd) energy | one\n")
    assert (
        "opt:1 (1234abcd) energy | one\n"
        "Note: run 1 on worker w1 (host n17) was lost with its worker\n"
        "Note: run 2 on worker w2 (host n17) raised ValueError after 10 s\n"
        "Note: its programs wrote to /job/a.out\n"
    ) == grain("logs", "opt@2:1").output


def test_output_from_before_the_mission_is_that_of_another_one(alone: Path) -> None:
    worker(alone, "w1", "opt:1 energy | one\n")
    event_log(2e10, RunEnded(time=2e10, task=1, outcome="cancelled"))
    assert "Note: run 1 was cancelled\n" == grain("logs", "opt:1").output


def test_the_programs_of_a_task_that_runs_come_from_the_scheduler(
    alone: Path, answering: Any
) -> None:
    address = f"unix://{alone}/socket"
    (alone / "grain.toml").write_text(f'address = "{address}"\n')
    programs = ProgramsAnswer([ProgramState("xtb coord > /job/xtb.out", 75.0, None, None)])
    with answering(address, why=WhyAnswer(1, "running", []), programs=programs):
        shown = grain("logs", "-c", f"{alone}/grain.toml", "opt:1")
    assert "Note: it has run for 1 min 15 s: xtb coord > /job/xtb.out\n" == shown.output


def test_of_missions_of_one_name_that_run_at_the_same_time_each_has_its_lines(
    alone: Path,
) -> None:
    worker(alone, "w1", "opt:1 (1234abcd) f | first\nopt:1 (99ee00ff) f | second\n")
    task = TaskSubmitted(time=1.0, task=1, function="f")
    event_log(0.0, task)
    event_log(60.0, task, mission="99ee00ff5678", number=4)

    assert "opt:1 (1234abcd) f | first\n" == grain("logs", "1234:1").output
    assert "opt:1 (99ee00ff) f | second\n" == grain("logs", "99ee:1").output
    refused = grain("logs", "opt:1")
    assert 1 == refused.exit_code
    assert (
        "2 missions called 'opt' run: opt@4 (id 99ee00ff), id 1234abcd; name one" in refused.output
    )


def test_a_beginning_of_the_ids_of_several_missions_is_refused_with_those(alone: Path) -> None:
    for at, mission in enumerate(("12aa5678", "12bb5678")):
        event_log(60.0 * at, TaskSubmitted(time=1.0, task=1, function="f"), mission=mission)

    failed = grain("logs", "12:1")
    assert 1 == failed.exit_code
    assert "12aa5678" in failed.output
    assert "12bb5678" in failed.output


def test_lines_of_several_missions_without_a_log_are_not_mixed(alone: Path) -> None:
    worker(alone, "w1", "opt:1 (1234abcd) f | first\nopt:1 (99ee00ff) f | second\n")

    failed = grain("logs", "opt:1")
    assert 1 == failed.exit_code
    assert (
        "Error: several missions called opt have lines of a task 1: 1234abcd, 99ee00ff. "
    ) in failed.output


def test_a_mission_without_a_log_has_its_lines_by_what_the_scheduler_knows(
    alone: Path, answering: Any
) -> None:
    address = f"unix://{alone}/socket"
    (alone / "grain.toml").write_text(f'address = "{address}"\n')
    worker(alone, "w1", "opt:1 (1234abcd) f | first\nopt:1 (99ee00ff) f | second\n")
    here = [
        states.mission("opt", id="1234abcd5678"),
        states.mission("opt", number=2, id="99ee00ff5678"),
    ]
    with answering(address, state=states.state(missions=here)):
        shown = grain("logs", "-c", f"{alone}/grain.toml", "opt@2:1")
    assert "opt:1 (99ee00ff) f | second\n" == shown.output


def test_a_task_without_a_line_is_explained(alone: Path) -> None:
    address = f"unix://{alone}/socket"
    (alone / "grain.toml").write_text(f'address = "{address}"\n')
    worker(alone, "w1", "opt:17 energy | other\n")
    failed = grain("logs", "-c", f"{alone}/grain.toml", "opt:1")
    assert 1 == failed.exit_code
    assert failed.output.startswith(
        "Error: no line of opt:1: none in the output of the 1 job submitted from here."
    )


def test_a_mission_or_a_task_that_there_is_not_is_named_with_those_that_there_are(
    alone: Path,
) -> None:
    event_log(0.0, TaskSubmitted(time=1.0, task=1, function="energy"))

    assert (
        "Error: no mission goes by 'nope'; the last ones are: opt\n"
        == grain("logs", "nope:3").output
    )
    assert "Error: mission opt has no task 3: the last one is 1\n" == grain("logs", "opt:3").output


def test_what_is_appended_is_read_once_by_whole_lines(tmp_path: Path) -> None:
    file, reader = tmp_path / "log", TaskLines("opt", 1)
    file.write_bytes(b"opt:1 f | one\nopt:1 f | tw")
    assert [(file, [b"opt:1 f | one\n"])] == reader.read([file])
    with file.open("ab") as more:
        more.write(b"o\nopt:2 f | no\n")
    assert [(file, [b"opt:1 f | two\n"])] == reader.read([file])
    assert [] == reader.read([file, tmp_path / "missing"])
    file.write_bytes(b"opt:1 f | anew\n")
    assert [(file, [b"opt:1 f | anew\n"])] == reader.read([file])
