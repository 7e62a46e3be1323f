"""The folders of starts: how they are made, and which are removed with time."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec
import pytest

from grain.cli.mission_records import (
    KEPT,
    End,
    MissionStart,
    Process,
    StartRecord,
    load,
    make,
    read,
    remove_old,
    reserve,
    time_of_files,
    write,
)
from grain.cli.missions import starting
from grain.cli.missions.state import SILENCE, Phase

if TYPE_CHECKING:
    from pathlib import Path

NOW = 100 * 86400.0
DAY = 86400.0


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """Return a folder beside which the numbers of missions are."""
    folder = tmp_path / "started"
    folder.mkdir(mode=0o700)
    return folder


def started(folder: Path, days: float, *, alive: float | None = None) -> StartRecord:
    """Make the folder of a start of so many days ago.

    Args:
        folder: that of all starts.
        days: the age of the start.
        alive: how many days ago its keeper gave the last sign of life; None for never.
    """
    start = MissionStart(
        name="opt", command=("./opt",), directory="/", environment={}, at=NOW - days * DAY
    )
    record = make(folder, start)
    if alive is not None:
        sign = record.folder / "alive"
        sign.touch()
        os.utime(sign, (NOW - alive * DAY,) * 2)
    return record


def left(folder: Path) -> list[int]:
    """Return the numbers of the starts whose folders are there, after old ones were removed."""
    remove_old(folder, NOW)
    return [record.number for record in read(folder)]


def test_a_mission_that_has_run_for_more_than_thirty_days_keeps_its_folder(tmp_path: Path) -> None:
    started(tmp_path, 45, alive=0)

    assert [1] == left(tmp_path)


@pytest.mark.parametrize(("days", "expected"), [(29.9, [1]), (30.1, [])])
def test_a_start_without_a_sign_of_life_for_thirty_days_is_removed(
    tmp_path: Path, days: float, expected: list[int]
) -> None:
    """Be it its last one, or the start itself where none came."""
    started(tmp_path / "1" / "started", 45, alive=days)
    started(tmp_path / "2" / "started", days)

    assert expected == left(tmp_path / "1/started") == left(tmp_path / "2/started")
    assert 30 * DAY == KEPT


@pytest.mark.parametrize(("days", "expected"), [(29.9, [1]), (30.1, [])])
def test_an_ended_start_is_kept_for_thirty_days_from_its_end(
    tmp_path: Path, days: float, expected: list[int]
) -> None:
    """Whatever wrote to its folder later."""
    record = started(tmp_path, 45, alive=0)
    write(record.folder, "end.json", End(status=0, at=NOW - days * DAY))

    assert expected == left(tmp_path)


def test_a_folder_is_never_seen_without_what_it_is_for(tmp_path: Path) -> None:
    """Two `grain resume` at the same time see each other."""
    made = threading.Event()
    incomplete: list[Path] = []

    def look() -> None:
        while not made.is_set():
            incomplete.extend(
                path for path in tmp_path.glob("*@*") if not (path / "start.json").exists()
            )

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        numbers = [started(tmp_path, 0).number for _ in range(100)]
        made.set()
        looking.result(60)

    assert [] == incomplete
    assert list(range(1, 101)) == numbers
    assert 100 == len(list(tmp_path.iterdir()))


def test_a_number_that_another_command_has_taken_is_left_to_it(tmp_path: Path) -> None:
    (tmp_path / "opt@1").mkdir()
    (tmp_path / "opt@1" / "of_another_version").touch()

    assert 2 == started(tmp_path, 0).number


def test_what_was_cut_off_while_it_was_made_is_no_start_and_goes_with_time(tmp_path: Path) -> None:
    cut_off = tmp_path / ".starting-x"
    cut_off.mkdir()
    os.utime(cut_off, (NOW, NOW))

    assert [] == left(tmp_path)
    assert cut_off.exists()
    os.utime(cut_off, (NOW - 31 * DAY,) * 2)
    assert [] == left(tmp_path)
    assert not cut_off.exists()


def test_a_link_to_a_start_is_no_start(tmp_path: Path) -> None:
    """`grain resume` runs what stands there, and another user may have made the link."""
    started(tmp_path / "others", 0)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/opt@1").symlink_to(tmp_path / "others/opt@1")

    assert [] == read(tmp_path / "own")


def test_signs_of_life_are_judged_by_the_clock_that_gave_them_their_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the file server, of which this host's may be minutes off."""
    record = started(tmp_path, 0)
    process = Process(host="n1", kernel="its", pid=7, began=70, keeper=6, keeper_began=60)
    record = dataclasses.replace(record, process=process, alive=5000.0)
    states = []
    for now in (5100.0, 5000.0 + SILENCE):
        monkeypatch.setattr(starting, "time_of_files", lambda _, now=now: now)
        states.append(starting.state_of(record).phase)

    assert [Phase.RUNNING, Phase.KILLED] == states


def test_the_time_is_that_of_the_file_system_where_files_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    touched = (tmp_path / "file").stat().st_mtime

    assert touched <= time_of_files(tmp_path) < touched + 3600
    assert ["file"] == os.listdir(tmp_path)
    assert time.time() - 3600 < time_of_files(tmp_path / "missing") < time.time() + 3600


def test_a_file_that_has_room_reserved_needs_no_more(tmp_path: Path) -> None:
    """The end of a mission is written also when the disk is full by then."""
    reserve(tmp_path, "end.json")
    reserved = next(tmp_path.iterdir()).stat()
    write(tmp_path, "end.json", End(status=0, at=NOW))

    written = (tmp_path / "end.json").stat()
    assert (reserved.st_ino, 256) == (written.st_ino, written.st_size)
    assert End(status=0, at=NOW) == load(tmp_path / "end.json", End)


def test_what_is_no_utf_8_is_kept_and_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Names of files, arguments and variables are bytes."""
    odd = os.fsdecode(b"x\xff")
    start = MissionStart(name="opt", command=(odd,), directory=odd, environment={"A": odd}, at=NOW)
    assert start == read(make(tmp_path, start).folder.parent)[0].start

    whole = msgspec.structs.replace(start, at=object())
    with pytest.raises(TypeError):
        make(tmp_path, whole)
    assert ["opt@1"] == os.listdir(tmp_path)
