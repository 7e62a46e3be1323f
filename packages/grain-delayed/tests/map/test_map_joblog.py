"""The result log of ``grain map``, what it says of jobs that come again, and the exit status."""

from __future__ import annotations

import csv
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.map import MapError, RequestError, ResultLogError
from grain.map.errors import sentence_of
from grain.map.failures import FailureGroups
from grain.map.halting import Halt, Tally, parse_halt
from grain.map.inputs.requests import parse_jobs, parse_request, parse_supply
from grain.map.job_log.entries import HEADER, History, JobLogEntry, Past, read_line
from grain.map.job_log.file import JobLog
from grain.map.job_log.table import ResultTable
from grain.resource import Cores, Memory, WTime

COMMANDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def entry(seq: int, command: str = "c", exitval: int = 0) -> JobLogEntry:
    return JobLogEntry(seq, "h", 1.5, 0.25, 3, exitval, 0, command)


@given(COMMANDS, st.integers(-1, 255), st.integers(0, 64))
def test_line_round_trip(command: str, exitval: int, signal: int) -> None:
    """An entry is one line, whatever the command, and reads back."""
    one = JobLogEntry(4, "h", 1.5, 0.25, 3, exitval, signal, command)

    assert one.line().count(b"\n") == 1
    assert one == read_line(one.line())
    assert one.failed == bool(exitval or signal)


def test_the_columns_are_those_of_gnu_parallel() -> None:
    assert 9 == len(HEADER.split(b"\t")) == len(entry(1).line().split(b"\t"))
    assert read_line(HEADER) is None


@given(st.data())
def test_after_a_crash_complete_lines_count_and_the_next_line_is_whole(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    content = HEADER + entry(1).line() + entry(2, exitval=3).line()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])

    history = History()
    with JobLog(str(path), history) as log:
        log.append(entry(9))

    complete = max(content[:cut].count(b"\n") - 1, 0)
    assert complete == len(history)
    again = History()
    with JobLog(str(path), again):
        pass
    assert complete + 1 == len(again)
    assert again.past(9, "c") is Past.SUCCEEDED


def test_a_job_is_known_by_number_and_command_and_its_last_entry_counts() -> None:
    history = History()
    for one in (entry(1, "a", 1), entry(2, "b", 1), entry(2, "b")):
        history.add(one)

    assert history.past(1, "a") is Past.FAILED
    assert history.past(2, "b") is Past.SUCCEEDED
    assert history.past(3, "c") is Past.NEVER_ENDED
    with pytest.raises(ResultLogError, match=r"job 2 is 'x' now.*have changed.*--by-command"):
        history.past(2, "x")


def test_history_by_command() -> None:
    """Or by its command alone, wherever it stands."""
    history = History(by_command=True)
    history.add(entry(1, "a"))

    assert history.past(5, "a") is Past.SUCCEEDED
    assert history.past(1, "b") is Past.NEVER_ENDED


def test_log_of_another_run(tmp_path: Path) -> None:
    """A log with entries is continued only if that is asked for."""
    path = str(tmp_path / "log")
    with JobLog(path) as log:
        log.append(entry(1))

    with pytest.raises(ResultLogError, match="--resume"):
        JobLog(path)


def test_log_in_use(tmp_path: Path) -> None:
    """Two runs do not share a log."""
    path = str(tmp_path / "log")
    with JobLog(path), pytest.raises(ResultLogError, match="in use"):
        JobLog(path, History())


@pytest.mark.parametrize("content", [b"something\n", b"no newline", b"1\t2\n"])
def test_a_file_that_is_no_log_is_neither_used_nor_changed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)

    with pytest.raises(ResultLogError, match="no[t]? .*result log"):
        JobLog(str(path), History())

    assert content == path.read_bytes()


def test_a_log_that_was_blown_up_is_refused_and_not_read_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with JobLog(str(path)) as log:
        log.append(entry(1))
    os.truncate(path, 1 << 40)  # which takes no room on the disk

    with pytest.raises(ResultLogError, match=r"is not a result log"):
        JobLog(str(path), History())

    assert 1 << 40 == path.stat().st_size


def test_a_log_or_a_table_that_is_not_a_plain_file_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "pipe.csv")
    os.mkfifo(path)
    for opened in (JobLog, lambda name: JobLog(name, History()), ResultTable):
        with pytest.raises(ResultLogError, match=r"pipe\.csv is not a plain file; "):
            opened(path)


