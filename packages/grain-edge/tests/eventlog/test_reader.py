"""Logs are read whole or damaged, of any size, in parts, and while they are written."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from grain.eventlog.errors import NewerLog, NotALog
from grain.eventlog.names import part_name
from grain.eventlog.reader import LONGEST_LINE, MOST_KINDS, LogReader, Position, read
from grain.eventlog.schema import (
    VERSION,
    LogEnded,
    LogStarted,
    Remark,
    TaskSubmitted,
    WorkerJoined,
    encode,
)

if TYPE_CHECKING:
    from pathlib import Path


def header(part: int = 0, version: int = VERSION) -> bytes:
    return encode(LogStarted(time=1.0, version=version, grain="1", id="7", name="opt", part=part))


def remark(number: int) -> bytes:
    return encode(Remark(time=2.0, text=str(number)))


def write(folder: Path, content: bytes, part: int = 0) -> Path:
    path = folder / part_name(part)
    path.write_bytes(content)
    return path


def texts(reader: LogReader) -> list[str]:
    return [line.text for line in reader if isinstance(line, Remark)]


def test_a_log_is_read_across_its_parts_with_one_header(tmp_path: Path) -> None:
    write(tmp_path, header() + remark(1))
    write(tmp_path, header(1) + remark(2), 1)
    write(tmp_path, header(10) + remark(3), 10)
    reader = LogReader(tmp_path)
    assert ["log", "remark", "remark", "remark"] == [line.__struct_config__.tag for line in reader]
    assert reader.header is not None
    assert ("opt", 8) == (reader.header.name, reader.missing)


def test_the_first_file_stands_for_the_log_and_any_other_for_itself(tmp_path: Path) -> None:
    first = write(tmp_path, header() + remark(1))
    second = write(tmp_path, header(1) + remark(2), 1)
    assert ["1", "2"] == texts(LogReader(first))
    assert ["2"] == texts(LogReader(second))


def test_a_line_that_is_being_written_is_read_when_it_is_complete(tmp_path: Path) -> None:
    whole = remark(1)
    path = write(tmp_path, header() + whole[:9])
    reader = LogReader(tmp_path)
    assert [] == texts(reader)
    with path.open("ab") as file:
        file.write(whole[9:])
    assert ["1"] == texts(reader)
    assert (0, []) == (reader.skipped, texts(reader))
    write(tmp_path, header(1) + remark(2), 1)
    assert ["2"] == texts(reader)


def test_a_reader_goes_on_from_the_position_of_another(tmp_path: Path) -> None:
    path = write(tmp_path, header() + remark(1) + remark(2))
    reader = LogReader(tmp_path)
    for line in reader:
        if isinstance(line, Remark):
            break
    assert Position(0, len(header() + remark(1))) == reader.position
    later = LogReader(tmp_path, reader.position)
    assert ["2"] == texts(later)
    assert later.header is not None
    path.write_bytes(b"no log\n" + bytes(1000))
    with pytest.raises(NotALog):
        texts(LogReader(tmp_path, reader.position))


def test_damage_in_the_middle_is_skipped_and_counted(tmp_path: Path) -> None:
    damage = [
        b"\xff\xfe\n",
        b"[1, 2]\n",
        b"\n",
        remark(0)[:-9] + b"\n",
        b'{"event": "remark", "time": "noon", "text": 5}\n',
    ]
    write(tmp_path, header() + remark(1) + b"".join(damage) + remark(2))
    reader = LogReader(tmp_path)
    assert ["1", "2"] == texts(reader)
    assert len(damage) == reader.skipped


def test_zeros_that_a_crash_of_the_machine_left_cost_no_line_after_them(tmp_path: Path) -> None:
    write(tmp_path, header() + remark(1) + bytes(100) + remark(2))
    reader = LogReader(tmp_path)
    assert ["1", "2"] == texts(reader)
    assert 1 == reader.skipped


def test_a_torn_line_at_the_end_of_a_part_is_counted_once_the_next_has_begun(
    tmp_path: Path,
) -> None:
    write(tmp_path, header() + remark(1) + remark(2)[:9])
    reader = LogReader(tmp_path)
    assert (["1"], 0) == (texts(reader), reader.skipped)
    write(tmp_path, header(1) + remark(3), 1)
    assert (["3"], 1) == (texts(reader), reader.skipped)


def test_kinds_and_fields_of_a_later_version_are_skipped(tmp_path: Path) -> None:
    later = b'{"event": "comet", "time": 1, "tail": true}\n'
    more = b'{"event": "remark", "time": 1, "text": "x", "colour": "red"}\n'
    write(tmp_path, header() + later + more)
    reader = LogReader(tmp_path)
    assert ["x"] == texts(reader)
    assert (1, 0) == (reader.unknown, reader.skipped)


def test_a_newer_version_is_refused_with_the_remedy(tmp_path: Path) -> None:
    newer = b'{"event": "log", "version": %d, "shape": "round"}\n' % (VERSION + 1)
    for first in (header(version=VERSION + 1), newer):
        write(tmp_path, first + remark(1))
        with pytest.raises(NewerLog, match="pip install --upgrade grain-scheduler") as info:
            texts(LogReader(tmp_path))
        assert VERSION + 1 == info.value.version


@pytest.mark.parametrize(
    "content", [b"hello\nworld\n", remark(1), bytes(300) + b"\n", b'{"a": 1}\n']
)
def test_what_is_no_log_is_refused(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path, content)
    with pytest.raises(NotALog, match="does not begin with the line of an event log"):
        list(read(path))


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotALog, match=r"has no events\.jsonl"):
        list(read(tmp_path))
    with pytest.raises(FileNotFoundError):
        list(read(tmp_path / "nowhere"))


def test_a_log_that_has_not_begun_is_empty(tmp_path: Path) -> None:
    write(tmp_path, header()[:20])
    reader = LogReader(tmp_path)
    assert ([], None) == (list(reader), reader.header)


def test_a_part_that_is_removed_meanwhile_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, header() + remark(1))
    path = write(tmp_path, header(1) + remark(2), 1)
    write(tmp_path, header(2) + remark(3), 2)
    reader = LogReader(tmp_path)
    lines = iter(reader)
    assert isinstance(next(lines), LogStarted)
    path.unlink()
    assert ["1", "3"] == [line.text for line in lines if isinstance(line, Remark)]
    assert 1 == reader.missing


def test_a_line_without_end_and_a_long_log_take_little_memory(tmp_path: Path) -> None:
    path = write(tmp_path, header() + remark(1))
    with path.open("ab") as file:
        file.truncate(path.stat().st_size + 50 * LONGEST_LINE)  # zeros, a line of them
        file.write(b"\n")
        for _ in range(200):
            file.write(remark(2) * 200)
    reader = LogReader(tmp_path)
    tracemalloc.start()
    count = sum(isinstance(line, Remark) for line in reader)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (40_001, 1) == (count, reader.skipped)
    assert peak < 5 * LONGEST_LINE


def test_the_end_is_a_line_as_others(tmp_path: Path) -> None:
    write(tmp_path, header() + encode(LogEnded(time=3.0, status="done")))
    assert isinstance(list(read(tmp_path))[-1], LogEnded)


@pytest.mark.parametrize(
    "line",
    [
        b'{"event":"remark","text":"x","time":1e300}',
        b'{"event":"remark","text":"x","time":-1e10}',
        b'{"event":"remark","text":"x","time":2,"further":'
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}",
        b'{"event":"further","time":2,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"event":"submitted","time":2,"task":1e30,"function":"f"}',
        b'{"event":"submitted","time":2,"task":1,"function":"f","request":{"Cores":1e300}}',
        b'{"event":"clock","time":2,"by":1e300}',
    ],
    ids=["late", "early", "deep", "deep and unknown", "number", "amount", "clock"],
)
def test_a_line_that_is_absurd_is_skipped_and_the_others_are_read(
    tmp_path: Path, line: bytes
) -> None:
    write(tmp_path, header() + remark(1) + line + b"\n" + remark(2))
    reader = LogReader(tmp_path)
    assert ["1", "2"] == texts(reader)
    assert 1 == reader.skipped + reader.unknown


def test_a_log_has_a_hundred_kinds_of_resources_at_most(tmp_path: Path) -> None:
    """Each would be a column of a report. Lines with the kinds that came first are read on."""
    lines = [
        TaskSubmitted(time=2.0, task=number, function="f", request={f"Kind{number}": 1.0})
        for number in range(MOST_KINDS + 1)
    ]
    known = {"Kind0": 1.0, "Kind99": 1.0}
    lines += [TaskSubmitted(time=2.0, task=7, function="known", request=known)]
    write(tmp_path, header() + b"".join(map(encode, lines)))
    reader = LogReader(tmp_path)
    read_ = [line for line in reader if isinstance(line, TaskSubmitted)]
    assert (MOST_KINDS + 1, "known", 1) == (len(read_), read_[-1].function, reader.skipped)
    many = {f"Further{number}": 1.0 for number in range(60_000)}
    folder = tmp_path / "other"
    folder.mkdir()
    write(folder, header() + encode(WorkerJoined(time=2.0, worker="w", resources=many)))
    reader = LogReader(folder)
    assert (1, 1) == (len(list(reader)), reader.skipped)
