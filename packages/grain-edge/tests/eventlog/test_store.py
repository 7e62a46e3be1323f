"""Logs are listed, looked up, and removed when they are old, unless they are being written."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from grain.eventlog.errors import AmbiguousLog, NewerLog, NoSuchLog, NotALog
from grain.eventlog.files import LogFiles
from grain.eventlog.names import fit_name, folder_name, logs_folder, parse_folder
from grain.eventlog.reader import LogReader
from grain.eventlog.schema import VERSION, LogEnded, LogStarted, encode
from grain.eventlog.store import LogStore

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86400.0
NOW = 2_000_000_000.0


def log(
    store: Path,
    name: str,
    id: str,  # noqa: A002 - its name
    *,
    started: float = NOW,
    age: float = 0.0,
    size: int = 0,
    end: bool = True,
    host: str = "",
    pid: int = 0,
    number: int = 0,
    lasting: str = "",
    generation: int = 0,
) -> str:
    """Make a log that was last written to so many seconds before now; return its folder's name."""
    folder = store / folder_name(started, name, id, number)
    folder.mkdir(parents=True)
    first = LogStarted(
        time=started, version=VERSION, grain="1", id=id, name=name,
        host=host or socket.gethostname(), pid=pid, label=f"{name}@{number}" if number else "",
        lasting=lasting, generation=generation,
    )  # fmt: skip
    path = folder / "events.jsonl"
    last = encode(LogEnded(time=started, status="done")) if end else b""
    path.write_bytes(encode(first) + b"x" * size + b"\n" + last)
    os.utime(path, (NOW - age, NOW - age))
    return folder.name


def names(store: LogStore) -> set[str]:
    return {one.folder.name for one in store.logs()}


def test_a_name_survives_its_folder(tmp_path: Path) -> None:
    for name in ("opt", "a-b", "ü x/y", "2-3", "x" * 400, ""):
        parsed = parse_folder(folder_name(NOW, name, "ab12"))
        assert parsed is not None
        assert (fit_name(name), "ab12", NOW) == (parsed.name, parsed.id, parsed.started.timestamp())
        (tmp_path / folder_name(NOW, name, "ab12")).mkdir()
    assert None is parse_folder("20260231-101010-opt-1")
    assert None is parse_folder("notes")


