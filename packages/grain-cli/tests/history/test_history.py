"""`grain history`: missions and their tasks, from logs that were written by hand."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Literal

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import fields, replace

from grain.cli import completion, main
from grain.cli.history.kept import _Kept
from grain.cli.history.summary import LogSummary, Summariser, _kept_function
from grain.cli.history.text import failures_text
from grain.eventlog.causes import RunFailure
from grain.eventlog.schema import (
    VERSION,
    CachedResults,
    ClockChanged,
    Remark,
    RunEnded,
    TaskStarted,
    TaskSubmitted,
    encode,
)
from grain.eventlog.usage import Usage
from grain.facts.amounts import Histogram
from grain.facts.rows import HISTOGRAMS, Cause, Function, Run
from grain.files.forms import structs_in
from grain_testkit.campaign import Campaign
from grain_testkit.small_log import BEGAN, END, HEADER, body, learned, write

if TYPE_CHECKING:
    from pathlib import Path

    from grain.eventlog.schema import AnyLine


def history(*words: str) -> Result:
    return CliRunner().invoke(main, ["history", *words], catch_exceptions=False)


def data(*words: str) -> Any:
    done = history("--json", *words)
    assert 0 == done.exit_code, done.output
    return json.loads(done.stdout)


@pytest.fixture
def opt(alone: Path) -> Path:
    return write(HEADER, [*body(), END])


@pytest.mark.usefixtures("opt")
def test_missions_are_listed_with_their_counts() -> None:
    [mission] = data()

    assert ("opt", "failed", 900.0) == (mission["name"], mission["state"], mission["seconds"])
    assert "python opt.py --level 2" == mission["command"]
    # The third and the fourth are two attempts at one task.
    counts = [mission[name] for name in ("tasks", "done", "failed", "running", "retried_runs")]
    assert [4, 2, 1, 1, 2] == counts
    assert 4 * (360 + 100 + 360 + 400 + 100) / 3600 == pytest.approx(mission["core_hours"])
    assert 4 * (100 + 400 + 100) / 3600 == pytest.approx(mission["wasted_core_hours"])
    lines = history().stdout.splitlines()
    assert ["00:15:00", "failed", "2", "1", "1.47"] == lines[2].split()[3:]
    assert "  a1b2c3d4 on login1: python opt.py --level 2" == lines[3]


@pytest.mark.usefixtures("opt")
@pytest.mark.parametrize("words", [(), ("opt",), ("--failed", "opt")])
def test_a_terminal_of_40_columns_has_lines_of_40(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the table lacks stands below."""
    monkeypatch.setenv("COLUMNS", "40")
    lines = history(*words).stdout.splitlines()

    commands = [line for line in lines if not line.startswith("Why tasks have failed: grain")]
    assert max(map(len, commands)) <= 40
    assert any("core-hours" in line for line in lines) or "--failed" in words


def test_a_long_name_is_shortened_and_not_the_date_beside_it(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ended = replace(END, status="interrupted")
    write(replace(HEADER, name="screening-of-all-molecules"), [*body(), ended])

    row = history().stdout.splitlines()[2]
    assert re.match(r"scree\S*\.\.\.\S+ +2026-03-0\d \d\d:\d\d  ", row)


def test_the_list_has_the_labels_of_missions_and_their_names_in_the_other_forms() -> None:
    write(replace(HEADER, label="opt@7", time=BEGAN + 60), [END])
    write(HEADER, [END])

    assert ["opt@7", "opt"] == [line.split()[0] for line in history().stdout.splitlines()[2::2]]
    assert [("opt", "opt@7"), ("opt", "")] == [(one["name"], one["label"]) for one in data()]


def test_each_further_attempt_takes_back_the_failure_of_the_one_before() -> None:
    """All of them name the first one."""
    lines: list[AnyLine] = [HEADER]
    for number in range(1, 5):
        first = 1 if number > 1 else 0
        outcome: Literal["value", "error"] = "value" if number == 4 else "error"
        lines += [
            TaskSubmitted(time=BEGAN + number, task=number, function="fn", retry_of=first),
            TaskStarted(time=BEGAN + number, task=number, worker="w1"),
            RunEnded(
                time=BEGAN + number + 0.5,
                task=number,
                outcome=outcome,
                failure=RunFailure("OSError"),
            ),
        ]

    summariser = Summariser()
    counts = []
    for number, line in enumerate(lines, 1):
        summariser.feed(line)
        if number in (4, 5, 10, 13):
            counts.append(summariser.summary().total)

    assert [1, 0, 1, 0] == [one.failed for one in counts]
    assert (1, 1, 3) == (counts[-1].tasks, counts[-1].done, counts[-1].retried)


@pytest.mark.usefixtures("opt")
def test_a_mission_shows_its_tasks_by_function_and_outcome() -> None:
    text = history("opt").stdout

    assert "4 tasks: 2 done, 1 failed, 1 running at the end" in text
    assert "it ended with ExternalError: no convergence" in text
    lines = text.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("optimise"))
    cells = [cell.strip() for cell in lines[at].split("  ") if cell]
    assert ["2", "1", "00:06:00", "00:06:00", "3.1 of 8 GB", "1.47"] == cells[1:]
    assert "  and 1 running" == lines[at + 1]
    functions = data("opt")["functions"]
    assert (2, 3.1) == (functions["optimise"]["done"], functions["optimise"]["peak_memory"])


