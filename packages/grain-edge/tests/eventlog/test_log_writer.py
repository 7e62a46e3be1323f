"""The writer writes everything, in parts, without ever holding up who writes a line."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import sys
import threading
from typing import TYPE_CHECKING, cast

import pytest

from grain.eventlog import writer
from grain.eventlog.names import part_number
from grain.eventlog.reader import LogReader, read
from grain.eventlog.schema import ClockChanged, LogEnded, Remark
from grain.eventlog.store import LogStore
from grain.eventlog.writer import LogWriter, first_line
from grain_testkit.small_disk import fill, small_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the thread wait for nothing, so that a test need not."""
    for name in ("_DELAY", "_RETRY", "_SYNC"):
        monkeypatch.setattr(writer, name, 0.001)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., LogWriter]]:
    """Begin logs, which are closed in the end."""
    logs = []
    ids = itertools.count(1)

    def begin(folder: Path = tmp_path, **options: Any) -> LogWriter:
        header = first_line(f"id{next(ids)}", "opt", grain="1.0")
        logs.append(LogWriter(LogStore(folder), header, **options))
        return logs[-1]

    yield begin
    for log in logs:
        log.close("done", patience=60)


def remark(log: LogWriter, text: object) -> None:
    log.write([Remark(time=log.now(), text=str(text))])


def texts(folder: Path) -> list[str]:
    return [line.text for line in read(folder) if isinstance(line, Remark)]


