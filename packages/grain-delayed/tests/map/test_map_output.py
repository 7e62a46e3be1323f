"""Outputs of jobs as they are printed: in order, in pieces, those in files too."""

from __future__ import annotations

import csv
import os
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, BinaryIO, cast

import pytest
import trio
import trio.testing

from grain.delayed import mission
from grain.files.processes import this_process
from grain.inputs.splitting import Columns
from grain.map.halting import Tally
from grain.map.job_log.entries import JobLogEntry
from grain.map.job_log.table import ResultTable
from grain.map.jobs import Jobs, MapJob, _end_of
from grain.map.output import OutputPrinter, tagged
from grain.map.overflow import PIECE, LargeOutput, overflow_folder, pieces_of, sweep
from grain.map.plan import MapOptions
from grain.resource import Capacity
from grain.worker.errors import OutputFile
from grain.worker.external import Completed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.delayed.value import Delayed


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def streams() -> Iterator[tuple[Path, Path]]:
    """Have this process print to two files."""
    out, err = Path("out").absolute(), Path("err").absolute()
    with (
        out.open("w") as to, err.open("w") as to_error,
        redirect_stdout(to), redirect_stderr(to_error),
    ):  # fmt: skip
        yield out, err


def large(path: Path, data: bytes) -> LargeOutput:
    path.write_bytes(data)
    return LargeOutput(path, len(data))


async def test_a_large_output_is_printed_between_the_others_and_removed(tmp_path: Path) -> None:
    data = os.urandom(3 * PIECE)
    with streams() as (out, err), OutputPrinter() as printer:
        await printer.put(1, [b"first "], [b"e"])
        await printer.put(2, [large(tmp_path / "large", data), b" last"], [b"r", b"r"])

    assert b"first " + data + b" last" == out.read_bytes()
    assert b"err" == err.read_bytes()
    assert not (tmp_path / "large").exists()


async def test_outputs_that_come_early_wait_for_their_turn(tmp_path: Path) -> None:
    with streams() as (out, err), OutputPrinter(in_order=True) as printer:
        await printer.put(3, [b"3"], [b"c"])
        await printer.put(2, [large(tmp_path / "large", b"2" * PIECE)], [])
        assert b"" == out.read_bytes()
        await printer.put(1, [b"1"], [])
        assert b"1" + b"2" * PIECE + b"3" == out.read_bytes()
        await printer.put(5, [b"5"], [])
        await printer.put(6, [b"6"], [])
        # Job 4 never comes: its turn is over with the block.

    assert b"1" + b"2" * PIECE + b"356" == out.read_bytes()
    assert b"c" == err.read_bytes()


@contextmanager
def slow_reader() -> Iterator[BinaryIO]:
    """Have this process print to a pipe that is read later; yield its other end."""
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as reader, os.fdopen(theirs, "w") as out, redirect_stdout(out):
        yield reader


async def test_what_waits_for_a_slow_reader_is_not_in_memory() -> None:
    """It is in the file, and arrives in its order."""
    pieces = [os.urandom(1 << 20) for _ in range(40)]
    with slow_reader() as reader, OutputPrinter() as printer:
        async with trio.open_nursery() as nursery:
            for seq, piece in enumerate(pieces, 1):
                nursery.start_soon(printer.put, seq, [piece], [])
            await trio.testing.wait_all_tasks_blocked()
            held = printer._in_memory
            data = await trio.to_thread.run_sync(reader.read, 40 << 20)

    assert held < 20 << 20
    found = [data[at : at + (1 << 20)] for at in range(0, len(data), 1 << 20)]
    assert sorted(pieces) == sorted(found)


async def test_an_output_whose_printing_is_cancelled_arrives_whole_all_the_same(
    tmp_path: Path,
) -> None:
    """The thread that writes a piece is left behind, and what follows waits for it."""
    data = os.urandom(3 * PIECE)
    found: list[bytes] = []
    with slow_reader() as reader:
        with OutputPrinter() as printer:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(printer.put, 1, [large(tmp_path / "large", data)], [])
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            thread = Thread(target=lambda: found.append(reader.read(len(data))))
            thread.start()
        thread.join(120)

    assert [data] == found
    assert not (tmp_path / "large").exists()