@pytest.mark.usefixtures("alone")
def test_memory_that_was_learned_is_explained_in_a_line_and_in_the_data() -> None:
    write(HEADER, [*learned(), END])
    text = (
        "opt asked for 2.4 GB: 2 of 3 runs needed no more (median 2, largest 5.5); 1 attempt had "
        "too little"
    )
    for _ in range(2):  # the second time from the summary that is kept
        assert text in " ".join(history("opt").stdout.split())
        [row] = data("opt")["functions"]["optimise"]["learned"]
        assert row == {
            "group": "opt", "runs": 3, "exceeded": 1, "median": 2.0, "largest": 5.5, "asks": 2.4,
            "text": text, "maxima": [],
        }  # fmt: skip
    [_, *rows] = csv.reader(io.StringIO(history("--csv", "opt").stdout))
    assert all("32.0" not in row for row in rows)


@pytest.mark.usefixtures("alone")
def test_times_without_a_value_and_memory_without_a_request_are_not_shown() -> None:
    used = Usage(peak_memory=0.5, measured_by="polling", programs=1)
    bad = TaskSubmitted(time=BEGAN, task=1, function="bad", request={"Cores": 1})
    failed = RunEnded(
        time=BEGAN + 9, task=1, outcome="error", worker="w", started=BEGAN, ended=BEGAN + 9,
        usage=used,
    )  # fmt: skip
    write(HEADER, [bad, failed, END])
    row = next(line for line in history("opt").stdout.splitlines() if line.startswith("bad"))
    cells = [cell.strip() for cell in row.split("  ") if cell]

    assert ["0", "1", "-", "-", "0.5 GB", "0.0025"] == cells[1:]


@pytest.mark.usefixtures("opt")
def test_failures_are_grouped_by_cause() -> None:
    lines = history("--failed", "opt").stdout.splitlines()

    at = next(at for at, line in enumerate(lines) if "exit 2" in line)
    assert ["optimise", "2", "1", "3"] == lines[at - 1].split()
    assert "exit 2: no convergence" == lines[at].strip()
    assert "as in: xtb a.xyz --opt: exit code 2: no convergence" == lines[at + 1].strip()
    assert "all of them on w1" == lines[at + 2].strip()


def with_calls(calls: dict[int, str]) -> list[AnyLine]:
    """Return the tasks of `body`, and as many that have failed with these calls."""
    lines = body()
    for task, call in calls.items():
        lines += [
            TaskSubmitted(time=BEGAN + task, task=task, function="optimise"),
            RunEnded(
                time=BEGAN + task, task=task, outcome="error", call=call,
                failure=RunFailure("ValueError", "bad"),
            ),
        ]  # fmt: skip
    return lines