# What programs print: also bytes that are not text, quotes, and every end of a line.
OUTPUTS = st.text(st.sampled_from('ab",;\t\r\n\udc80\u00e9')).map(os.fsencode)


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@given(st.lists(st.tuples(OUTPUTS, OUTPUTS), min_size=1, max_size=4), st.data())
def test_after_a_crash_complete_rows_count_and_the_next_row_is_whole(
    tmp_path_factory: pytest.TempPathFactory,
    ending: str,
    outputs: list[tuple[bytes, bytes]],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("table") / f"t{ending}"
    ends = [0]
    with ResultTable(str(path)) as table:
        for seq, (out, err) in enumerate(outputs, 1):
            table.add(entry(seq, os.fsdecode(out)), [os.fsdecode(err)], out, err)
            ends.append(path.stat().st_size)
    heading = path.read_bytes().index(b"\n") + 1
    cut = data.draw(st.integers(0, ends[-1]))
    os.truncate(path, cut)

    with ResultTable(str(path), go_on=True) as table:
        table.add(entry(99), ["v"], b"last", b"")

    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        rows = list(csv.reader(file, delimiter=ending.replace(".csv", ",").replace(".tsv", "\t")))
    complete = [one for one, end in zip(outputs, ends[1:], strict=True) if end <= cut]
    expected = [[os.fsdecode(out), os.fsdecode(err), os.fsdecode(out), os.fsdecode(err)]
                for out, err in complete]  # fmt: skip
    assert ["Seq", "V1", "Stderr"] == [rows[0][0], rows[0][9], rows[0][-1]]
    assert [*expected, ["c", "v", "last", ""]] == [row[8:] for row in rows[1:]]
    assert heading > 0


def test_a_table_of_another_run_is_not_overwritten(tmp_path: Path) -> None:
    path = str(tmp_path / "t.csv")
    with ResultTable(path, ["name"]) as table:
        assert [] == table.add(entry(1), ["v"], b"", b"")
        with pytest.raises(ResultLogError, match="in use"):
            ResultTable(path, go_on=True)

    with pytest.raises(ResultLogError, match="earlier run.*--resume with its --joblog"):
        ResultTable(path)
    assert b",Command,name,Stdout,Stderr\n" in Path(path).read_bytes()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("8", 8), ("+1", 5), ("-1", 3), ("-9", 1), ("50%", 2), ("30%", 1), ("150%", 6), ("0%", 1)],
)
def test_the_jobs_at_a_time_may_be_relative_to_the_cpus(text: str, expected: int) -> None:
    assert expected == parse_jobs(text, 4)


@pytest.mark.parametrize("text", ["0", "", "x", "1.5", "+", "%", "--1", "1%%"])
def test_a_text_that_is_no_number_of_jobs_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="-j "):
        parse_jobs(text, 4)


def test_a_halt_names_the_job_that_caused_it() -> None:
    tally = Tally(parse_halt("now,fail=2"))
    tally.add(1, 0, "job 1 (a) failed with exit status 1")
    tally.add(0, 9, "job 2 (b) was ended by SIGKILL")
    tally.add(1, 0, "job 3 (c) failed with exit status 1")

    assert tally.summary() == (
        "0 jobs succeeded, 3 failed; halted, as job 2 (b) was ended by SIGKILL"
    )


def test_the_last_line_groups_the_failures_by_how_they_ended() -> None:
    tally = Tally(Halt())
    for _ in range(194):
        tally.add(0, 0)
    failures = [("exit 3", 7), ("SIGSEGV", 103), ("exit 3", 1), ("exit 3", 9)]
    for end, seq in failures:
        tally.add(3, 0)
        tally.failures.add(end, seq, [f"{seq}.00", "0.10"])

    assert (
        "194 jobs succeeded, 4 failed (3 x exit 3, first: job 1 (1.00 0.10); "
        "1 x SIGSEGV, first: job 103 (103.00 0.10))"
    ) == tally.summary()


def test_three_groups_of_failures_are_shown_and_inputs_are_shortened() -> None:
    failures = FailureGroups()
    for code in (1, 2, 3, 4, 5):
        for seq in range(code):
            failures.add(f"exit {code}", 10 * code + seq, ["x" * 39, "\x1b[2J"])

    values = "x" * 39 + " ..."
    assert (
        f"5 x exit 5, first: job 50 ({values}); 4 x exit 4, first: job 40 ({values}); "
        f"3 x exit 3, first: job 30 ({values}); 3 in other ways"
    ) == failures.summary()


def test_an_input_that_is_shown_has_no_control_characters() -> None:
    failures = FailureGroups()
    failures.add("exit 1", 1, ["\x1b[2J"])
    failures.add("exit 2", 2, [""])

    assert "1 x exit 1, first: job 1 (?[2J); 1 x exit 2, first: job 2" == failures.summary()


