"""The missions that words mean, for all commands alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from grain.cli import main
from grain.cli.mission_names import find_log, id_of, log_of, start_of, store_of
from grain.cli.mission_records import (
    MissionStart,
    Process,
    StartRecord,
    make,
    missions_folder,
    read,
    write,
)
from grain.config import load
from grain.edge.questions import FoundAnswer
from grain.eventlog.errors import NoSuchLog
from grain.eventlog.names import folder_name, logs_folder
from grain.eventlog.schema import LogEnded, LogStarted, RunEnded, TaskSubmitted, encode
from grain_testkit import states

if TYPE_CHECKING:
    from pathlib import Path

NIGHT = Process(host="login1", kernel="k", pid=77, began=1, keeper=76, keeper_began=1)


def grain(*words: str) -> Result:
    return CliRunner().invoke(main, ["-c", "grain.toml", *words], catch_exceptions=False)


def logged(
    name: str,
    id: str,  # noqa: A002
    began: float,
    ended: float,
    *,
    pid: int = 1,
    number: int = 0,
) -> None:
    """Leave the log of a mission that has ended, with one task."""
    import os

    file = logs_folder() / folder_name(began, name, id, number) / "events.jsonl"
    file.parent.mkdir(parents=True)
    lines = (
        LogStarted(
            time=began, version=1, grain="1", id=id, name=name, host="login1",
            pid=pid,
        ),
        TaskSubmitted(time=began, task=1, function=f"of_{id}"),
        RunEnded(time=ended, task=1, outcome="value", started=began, ended=ended),
        LogEnded(time=ended, status="done"),
    )  # fmt: skip
    file.write_bytes(b"".join(encode(line) for line in lines))
    os.utime(file, (ended, ended))


def started(name: str, at: float, process: Process) -> StartRecord:
    """Leave the record of a start by `grain run`."""
    start = MissionStart(name=name, command=("./x",), directory="/", environment={}, at=at)
    write(make(missions_folder(), start).folder, "process.json", process)
    return read(missions_folder(), name)[-1]


@pytest.fixture
def site(alone: Path) -> Path:
    """Four missions called opt, the first without a label; and one that `grain run` started."""
    (alone / "grain.toml").write_text(f'address = "unix://{alone}/socket"\n')
    logged("opt", "aaaa1111", 1000.0, 1100.0)
    logged("opt", "bbbb2222", 1050.0, 1200.0, number=2)
    logged("opt", "cccc3333", 1150.0, 1300.0, number=4)
    logged("opt", "dddd4444", 2000.0, 2100.0, number=5)
    logged("screen", "eeee5555", 3000.0, 3100.0, pid=77)
    return alone


def test_a_label_and_an_id_mean_one_mission_and_a_name_the_last(site: Path) -> None:
    config = load(site / "grain.toml")
    words = ("opt", "opt@2", "opt@4", "opt@5", "bbbb", "aaaa1111")

    found = [find_log(config, word).id for word in words]
    assert ["dddd4444", "bbbb2222", "cccc3333", "dddd4444", "bbbb2222", "aaaa1111"] == found


def test_a_label_that_no_mission_had_lists_those_of_the_name(site: Path) -> None:
    some = r"no log of 'opt@1' in .*; the latest missions are opt@5 of 1970-\S+ \S+, opt@4 of .*"
    with pytest.raises(NoSuchLog, match=f"{some}, opt@2 of .*, aaaa1111 of "):
        find_log(load(site / "grain.toml"), "opt@1")
    with pytest.raises(NoSuchLog, match=r"no log of 'nope@2' in .* are screen, opt$"):
        find_log(load(site / "grain.toml"), "nope@2")


def test_a_start_by_grain_run_leads_to_its_log_and_back_by_its_process(site: Path) -> None:
    """Its label and its name, even if the program calls its mission otherwise."""
    config = load(site / "grain.toml")
    started("night", 100.0, NIGHT)
    record = started("night", 2999.0, NIGHT)
    log = find_log(config, "night@2")

    assert "eeee5555" == log.id == find_log(config, "night").id
    assert log == log_of(store_of(config), record)
    assert "night@2" == (start_of(log) or pytest.fail("no start")).label
    assert None is start_of(find_log(config, "opt"))
    assert "eeee5555" == id_of(config, "night@2") == id_of(config, "night")


def test_a_scheduler_is_asked_for_the_id_of_a_mission_where_its_log_tells_it(site: Path) -> None:
    """Of a name, only that of a mission which runs: the scheduler may have others, without logs."""
    config = load(site / "grain.toml")
    words = ("opt@2", "opt", "bbbb2222", "opt@9", "none")

    assert ["bbbb2222", "opt", "bbbb2222", "opt@9", "none"] == [
        id_of(config, word) for word in words
    ]


@pytest.mark.parametrize(
    ("word", "function"),
    [("opt@2", "of_bbbb2222"), ("night@1", "of_eeee5555"), ("cccc", "of_cccc3333")],
)
def test_every_command_takes_a_label(site: Path, word: str, function: str) -> None:
    started("night", 2999.0, NIGHT)

    assert f"\n{function} " in grain("history", word).output
    assert f"it calls {function}" in grain("why", f"{word}:1").output
    assert "Note: run 1 returned a value after " in grain("logs", f"{word}:1").output
    assert function in grain("report", "-o", "-", word).output


def test_attach_takes_what_other_commands_call_a_mission(site: Path) -> None:
    started("night", 2999.0, NIGHT)

    assert "night@1" in grain("attach", "screen").output
    other = grain("attach", "opt@2").output
    assert other.startswith("Error: mission opt@2 was not started by `grain run`: its output is ")


def test_cancel_takes_a_label_of_grain_missions_that_the_scheduler_does_not_know(
    site: Path, answering: Any
) -> None:
    started("night", 2999.0, NIGHT)
    screen = states.mission("screen", id="eeee5555")
    here, answer = states.state(missions=[screen]), FoundAnswer(screen, state="running")
    with answering(f"unix://{site}/socket", state=here, cancel=answer) as scheduler:
        done = grain("cancel", "--patience", "60", "night@1:1")

    assert "task screen:1 is cancelled; it ran, and its programs end\n" == done.output
    assert [("cancel", "eeee5555", 1)] == [
        (ask.about, ask.mission, ask.task) for ask in scheduler.asked if ask.about == "cancel"
    ]


def test_a_mission_of_another_host_without_a_sign_of_life_was_killed(site: Path) -> None:
    """`grain run` leaves that sign; of others nothing is known for two days."""
    for name, id_ in (("night", "ffff6666"), ("other", "ffff7777")):
        pid, number = (88, 1) if name == "night" else (99, 0)
        logged(name, id_, 4000.0, 4100.0, pid=pid, number=number)
        log = find_log(load(site / "grain.toml"), id_)
        lines = (log.folder / "events.jsonl").read_bytes().splitlines(keepends=True)
        (log.folder / "events.jsonl").write_bytes(b"".join(lines[:-1]))
    started("night", 3999.0, replace(NIGHT, pid=88))

    states = {line.split()[0]: line.split()[4] for line in grain("history").output.splitlines()[2:]
              if not line.startswith(" ")}  # fmt: skip
    assert ("killed", "running") == (states["night@1"], states["other"])