@pytest.mark.usefixtures("alone")
def test_failures_name_their_calls_and_the_command_that_lists_all() -> None:
    write(HEADER, with_calls({task: f"optimise('m{task}.xyz')" for task in range(10, 15)}))

    text = " ".join(history("--failed", "opt").stdout.split())

    calls = "calls: optimise('m10.xyz'), optimise('m11.xyz'), optimise('m12.xyz') and 2 more"
    assert f"optimise 5 0 10 ValueError: bad {calls} optimise 2" in text
    assert text.endswith("one in a line: grain history --calls opt")
    causes = data("--failed", "opt")["causes"]
    assert {"task": 10, "call": "optimise('m10.xyz')"} == causes[0]["calls"][0]
    rows = list(csv.DictReader(io.StringIO(history("--csv", "--failed", "opt").stdout)))
    assert ["", "", "", "optimise('m10.xyz')"] == [row["call"] for row in rows[:4]]


@pytest.mark.usefixtures("alone")
def test_the_calls_that_failed_stand_one_in_a_line_behind_their_causes() -> None:
    """What is not a whole call is a comment, so that it is not run."""
    calls = {10: "optimise('m10.xyz')", 11: "optimise('m…11.xyz')", 12: "", 13: "xtb 'a b'"}
    write(HEADER, with_calls(calls))

    done = history("--calls", "opt")

    assert [
        "# 4 calls of optimise: ValueError: bad",
        "optimise('m10.xyz')",
        "# task 11, of whose call the log has a part: optimise('m…11.xyz')",
        "# task 12, whose call is not in the log",
        "xtb 'a b'",
        "# 1 call of optimise: exit 2: no convergence",
        "# task 4, whose call is not in the log",
    ] == done.stdout.splitlines()
    assert done.stdout == history("--failed", "--calls", "opt").stdout
    first, second = data("--calls", "opt")
    assert [{"task": task, "call": call} for task, call in calls.items()] == first["calls"]
    assert ("ExternalError", "optimise") == (second["error"], second["function"])


@pytest.mark.usefixtures("alone")
def test_the_inputs_of_calls_that_failed_are_lines_for_another_program() -> None:
    """Each once, and none of which the log has a part only: it would be another file."""
    calls = [
        "optimise('m 1.xyz', level=2)", "frequencies('m 1.xyz')", "scan(Path('a/b.xyz'), 3)",
        "f(path='c.xyz')", "g(17)", "g(0.5)", "f('it\\'s')",
        "f()", "f('m…xyz')", "f(…)", "f('a\\nb')", "f([1])", "f(<Molecule>)", "xtb mol7.xyz --opt",
        "f(True)", "f(Path())", "f(g('x'))", "'text'", "", "f(-)", "f('\\d' 'e')", "f('')",
        f"f(0x{'f' * 9000})",  # which Python does not print
    ]  # fmt: skip
    write(HEADER, with_calls(dict(enumerate(calls, 10))))

    done = history("--inputs", "opt")

    inputs = ["m 1.xyz", "a/b.xyz", "c.xyz", "17", "0.5", "it's", "\\de"]
    assert inputs == done.stdout.splitlines()
    assert "16 more failed" in done.stderr  # and that without a call in the log
    assert inputs == json.loads(history("--inputs", "--json", "opt").stdout)


@pytest.mark.usefixtures("alone")
def test_a_call_cannot_control_a_terminal_or_end_its_line() -> None:
    """Tried: Escapes in calls of an event log, which `grain history --calls` lists to be copied.
    Result: a comment with question marks.
    """
    write(HEADER, with_calls({10: "f('\x1b[2J\nrm -r x')"}))

    text = history("--calls", "opt").stdout

    assert "\x1b" not in text
    # As a comment: with a question mark in the place of a character it is another call.
    [line] = [one for one in text.splitlines() if one.endswith("f('?[2J?rm -r x')")]
    assert line.startswith("# task 10, of whose call")
    assert "\x1b" not in history("--failed", "opt").stdout


def test_rare_causes_are_counted_with_their_runs() -> None:
    causes = [
        Cause(runs=3, final=3, first=Run(task=at, function="f", failure=RunFailure("E", f"p{at}")))
        for at in range(23)
    ]

    text = failures_text(LogSummary(causes=causes), 80)
    assert text.endswith("9 more runs failed for 3 other causes; --json has all of them\n")
    text = failures_text(LogSummary(causes=causes[:21]), 80)
    assert text.endswith("3 more runs failed for 1 other cause; --json has all of them\n")


