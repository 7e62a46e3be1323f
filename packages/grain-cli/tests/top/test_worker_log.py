"""The end of a worker's log in `grain top`, as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.cli.batch import JobRecord
from grain.cli.top.log import WorkerLog
from grain.cli.workers.jobs import records

if TYPE_CHECKING:
    from pathlib import Path

MUCH = 64 * 1024
"""Bytes that are read at once."""


@pytest.fixture
def file(alone: Path) -> Path:
    """The log of the worker w0."""
    path = alone / "w0.log"
    path.touch()
    records().add(
        records().new_file(), JobRecord("7", "slurm", "w0", str(path), "edge:///x", "", 1.0)
    )
    return path


def append(file: Path, text: str) -> None:
    with file.open("a") as out:
        out.write(text)


def test_lines_are_shown_once_they_are_whole(file: Path) -> None:
    log = WorkerLog("w0")
    append(file, "one\ntw")
    log.read()
    assert ["one"] == log.lines
    append(file, "o\n")
    log.read()
    assert ["one", "two"] == log.lines


def test_a_line_is_not_joined_to_one_that_was_begun_long_before(file: Path) -> None:
    """Of what comes faster than it is read, only the end is."""
    log = WorkerLog("w0")
    append(file, "begun")
    log.read()
    append(file, "".join(f"{number:0199}\n" for number in range(2 * MUCH // 200)))
    log.read()

    assert 2 * MUCH // 200 - 1 == int(log.lines[-1])
    assert not any("begun" in line for line in log.lines)


def test_of_a_line_that_does_not_end_no_more_is_kept_than_its_end(file: Path) -> None:
    """As one that is written over by carriage returns."""
    log = WorkerLog("w0")
    for _ in range(8):
        append(file, "x" * MUCH)
        log.read()
    append(file, "\n")
    log.read()

    [line] = log.lines
    assert MUCH >= len(line)