def test_logs_are_in_the_state_directory_unless_elsewhere(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": "/s"}
    assert "/s/grain/missions" == str(logs_folder(env=env))
    assert tmp_path / "missions" == logs_folder(str(tmp_path), env=env)


def test_logs_are_listed_newest_first_among_other_things(tmp_path: Path) -> None:
    old = log(tmp_path, "opt", "a1", started=NOW - 5)
    new = log(tmp_path, "scan", "b2")
    (tmp_path / "notes").mkdir()
    assert [new, old] == [one.folder.name for one in LogStore(tmp_path).logs()]
    assert [] == LogStore(tmp_path / "nowhere").logs()


def test_of_missions_that_began_in_one_second_the_highest_number_is_the_last(
    tmp_path: Path,
) -> None:
    for number, id_ in [(1, "cc"), (3, "aa"), (2, "bb")]:
        log(tmp_path, "opt", id_, number=number)
    store = LogStore(tmp_path)
    assert [3, 2, 1] == [one.number for one in store.logs()]
    assert "opt@3" == store.find("opt").label


def test_a_log_is_found_by_name_id_beginning_and_path(tmp_path: Path) -> None:
    log(tmp_path, "opt", "a1b2", started=NOW - 5)
    newer = log(tmp_path, "opt", "c3d4")
    scan = log(tmp_path, "scan x", "c3ff", started=NOW - 9)
    store = LogStore(tmp_path)
    found = {
        text: store.find(text).id
        for text in ("opt", "op", "a1b2", "a1", "scan x", "c3f", newer, f"{tmp_path}/{scan}")
    }
    assert {
        "opt": "c3d4", "op": "c3d4", "a1b2": "a1b2", "a1": "a1b2", "scan x": "c3ff", "c3f": "c3ff",
        newer: "c3d4", f"{tmp_path}/{scan}": "c3ff",
    } == found  # fmt: skip
    assert "c3ff" == store.find(f"{tmp_path}/{scan}/events.jsonl").id


def test_a_log_that_is_not_found_or_not_clear_is_an_error_with_the_names(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    with pytest.raises(NoSuchLog, match=r"there are no logs in .*event_log=False"):
        store.find("opt")
    log(tmp_path, "opt", "c3d4")
    log(tmp_path, "scan", "c3ff", started=NOW - 9)
    with pytest.raises(NoSuchLog, match="no log of 'x' in .*; the latest missions are opt, scan"):
        store.find("x")
    with pytest.raises(NoSuchLog):
        store.find("")
    with pytest.raises(AmbiguousLog, match="'c3' is the beginning of several names or ids") as info:
        store.find("c3")
    assert 2 == len(info.value.candidates)
    with pytest.raises(NotALog, match="there is no events.jsonl in it"):
        store.find(f"{tmp_path}/")


def test_a_label_means_one_log_and_a_log_without_one_goes_by_its_id(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    log(tmp_path, "opt", "c3d4", started=NOW - 9)
    folder = log(tmp_path, "my opt", "c3ff", number=2)
    log(tmp_path, "my opt", "d411", started=NOW + 9, number=13)

    words = ("my opt@2", "my_opt@13", "my opt", "opt", "c3ff", folder, f"{tmp_path}/{folder}")
    found = [store.find(word) for word in words]
    assert ["my_opt@2", "my_opt@13", "my_opt@13", "c3d4"] == [one.label for one in found[:4]]
    assert ["my_opt@2"] * 3 == [one.label for one in found[4:]]
    which = r"latest missions are my_opt@13 of 20\S+ \S+, my_opt@2 of \S+ \S+$"
    with pytest.raises(NoSuchLog, match=f"no log of 'my opt@3' in .*; the {which}"):
        store.find("my opt@3")


def test_of_logs_with_one_label_none_is_chosen(tmp_path: Path) -> None:
    """Two users may write to a folder."""
    for id_ in ("c3d4", "e5f6"):
        log(tmp_path, "opt", id_, number=2)

    with pytest.raises(AmbiguousLog, match="'opt@2' is the label of several missions: .*-e5f6, "):
        LogStore(tmp_path).find("opt@2")


def test_a_file_or_a_folder_goes_by_its_path_without_a_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is not the name of a mission, or the beginning of one."""
    elsewhere = tmp_path / "elsewhere"
    for name, id_ in (("saved", "a1"), ("scan", "b2")):
        folder = log(elsewhere, name, id_, number=7)
        (elsewhere / folder).rename(elsewhere / name)
    monkeypatch.chdir(elsewhere)
    for id_ in ("c3", "d4"):
        log(tmp_path / "store", f"saved{id_}", id_)
    log(tmp_path / "store", "scan", "e5")
    store = LogStore(tmp_path / "store")

    assert ["a1", "e5"] == [store.find(word).id for word in ("saved", "scan")]
    assert ["saved@7", "scan@7"] == [store.find(word).label for word in ("saved", "./scan")]


def test_a_stored_log_has_its_header_its_end_and_its_size(tmp_path: Path) -> None:
    log(tmp_path, "opt", "a1")
    log(tmp_path, "scan", "b2", started=NOW - 5, end=False, size=100)
    done, open_ = LogStore(tmp_path).logs()
    header = done.header()
    assert header is not None
    assert ("opt", "done") == (header.name, getattr(done.end(), "status", None))
    assert (None, True) == (open_.end(), open_.size() > 100)
    newer = LogStarted(time=1, version=VERSION + 1, grain="9", id="x", name="x")
    (done.folder / "events.jsonl").write_bytes(encode(newer))
    with pytest.raises(NewerLog):
        done.header()


def test_logs_of_which_the_time_is_over_are_removed(tmp_path: Path) -> None:
    log(tmp_path, "opt", "a1", age=31 * DAY)
    young = log(tmp_path, "opt", "b2", age=29 * DAY)
    store = LogStore(tmp_path)
    store.remove_old(now=NOW)
    assert {young} == names(store)
    store.remove_old(now=NOW, seconds=DAY)
    assert set() == names(store)


def test_old_logs_are_looked_for_once_in_ten_minutes_whatever_a_clock_has_said(
    tmp_path: Path,
) -> None:
    """A last look in the future is that of a clock which was wrong."""
    store = LogStore(tmp_path)
    now = time.time() + 300  # later than the file that the first look makes
    assert [True, False] == [store.is_neglected(now) for _ in range(2)]
    looks = []
    for last in (now - 700, now + 86400):
        os.utime(tmp_path / ".looked", (last, last))
        looks.append(store.is_neglected(now))

    assert [True, True] == looks


def test_the_oldest_logs_are_removed_where_all_are_too_large(tmp_path: Path) -> None:
    sizes = {"a1": 3000, "b2": 9000, "c3": 100}
    logs = {
        one: log(tmp_path, "opt", one, started=NOW - age, size=size)
        for age, (one, size) in enumerate(sizes.items())
    }
    store = LogStore(tmp_path)
    assert [logs["b2"], logs["c3"]] == store.remove_old(now=NOW, gigabytes=1e-5)
    assert {logs["a1"]} == names(store)


def test_a_log_that_is_being_written_is_never_removed(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    kept = {
        log(tmp_path, "alive", "a1", age=99 * DAY, end=False, pid=os.getpid()),
        log(tmp_path, "elsewhere", "a2", age=1.5 * DAY, end=False, host="n17", pid=1),
        log(tmp_path, "just-now", "a3", age=3000, end=False, pid=gone.pid),
        log(tmp_path, "damaged", "a4", age=1.5 * DAY, end=False, host="n17", pid=1),
    }
    new = tmp_path / folder_name(NOW, "new", "a5")
    new.mkdir()
    os.utime(new, (NOW, NOW))
    log(tmp_path, "killed", "b1", age=1 * DAY, end=False, pid=gone.pid)
    log(tmp_path, "killed-elsewhere", "b2", age=3 * DAY, end=False, host="n17", pid=1)
    store = LogStore(tmp_path)
    store.remove_old(now=NOW, gigabytes=0)
    assert kept | {new.name} == names(store)


def test_a_mission_that_was_killed_here_does_not_run_from_that_moment_on(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    now = int(time.time())
    for name, host, pid in ("killed", "", gone.pid), ("alive", "", os.getpid()), ("far", "n17", 1):
        folder = tmp_path / log(tmp_path, name, name, end=False, host=host, pid=pid)
        os.utime(folder / "events.jsonl", (now, now))
    log(tmp_path, "done", "done", pid=os.getpid())
    running = {one.name for one in LogStore(tmp_path).logs() if one.is_running()}
    assert {"alive", "far"} == running


def test_of_a_lasting_mission_only_the_last_process_runs_whatever_the_clocks_say(
    tmp_path: Path,
) -> None:
    """The host of the one before died, by whose clock it began after its successor."""
    now = int(time.time())
    ids = ("lasting-queue-1", "lasting-queue-2", "")
    for id_, host, began, mission, generation in (
        ("dead", "n17", now - 100, ids[0], 9),
        ("last", "n18", now - 200, ids[0], 10),
        ("other", "n19", now - 150, ids[1], 1),
        ("none", "n17", now - 300, ids[2], 0),
    ):
        folder = tmp_path / log(
            tmp_path, "queue", id_, started=began, end=False, host=host, pid=1,
            lasting=mission, generation=generation,
        )  # fmt: skip
        os.utime(folder / "events.jsonl", (now, now))
    store = LogStore(tmp_path)

    assert {"last", "other", "none"} == {one.id for one in store.logs() if one.is_running()}
    assert {"last", "other", "none"} == {one.id for one in store.logs() if one.runs()}
    for id_ in ("other", "none"):
        shutil.rmtree(store.find(id_).folder)
    assert "last" == store.find("queue").id


def test_another_process_with_the_id_of_one_that_was_killed_is_not_taken_for_it(
    tmp_path: Path,
) -> None:
    """It began after the last write, as the kernel gave the id away after that."""
    now = int(time.time())
    with subprocess.Popen(["sleep", "1000"]) as process:
        for name, written in (("before", now - 9000), ("own", now)):
            folder = tmp_path / log(
                tmp_path, name, name, started=written, end=False, pid=process.pid
            )
            os.utime(folder / "events.jsonl", (written, written))
        logs = LogStore(tmp_path).logs()
        assert {"own"} == {one.name for one in logs if one.is_running()}
        assert {"own"} == {one.name for one in logs if one.is_written()}
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not any(one.is_running() for one in logs)  # not even as a zombie


def test_a_mission_runs_whatever_the_date_of_its_log_was_set_to(tmp_path: Path) -> None:
    """`touch -d` and copies set it back, and it is older than the process then."""
    folder = tmp_path / log(tmp_path, "opt", "a1", started=time.time(), end=False, pid=os.getpid())
    os.utime(folder / "events.jsonl", (1_000_000_000, 1_000_000_000))
    [found] = LogStore(tmp_path).logs()
    assert found.is_running()
    assert found.is_written()


def test_where_no_log_can_be_written_the_error_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()  # in which also root makes no folder
    with pytest.raises(NoSuchLog, match="you may not write to .*set head.event_log.folder"):
        LogStore(tmp_path / "file" / "logs").find("opt")
    with pytest.raises(NoSuchLog, match="there are no logs in .*Missions write them"):
        LogStore(tmp_path / "state" / "logs").find("opt")


def test_nothing_is_removed_through_a_link_and_nothing_that_is_no_log(tmp_path: Path) -> None:
    store, outside = tmp_path / "missions", tmp_path / "outside"
    outside.mkdir()
    (outside / "events.jsonl").write_text("precious")
    os.utime(outside / "events.jsonl", (1, 1))
    mixed = store / log(store, "opt", "a1", age=99 * DAY)
    (mixed / "report.html").write_text("mine")
    (mixed / "events.1.jsonl").symlink_to(outside / "events.jsonl")
    (store / folder_name(NOW, "link", "b2")).symlink_to(outside)
    (store / "notes").mkdir()
    (store / "notes" / "events.jsonl").write_text("mine")
    LogStore(store).remove_old(now=NOW + 999 * DAY, gigabytes=0)
    assert "precious" == (outside / "events.jsonl").read_text()
    assert {"report.html", "events.1.jsonl"} == {path.name for path in mixed.iterdir()}
    assert "mine" == (store / "notes" / "events.jsonl").read_text()


def test_a_folder_that_a_reader_holds_open_on_nfs_is_removed_the_next_time(tmp_path: Path) -> None:
    name = log(tmp_path, "opt", "a1", age=99 * DAY)
    silly = tmp_path / name / ".nfs0001"
    silly.write_text("")
    store = LogStore(tmp_path)
    assert [] == store.remove_old(now=NOW + 99 * DAY)
    silly.unlink()
    assert [name] == store.remove_old(now=NOW + 99 * DAY)


def test_a_named_pipe_in_a_folder_that_others_share_does_not_block(tmp_path: Path) -> None:
    """Tried: A named pipe, or huge files, among event logs that users share.
    Result: passed over; the user's own logs stay.
    """
    name = log(tmp_path, "opt", "a1", age=99 * DAY, end=False)
    os.mkfifo(tmp_path / name / "events.1.jsonl")
    os.utime(tmp_path / name / "events.1.jsonl", (1, 1))
    os.mkfifo(tmp_path / ".looked")
    os.utime(tmp_path / ".looked", (1, 1))
    store = LogStore(tmp_path)
    [found] = store.logs()
    assert None is found.end()
    with pytest.raises(OSError, match="not a plain file"):
        list(LogReader(found.folder))
    with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):
        store.is_neglected(NOW)
    assert [] == store.remove_old(now=NOW)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_the_size_of_logs_of_another_user_costs_none_of_ours(tmp_path: Path) -> None:
    """Tried: A named pipe, or huge files, among event logs that users share.
    Result: passed over; the user's own logs stay.
    """
    own = log(tmp_path, "opt", "a1", age=DAY)
    theirs = log(tmp_path, "huge", "b2", started=NOW + 1)
    os.truncate(tmp_path / theirs / "events.jsonl", 10**10)  # sparse
    os.chown(tmp_path / theirs, 12345, 12345)
    store = LogStore(tmp_path)
    assert [] == store.remove_old(now=NOW)
    assert {own, theirs} == names(store)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives links to others")
def test_no_file_is_made_behind_a_link_of_another_user(tmp_path: Path) -> None:
    """In a state directory that others may write to, it may lead to any directory of ours.

    Tried: Put a link in the place of the folder with the logs, where the state directory is one
    that others may write to.
    Result: no file is made behind it.
    """
    ours, missions = tmp_path / "ours", tmp_path / "grain/missions"
    ours.mkdir()
    missions.parent.mkdir()
    missions.symlink_to(ours)
    header = LogStarted(
        time=NOW, version=VERSION, grain="1", id="a1", name="opt"
    )  # fmt: skip
    folder = missions / folder_name(NOW, "opt", "a1")
    LogFiles(folder, header, part_size=10**6, most=10**7).write(b"{}\n")  # a link of our own
    os.chown(missions, 12345, 12345, follow_symlinks=False)

    with pytest.raises(PermissionError, match="another user"):
        LogFiles(folder, header, part_size=10**6, most=10**7).write(b"{}\n")
    with pytest.raises(PermissionError, match="another user"):
        LogStore(missions).is_neglected(NOW)
    assert [folder.name] == [one.name for one in ours.iterdir()]


def test_no_part_is_removed_from_a_directory_that_has_taken_the_place_of_the_log(
    tmp_path: Path,
) -> None:
    """Another user may have put a link to it there, where others may write."""
    folder, ours = tmp_path / "log", tmp_path / "ours"
    header = LogStarted(
        time=NOW, version=VERSION, grain="1", id="a1", name="opt"
    )  # fmt: skip
    files = LogFiles(folder, header, part_size=1, most=1)
    for _ in range(3):
        files.write(b"{}\n")
    before = sorted(one.name for one in folder.iterdir())
    files.write(b"{}\n")
    after = sorted(one.name for one in folder.iterdir())
    assert len(after) <= len(before)  # the log is too large, so its oldest parts go

    folder.rename(tmp_path / "away")
    ours.mkdir()
    for name in after:
        (ours / name).write_text("precious")
    folder.symlink_to(ours)
    files.write(b"{}\n")
    assert set(after) <= {one.name for one in ours.iterdir()}
