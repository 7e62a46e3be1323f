"""Two runs that write to one file at the same time are seen when the second one has ended."""

from __future__ import annotations

import pytest

from grain.eventlog.usage import RunReport, Usage
from grain.head.output_writers import OutputWriters


def report(began: float, ended: float, *paths: str, host: str = "n1") -> RunReport:
    return RunReport(started=began, ended=ended, host=host, usage=Usage(programs=1, outputs=paths))


def said(first: RunReport, second: RunReport) -> str:
    """Return what is said of two runs of one function."""
    writers = OutputWriters("/home/me/run")
    assert "" == writers.note(3, "scan", first)
    return writers.note(7, "scan", second)


def test_both_tasks_and_the_file_are_named() -> None:
    assert (
        "scan (task 3) and scan (task 7) ran at the same time, and programs of both wrote to "
        "/x/same.txt, which each had emptied for its own output. Give each program a file of its "
        "own"
    ) == said(report(0, 10, "/x/a.txt", "/x/same.txt"), report(9, 11, "/x/same.txt"))


@pytest.mark.parametrize(
    ("second", "seen"),
    [
        (report(10, 20, "/x/out"), False),  # one after the other
        (report(1, 9, "/x/own"), False),
        (report(1, 9, "/x/out"), True),
        (report(-5, 1, "/x/out"), True),  # whose message came later
        (report(1, 9, "/x/out", host="n2"), False),  # it may be another file
    ],
)
def test_only_runs_that_share_a_file_and_a_moment_are_meant(second: RunReport, seen: bool) -> None:
    assert seen == bool(said(report(0, 10, "/x/out"), second))


@pytest.mark.parametrize(("began", "seen"), [(4.0, True), (6.0, False)])
def test_in_the_directory_of_the_mission_a_file_is_one_on_all_hosts(
    began: float, seen: bool
) -> None:
    """Their clocks differ by some seconds."""
    path = "/home/me/run/out"
    assert seen == bool(said(report(0, 10, path), report(began, 20, path, host="n2")))
    other = "/home/me/run2/out"
    assert "" == said(report(0, 10, other), report(began, 20, other, host="n2"))


def test_what_keeps_no_output_is_no_file() -> None:
    assert "" == said(report(0, 10, "/dev/null"), report(1, 9, "/dev/null"))


def test_two_functions_are_told_of_once() -> None:
    writers = OutputWriters("/")
    texts = [
        writers.note(number, name, report(0, 10, "/x/out"))
        for number, name in enumerate(("scan", "scan", "scan", "opt", "opt", "scan"))
    ]
    assert [False, True, False, True, True, True] == [bool(text) for text in texts]


def test_a_million_files_are_not_remembered() -> None:
    writers = OutputWriters("/")
    for number in range(1001):
        writers.note(number, "scan", report(0, 10, f"/x/{number}"))
    assert "" == writers.note(2000, "scan", report(0, 10, "/x/0"))
    assert "scan (task 1000) and " in writers.note(2001, "scan", report(0, 10, "/x/1000"))