def test_a_tag_stands_before_each_line_wherever_the_pieces_end(tmp_path: Path) -> None:
    lines = b"".join(b"%d\n" % number for number in range(PIECE // 4))
    for data in (lines, lines + b"last", b"\n" * (PIECE + 2), b"x" * PIECE + b"\ny"):
        expected = tagged(data, b"t\t")
        found = tagged(large(tmp_path / "large", data), b"t\t")
        assert expected == b"".join(pieces_of(found))


def test_no_piece_ends_within_a_character(tmp_path: Path) -> None:
    for shift in range(4):
        text = "x" * shift + "\N{SNOWMAN}" * PIECE
        pieces = list(large(tmp_path / "large", text.encode()).pieces())
        assert text == "".join(piece.decode() for piece in pieces)
        assert 3 <= len(pieces)
    # Not text at all: a piece has its size nevertheless.
    assert PIECE + 3 >= max(map(len, large(tmp_path / "large", b"\x80" * 3 * PIECE).pieces()))


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "-.csv"])
def test_a_row_has_large_outputs_in_its_cells(tmp_path: Path, name: str) -> None:
    text = 'a "quoted", text\n' * 200_000
    entry = JobLogEntry(1, "host", 0.0, 1.0, len(text), 0, 0, "echo, a")
    printed = b""
    with ResultTable(name) as table:
        for out, err in (
            (b"", large(tmp_path / "l", text.encode())),
            (large(tmp_path / "m", text.encode()), b"a,b\tc"),
            (b"x", b"y"),
        ):
            parts = table.add(entry, ["v, w"], out, err)
            printed += b"".join(piece for part in parts for piece in pieces_of(part))
    data = printed if name[0] == "-" else Path(name).read_bytes()

    csv.field_size_limit(len(data))
    rows = list(csv.reader(data.decode().splitlines(keepends=True),
                           delimiter="\t" if name == "t.tsv" else ","))  # fmt: skip
    assert ["Seq", "V1", "Stderr"] == [rows[0][0], rows[0][9], rows[0][-1]]
    assert [["", text], [text, "a,b\tc"], ["x", "y"]] == [row[-2:] for row in rows[1:]]
    assert ["v, w"] * 3 == [row[9] for row in rows[1:]]


async def test_an_output_that_is_not_here_is_the_failure_of_its_job(tmp_path: Path) -> None:
    """As where a worker has another file system, or its disk was full in the end."""
    (tmp_path / "short").write_bytes(b"x")

    async def end(path: Path) -> Completed:
        file = OutputFile(str(path), 7)
        return Completed(("x",), 0, None, b"", 1.0, 0, 0, 0, "n1", overflows=(file, None))

    job = MapJob(1, ["x"], "x", tmp_path, None)
    remarks = []
    for path in (tmp_path / "no", tmp_path / "short"):
        ended = await _end_of(job, cast("Delayed[Completed]", end(path)), 0.0)
        assert (-1, b"", True) == (ended.exitval, ended.out, ended.failed)
        remarks.append(ended.remark)

    assert (
        f"as {tmp_path}/no cannot be read: No such file or directory. With --results" in remarks[0]
    )
    assert f"as {tmp_path}/short has 1 of its 7 bytes. With --results" in remarks[1]


async def test_a_failed_attempt_leaves_no_file(tmp_path: Path) -> None:
    """And the last attempt has its file until it is printed."""
    plan = MapOptions((), (), Columns(), Capacity(1), tries=3)
    seen = tmp_path / "seen"
    script = f"ls {tmp_path}/of | wc -l >> {seen}; head -c 2000000 /dev/zero; exit 3"
    with streams() as (out, _):
        async with (
            mission(Capacity(1), config_file=False, progress=False) as active,
            trio.open_nursery() as nursery,
        ):
            jobs = Jobs(
                plan, active, nursery, Tally(plan.halt), None, OutputPrinter(),
                overflow=tmp_path / "of",
            )  # fmt: skip
            jobs.start(MapJob(1, ["sh", "-c", script], "", tmp_path, None))

    assert ["0", "0", "0"] == seen.read_text().split()
    assert bytes(2_000_000) == out.read_bytes()
    assert not list((tmp_path / "of").iterdir())


def test_the_folder_of_a_call_goes_with_it_and_that_of_a_killed_one_at_the_next(home: Path) -> None:
    """What belongs to a process that lives, or of which nothing is known here, stays."""
    place = home / ".local/state/grain/outputs"
    with overflow_folder(shared=True) as folder:
        assert folder is not None
        assert 0o700 == folder.stat().st_mode & 0o777
    assert not folder.exists()
    place.rmdir()
    with overflow_folder(shared=False) as folder:
        assert folder is not None
        assert not place.exists()  # nothing is made before there is a large output
        folder.mkdir(mode=0o700, parents=True)
        (folder / "large").touch()
        me = this_process()
        dead = folder.name.replace(f".{me.pid}.{me.start}.", f".{me.pid}.{me.start - 1}.")
        rebooted = folder.name.replace(me.boot, "another")
        elsewhere = rebooted.replace(f".{me.host}", ".other.site")
        for name in (dead, rebooted, elsewhere, "a file of the user's"):
            (place / name).mkdir()
            (place / name / "large").touch()
        sweep(place)
        left = {path.name for path in place.iterdir()}

    assert {folder.name, elsewhere, "a file of the user's"} <= left
    assert dead not in left
    assert (rebooted in left) == (not me.machine)
    assert not folder.exists()