@pytest.mark.usefixtures("alone")
def test_failures_that_differ_in_a_word_of_the_command_have_one_cause() -> None:
    write(HEADER, [*Campaign(63).lines()][1:])

    failed = history("--failed", "opt").stdout
    causes = [line for line in failed.splitlines() if line.startswith("  exit ")]
    assert [
        "  exit 128: SCF did not converge in 250 cycles",
        "  exit 25: the basis set has no such element",
    ] == causes


@pytest.mark.usefixtures("opt")
def test_a_row_for_each_run_and_each_open_task() -> None:
    rows = list(csv.DictReader(io.StringIO(history("--csv", "opt").stdout)))

    assert ["lost", "value", "error", "value", "error", "running"] == [r["outcome"] for r in rows]
    assert ("", "") == (rows[-1]["attempt"], rows[-1]["ended"])  # it goes on
    assert ["2", "1", "3", "2", "4", "5"] == [row["task"] for row in rows]
    names = ("run_seconds", "cpu_user_seconds", "peak_memory_gb", "memory_gb", "exit_statuses")
    assert ["360.0", "720.0", "3.1", "8.0", "0:1"] == [rows[1][name] for name in names]
    assert ["10.0", "", "3"] == [rows[1]["waited_seconds"], rows[1]["error"], rows[4]["retry_of"]]
    failed = csv.DictReader(io.StringIO(history("--csv", "--failed", "opt").stdout))
    assert ["lost", "error", "error"] == [row["outcome"] for row in failed]