def eventually(condition: Callable[[], object]) -> None:
    """Wait for the thread."""
    for _ in range(60_000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError


def test_a_log_has_its_lines_between_a_header_and_an_end(
    begin: Callable[..., LogWriter], tmp_path: Path
) -> None:
    log = begin(tmp_path / "state" / "missions")
    remark(log, 1)
    remark(log, 2)
    log.close("failed", "ValueError: no", patience=60)
    lines = list(read(log.folder))
    end = lines[-1]
    assert isinstance(end, LogEnded)
    assert ("failed", "ValueError: no", 0) == (end.status, end.message, end.lost)
    assert ["1", "2"] == texts(log.folder)
    header = LogStore(tmp_path / "state" / "missions").logs()[0].header()
    assert header is not None
    assert ("opt", os.getpid()) == (header.name, header.pid)
    assert 0o600 == stat.S_IMODE((log.folder / "events.jsonl").stat().st_mode)
    for folder in (log.folder, log.folder.parent, tmp_path / "state"):
        assert 0o700 == stat.S_IMODE(folder.stat().st_mode)


def test_a_log_is_read_while_it_is_written(begin: Callable[..., LogWriter]) -> None:
    log = begin()
    eventually(lambda: (log.folder / "events.jsonl").exists())
    reader = LogReader(log.folder)
    seen: list[str] = []
    for number in range(5):
        remark(log, number)
        while len(seen) <= number:
            seen += [line.text for line in reader if isinstance(line, Remark)]
    assert ["0", "1", "2", "3", "4"] == seen


def test_a_log_goes_on_in_parts_of_which_the_first_and_the_last_stay(
    begin: Callable[..., LogWriter],
) -> None:
    log = begin(part_size=2000, gigabytes=4e-5)  # 20,000 bytes of this log
    for number in range(300):
        remark(log, f"{number} {'x' * 200}")
        if number % 10 == 0:
            eventually(lambda: not log._lines)
    log.close("done", patience=60)
    parts = {part_number(path.name) for path in log.folder.iterdir()}
    assert {0, 1} != parts
    assert 0 in parts
    assert 1 not in parts
    assert sum(path.stat().st_size for path in log.folder.iterdir()) <= 24_000
    reader = LogReader(log.folder)
    last = [line.text for line in reader if isinstance(line, Remark)][-1]
    assert last.startswith("299")
    assert reader.missing
    assert 0 == reader.skipped


def test_old_logs_are_removed_when_one_begins_and_those_under_way_stay(
    begin: Callable[..., LogWriter], tmp_path: Path
) -> None:
    other, ended = begin(), begin()
    eventually(lambda: (other.folder / "events.jsonl").exists())
    ended.close("done", patience=60)
    assert ended.folder.exists()
    begin(gigabytes=0).close("done", patience=60)
    assert ended.folder.exists()  # the others have just looked
    os.utime(tmp_path / ".looked", (0, 0))
    log = begin(gigabytes=0)
    eventually(lambda: not ended.folder.exists())
    eventually(lambda: log.folder.exists())
    assert other.folder.exists()


def test_a_full_disk_stops_nothing_and_costs_no_line_once_there_is_room(
    begin: Callable[..., LogWriter],
) -> None:
    troubles: list[str] = []
    with small_disk("1m") as disk:
        log = begin(disk / "missions", on_trouble=troubles.append)
        remark(log, "before")
        eventually(lambda: not log._lines and (log.folder / "events.jsonl").exists())
        filler = fill(disk)
        for number in range(1000):
            remark(log, f"{number} {'x' * 100}")
        eventually(lambda: troubles)
        filler.unlink()
        log.close("done", patience=60)
        lines = list(read(log.folder))
        end = lines[-1]
        assert isinstance(end, LogEnded)
        assert (1001, 0) == (len(texts(log.folder)), end.lost)
        assert 1 == len(troubles)
        assert "No space left on device" in troubles[0]
        assert "head.event_log.folder" in troubles[0]


def test_a_log_that_ends_on_a_full_disk_is_torn_at_most_in_its_last_line(
    begin: Callable[..., LogWriter],
) -> None:
    with small_disk("64k") as disk:
        log = begin(disk)
        for number in range(2000):
            remark(log, f"{number} {'x' * 100}")
        log.close("done", patience=60)
        seen = texts(log.folder)
        assert 100 < len(seen) < 2000
        assert [str(number) for number in range(len(seen))] == [text.split()[0] for text in seen]


def test_lines_beyond_the_queue_are_dropped_and_counted(
    begin: Callable[..., LogWriter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_LINES", 10)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    log = begin(blocked / "missions")
    for number in range(25):
        remark(log, number)
    assert log.lost >= 15
    before = log.lost
    blocked.unlink()
    log.close("done", patience=60)
    end = list(read(log.folder))[-1]
    assert isinstance(end, LogEnded)
    assert before == end.lost


def test_a_state_directory_that_cannot_be_written_is_reported_once(
    begin: Callable[..., LogWriter], tmp_path: Path
) -> None:
    troubles: list[str] = []
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    log = begin(blocked / "missions", on_trouble=troubles.append)
    remark(log, 1)
    eventually(lambda: troubles)
    remark(log, 2)
    log.close("done", patience=60)
    (text,) = troubles
    assert text.startswith(f"the event log {log.folder} cannot be written (Not a directory)")


def test_a_disk_that_hangs_holds_up_only_the_thread(
    begin: Callable[..., LogWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, answers = threading.Event(), threading.Event()
    write = os.write

    def hang(fd: int, data: bytes) -> int:
        if threading.current_thread().name == "grain event log":
            hanging.set()
            answers.wait()
        return write(fd, data)

    monkeypatch.setattr(os, "write", hang)
    log = begin()
    hanging.wait()
    for number in range(1000):
        remark(log, number)
    log.close("done", patience=0.01)
    assert not (log.folder / "events.jsonl").read_bytes()
    answers.set()
    log.close("done", patience=60)
    assert 1000 == len(texts(log.folder))


def test_a_folder_that_was_removed_is_made_again(begin: Callable[..., LogWriter]) -> None:
    log = begin()
    remark(log, 1)
    eventually(lambda: not log._lines and (log.folder / "events.jsonl").exists())
    write = os.write

    def fail(fd: int, data: bytes) -> int:
        if threading.current_thread().name == "grain event log":
            raise OSError(errno.ESTALE, "Stale file handle")
        return write(fd, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", fail)
        remark(log, 2)
        failures = iter(range(5))
        eventually(lambda: log._failing and next(failures, None) is None)
    log.close("done", patience=60)
    assert ["1", "2"] == texts(log.folder)
    assert {"events.jsonl", "events.1.jsonl"} == {path.name for path in log.folder.iterdir()}


def test_only_a_line_that_is_not_json_is_dropped(begin: Callable[..., LogWriter]) -> None:
    log = begin()
    remark(log, 1)
    remark(log, "half a character: \ud800")
    log.write([Remark(text=cast("str", object()), time=0.0)])
    remark(log, 2)
    log.close("done", patience=60)
    end = list(read(log.folder))[-1]
    assert isinstance(end, LogEnded)
    assert (["1", "half a character: ?", "2"], 1) == (texts(log.folder), end.lost)


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_a_clock_that_is_set_is_a_line_and_times_never_go_back_without_it(
    begin: Callable[..., LogWriter], by: float
) -> None:
    now = {"wall": 1000.0, "monotonic": 5.0}
    log = begin(clocks=(lambda: now["wall"], lambda: now["monotonic"]))
    start = log.now()
    now["wall"] = start
    remark(log, "before")
    eventually(lambda: not log._lines)
    now["wall"] += 0.5  # as a clock that is a little off, and is slewed
    now["monotonic"] += 10
    now["wall"] += 10 + by
    remark(log, "between")
    remark(log, "after")
    log.close("done", patience=60)
    lines = list(read(log.folder))[1:-1]
    changes = [line for line in lines if isinstance(line, ClockChanged)]
    assert [by + 0.5] == [change.by for change in changes]
    before, between, _, after = (line.time for line in lines)
    assert (start, start + 10) == (before, between)
    assert pytest.approx(start + 10.5 + by) == after


def test_the_command_of_a_header_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "x" * 10_000, "\udcff"])
    header = first_line("1", "opt", grain="1")
    assert 4000 == len("".join(header.command))
    assert header.python == sys.version.split()[0].rstrip("+")
    monkeypatch.setattr(sys, "orig_argv", ["python", "\udcff"])
    assert ("python", "\ufffd") == first_line("1", "opt", grain="1").command


def test_lines_that_come_together_are_written_together_and_those_too_many_counted(
    begin: Callable[..., LogWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_LINES", 3)
    log = begin()
    log._lines.clear()
    log.write([Remark(time=log.now(), text=str(number)) for number in range(5)])
    log.close("done", patience=60)
    assert ["0", "1", "2"] == texts(log.folder)
    assert 2 == log.lost


def test_a_reminder_is_called_once_by_the_means_that_were_given(
    begin: Callable[..., LogWriter],
) -> None:
    called: list[Callable[[], None]] = []
    log = begin(call_soon=called.append)

    def first() -> None: ...

    def second() -> None: ...

    log.remind(first)
    remark(log, "a line in between")
    eventually(lambda: called == [first])
    log.remind(second)
    eventually(lambda: called == [first, second])
    log.close("done", patience=60)
    assert [first, second] == called


def test_a_clock_that_was_set_shows_before_its_line_is_written(
    begin: Callable[..., LogWriter],
) -> None:
    wall = [1000.0]
    log = begin(clocks=(lambda: wall[0], lambda: 5.0))
    log._offset = 995.0
    assert not log.clock_is_off()
    wall[0] += 3600
    assert log.clock_is_off()
    log.write([Remark(time=log.time_of(5.0), text="before")])
    assert not log.clock_is_off()
    log.close("done", patience=60)
    before, changed = [x for x in read(log.folder) if isinstance(x, Remark | ClockChanged)]
    assert (1000.0, 4600.0, 3600.0) == (before.time, changed.time, getattr(changed, "by", 0.0))