def test_many_failures_are_held_as_few_groups() -> None:
    failures = FailureGroups()
    for seq in range(10_000):
        failures.add(f"exit {seq % 2}", seq, ["value"])

    assert "5000 x exit 0, first: job 0 (value); 5000 x exit 1, first: job 1 (value)" == (
        failures.summary()
    )
    assert 2 == len(failures._groups)


def test_a_single_failure_that_halts_is_named_once() -> None:
    tally = Tally(parse_halt("now,fail=1"))
    tally.failures.add("exit 3", 1, ["a"])
    tally.add(3, 0, "job 1 (a) failed with exit status 3")

    assert (
        "0 jobs succeeded, 1 failed; halted, as job 1 (a) failed with exit status 3"
    ) == tally.summary()


@pytest.mark.parametrize(
    ("failed", "expected"), [(0, 0), (1, 1), (100, 100), (101, 101), (5000, 101)]
)
def test_the_exit_status_counts_failures_up_to_101(failed: int, expected: int) -> None:
    tally = Tally(Halt())
    for _ in range(failed):
        tally.add(2, 0)
    tally.add(0, 0)

    assert expected == tally.exit_status()


def test_jobs_that_failed_before_and_were_not_run_again_count() -> None:
    tally = Tally(Halt())
    for failed in (True, False, True):
        tally.skip(failed=failed)
    tally.add(1, 0)

    assert 3 == tally.exit_status()
    assert 4 == tally.total
    assert "(2 of them by failing; --resume-failed runs these once more)" in tally.summary()


@pytest.mark.parametrize(
    ("text", "ends", "status"),
    [
        ("now,fail=1", [(0, 0), (7, 0)], 7),
        ("2", [(0, 9)], 137),
        ("soon,fail=2", [(1, 0), (0, 0), (1, 0)], 2),
        ("now,success=1", [(1, 0), (0, 0)], 0),
        ("soon,done=2", [(1, 0), (0, 0)], 0),
    ],
)
def test_the_policy_halts_at_the_last_of_these_ends_and_not_before(
    text: str, ends: list[tuple[int, int]], status: int
) -> None:
    tally = Tally(parse_halt(text))
    for exitval, signal in ends:
        assert not tally.halted
        tally.add(exitval, signal)

    assert tally.halted
    assert status == tally.exit_status()


@pytest.mark.parametrize("text", ["now", "later,fail=1", "now,fail=0", "soon,fail=10%"])
def test_a_text_that_is_no_policy_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(MapError, match="now,fail=1"):
        parse_halt(text)


def test_a_text_of_kinds_and_values_is_a_resource() -> None:
    expected = Cores(4) & Memory(8) & WTime(T=3600)

    assert expected == parse_request("Cores=4,Memory=8,WTime=1:00:00")
    assert Cores([2, 3]) == parse_request(" Cores = [2, 3] ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a list"),
        ("Cores", "'Cores' in 'Cores': write Kind=value"),
        ("Cores=", "Kind=value"),
        ("Cores=1,", "is not a list"),
        ("Cores=1,Cores=2", "twice"),
        ("Cores(4", "as in Python"),
        ("cores=4", "Did you mean Cores"),
        ("Node=4", "cores and memory"),
        ("Cores=many", "Cores"),
        ("Cores=-1", "Cores"),
    ],
)
def test_a_bad_request_is_refused_with_the_part_that_is_wrong(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message.replace("(", r"\(")):
        parse_request(text)


@pytest.mark.parametrize("text", ["2 * Cores=4", "GPUs=1|Cores=4"])
def test_this_machine_is_one_worker_with_certain_resources(text: str) -> None:
    with pytest.raises(RequestError, match="say what this machine gives to jobs"):
        parse_supply(text)


def test_only_the_command_needs_click() -> None:
    """Everything but the command works where grain-cli is not installed."""
    program = (
        "import sys, pkgutil, importlib, grain.map\n"
        "sys.modules['click'] = None\n"
        "for one in pkgutil.iter_modules(grain.map.__path__):\n"
        "    if one.name != 'command':\n"
        "        importlib.import_module('grain.map.' + one.name)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_log_without_a_torn_line_is_not_touched_by_its_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk whose quota is used up may refuse to set a length that the file has already."""
    path = str(tmp_path / "log")
    JobLog(path).__exit__()

    def refuse(*_: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "ftruncate", refuse)
    JobLog(path, History()).__exit__()


def test_a_full_disk_is_named_with_what_to_do() -> None:
    error = OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), "log")
    assert "log: Disk quota exceeded; make room there" == sentence_of(error)