@pytest.mark.usefixtures("opt")
def test_a_parquet_file_has_the_same_rows(alone: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")

    assert 0 == history("--parquet", "runs.parquet", "opt").exit_code

    table = parquet.read_table(alone / "runs.parquet")
    assert [2, 1, 3, 2, 4, 5] == table.column("task").to_pylist()
    assert [None, 3.1] == table.column("peak_memory_gb").to_pylist()[:2]
    assert ["runs.parquet"] == [file.name for file in alone.iterdir() if "parquet" in file.name]


@pytest.mark.usefixtures("opt")
def test_without_pyarrow_a_sentence_says_what_to_install(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    done = history("--parquet", "runs.parquet", "opt")

    assert 2 == done.exit_code
    assert "pip install pyarrow" in done.stderr
    assert not (alone / "runs.parquet").exists()


@pytest.mark.usefixtures("opt")
def test_a_summary_with_other_fields_is_made_again(alone: Path) -> None:
    data()
    [kept] = (alone / "cache" / "grain" / "summaries").iterdir()
    made = kept.read_bytes()
    planted = made.replace(b'"name":"opt"', b'"name":"kept"')
    kept.write_bytes(planted)
    assert "kept" == data()[0]["name"]
    kept.write_bytes(re.sub(rb'"version":\d+', b'"version":5', planted))
    assert "opt" == data()[0]["name"]
    assert made == kept.read_bytes()


def test_every_field_of_what_is_kept_belongs_to_its_version() -> None:
    assert {LogSummary, Function, Histogram, Cause, Run} <= set(structs_in(_Kept))


def test_of_a_kept_function_no_single_amounts_are_kept() -> None:
    """Of each field that has such."""
    function = Function(name="f")
    for name in HISTOGRAMS:
        getattr(function, name).add(2.0)
    kept = _kept_function(function)

    for field in fields(Function):
        value = getattr(kept, field.name)
        assert not isinstance(value, Histogram) or (1, {}) == (value.count, value.counts)
    assert function.seconds.counts


def test_a_summary_is_kept_until_its_log_changes(opt: Path, alone: Path) -> None:
    assert 2 == data()[0]["done"]
    [kept] = (alone / "cache" / "grain" / "summaries").iterdir()
    kept.write_bytes(kept.read_bytes().replace(b'"name":"opt"', b'"name":"kept"'))
    assert "kept" == data()[0]["name"]

    with (opt / "events.jsonl").open("ab") as log:
        log.write(encode(Remark(time=BEGAN + 901, text="more")))
    assert "opt" == data()[0]["name"]

    (opt / "events.jsonl").unlink()
    opt.rmdir()
    assert [] == data()
    assert not kept.exists()


@pytest.mark.usefixtures("opt")
def test_no_file_of_the_user_is_removed_where_another_user_put_a_link(alone: Path) -> None:
    """Tried: Put a link, or a directory, in the place of a cache, a state or a record, so that
    files of the user are removed or read.
    Result: such a place is refused; only plain files with Grain's own names are removed.
    """
    data()
    summaries = alone / "cache" / "grain" / "summaries"
    own = alone / "own"
    own.mkdir()
    (own / "thesis.tex").touch()
    summaries.rename(own / "before")
    summaries.symlink_to(own)
    summaries.parent.chmod(0o777)  # so that they could

    data()

    assert ["before", "thesis.tex"] == sorted(path.name for path in own.iterdir())


@pytest.mark.usefixtures("opt")
def test_only_summaries_are_removed_and_nothing_changes_where_others_may_write(
    alone: Path,
) -> None:
    folder = alone / "cache" / "grain" / "summaries"
    folder.mkdir(parents=True)
    gone = "20260101-000000-opt-0123456789.json"
    for name in ("thesis.tex", "notes.json", gone, f"{gone}.4711"):
        (folder / name).touch()
    before = {path.name for path in folder.iterdir()}
    (alone / "cache").chmod(0o777)
    data()
    assert before == {path.name for path in folder.iterdir()}  # it may be another directory

    (alone / "cache").chmod(0o700)
    data()
    there = {path.name for path in folder.iterdir()}
    assert {"notes.json", "thesis.tex"} < there
    assert not there & {gone, f"{gone}.4711"}


@pytest.mark.usefixtures("opt")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("how", ["owner", "link"])
def test_a_summary_that_another_user_has_planted_is_not_shown(alone: Path, how: str) -> None:
    data()
    [kept] = (alone / "cache" / "grain" / "summaries").iterdir()
    kept.write_bytes(kept.read_bytes().replace(b'"name":"opt"', b'"name":"planted"'))
    if how == "owner":
        os.chown(kept, 12345, 12345)
    else:
        kept.rename(alone / "elsewhere")
        kept.symlink_to(alone / "elsewhere")

    assert "opt" == data()[0]["name"]


@pytest.mark.usefixtures("opt")
def test_a_damaged_summary_is_made_anew(alone: Path) -> None:
    data()
    [kept] = (alone / "cache" / "grain" / "summaries").iterdir()
    kept.write_text("{")

    assert 2 == data()[0]["done"]


@pytest.mark.usefixtures("alone")
def test_a_mission_without_an_end_runs_or_was_killed() -> None:
    folder = write(HEADER, body())
    before = time.time()
    assert "running" == data()[0]["state"]
    assert "1 running\n" in history("opt").stdout
    # Its log has had no line for a while: its time goes on all the same.
    assert before - BEGAN <= data()[0]["seconds"] <= time.time() - BEGAN
    assert before - BEGAN <= data("opt")["seconds"] <= time.time() - BEGAN

    os.utime(folder / "events.jsonl", (BEGAN, BEGAN))  # months ago

    assert ("killed", 600.0) == (data()[0]["state"], data()[0]["seconds"])
    assert "1 running at the end\n" in history("opt").stdout


@pytest.mark.usefixtures("alone")
def test_a_mission_that_was_killed_here_is_so_at_once() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    write(replace(HEADER, host=socket.gethostname(), pid=gone.pid), body())

    assert "killed" == data()[0]["state"]


@pytest.mark.usefixtures("opt")
def test_a_name_means_the_last_mission_and_an_id_each() -> None:
    write(replace(HEADER, id="f6f7", time=BEGAN + 60), [END])

    named, by_id = history("opt"), history("a1b2c3d4e5")

    assert named.stdout.startswith("opt (f6f7)")
    assert "this is the last of 2 missions of that name; the other is a1b2c3d4 of " in named.stderr
    assert by_id.stdout.startswith("opt (a1b2c3d4)")
    assert "" == by_id.stderr


@pytest.mark.usefixtures("opt")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nope"], "no log of 'nope'"),
        (["o"], "'o' is the beginning of several names or ids"),
        (["--failed"], "name a mission, as in: grain history --failed screening"),
        (["--calls"], "name a mission, as in: grain history --calls screening"),
        (["--calls", "--csv", "o"], "have the calls in a column"),
        (["--inputs"], "name a mission, as in: grain history --inputs screening"),
        (["--json", "--csv"], "choose one of --json, --csv and --parquet"),
        (["grain.toml"], "is not the folder of an event log"),
        (["--csv", "nope"], "no log of 'nope'"),
    ],
)
def test_what_cannot_be_shown_is_a_sentence(alone: Path, words: list[str], sentence: str) -> None:
    write(replace(HEADER, name="orca", id="0f"), [])
    (alone / "grain.toml").write_text("")

    done = history(*words)

    assert done.exit_code in {1, 2}
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("alone")
def test_results_from_the_cache_are_done_and_said_to_be_from_there() -> None:
    cached = [CachedResults(time=BEGAN, function="optimise", results=n) for n in (10, 8)]
    write(HEADER, [*cached, *body(), END])

    assert "  22 tasks: 20 done (18 from the cache), 1 failed, 1 running" in history("opt").stdout
    [mission] = data()
    assert (22, 20, 18) == tuple(mission[name] for name in ("tasks", "done", "cached"))
    assert "18 of those done are from the cache" in history().stdout
    report = CliRunner().invoke(main, ["report", "-o", "opt.html", "opt"])
    assert "20 of 22 tasks done (18 from the cache), 1 failed" in report.stdout


@pytest.mark.usefixtures("alone")
def test_no_logs_at_all_is_a_sentence() -> None:
    done = history()

    assert 0 == done.exit_code
    assert done.stdout.startswith("No mission has left an event log in ")


@pytest.mark.usefixtures("opt")
def test_a_log_of_a_newer_grain_does_not_hide_the_others() -> None:
    write(replace(HEADER, name="later", id="77", version=VERSION + 1), [])

    text = history().stdout

    assert "python opt.py" in text
    assert "was written by a newer Grain" in " ".join(text.split())
    assert 1 == history("later").exit_code


@pytest.mark.usefixtures("alone")
def test_a_log_that_is_cut_and_whose_clock_jumped_is_counted() -> None:
    lines = body()
    jump = ClockChanged(time=BEGAN + 430 - 5000, by=-5000.0)
    folder = write(
        HEADER, [*lines[:12], jump, *(replace(line, time=line.time - 5000) for line in lines[12:])]
    )
    with (folder / "events.jsonl").open("ab") as log:
        log.write(b'{"event":"run en')

    before = time.time()
    [mission] = data()
    assert before + 5000 <= BEGAN + mission["seconds"] <= time.time() + 5000

    os.utime(folder / "events.jsonl", (BEGAN, BEGAN))  # it runs no more

    [mission] = data()
    assert (2, 600.0) == (mission["done"], mission["seconds"])


@pytest.mark.usefixtures("opt")
def test_completion_has_the_names_of_missions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(completion, "PATIENCE", 60.0)
    monkeypatch.setenv("_GRAIN_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "grain history o")
    monkeypatch.setenv("COMP_CWORD", "2")

    assert "plain,opt\n" == CliRunner().invoke(main, [], prog_name="grain").output


@pytest.mark.usefixtures("alone")
def test_messages_do_not_control_the_terminal() -> None:
    evil = [
        replace(line, failure=RunFailure("", "\x1b[2J")) if isinstance(line, RunEnded) else line
        for line in body()
    ]
    write(replace(HEADER, command=("\x1b[2J",)), evil)

    text = "".join(
        history(*words).output
        for words in ([], ["opt"], ["--failed", "opt"], ["--csv"], ["--csv", "opt"], ["--json"])
    )

    assert "\x1b" not in text


@pytest.mark.usefixtures("opt")
def test_no_line_is_wider_than_a_terminal_of_80_columns() -> None:
    text = history().stdout + history("opt").stdout + history("--failed", "opt").stdout

    assert 80 >= max(map(len, text.splitlines()))
