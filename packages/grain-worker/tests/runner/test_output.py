"""Lines of many runs in one log."""

from __future__ import annotations

import logging
import os
import socket
import sys
from typing import TYPE_CHECKING, Any, TextIO, cast

import msgspec
import outcome
import pytest

from grain import GVAR
from grain.resource import ZERO
from grain.worker.call import RunSettings
from grain.worker.payload import Payloads
from grain.worker.runner.main import PrintReporter
from grain.worker.runner.output import LabelledOutput
from grain.worker.runner.wire import PrintReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


async def energy() -> None:
    """Serve as the name of a run."""


def test_lines_are_echoed_for_runs_whose_mission_wants_them(tmp_path: Path) -> None:
    echoed: list[tuple[object, list[str]]] = []
    with (tmp_path / "log").open("w", encoding="ascii") as stream:
        out = LabelledOutput(stream, lambda attempt, lines: echoed.append((attempt, lines)))
        for number, echo in ((1, True), (2, False)):
            with GVAR.scope(ZERO):
                GVAR.surroundings = RunSettings(
                    label=f"m:{number}", function=energy, attempt=(1, number), echo=echo
                )
                print("a\nb\nrest", end="", file=cast("TextIO", out))
        out.end((1, 1))
        out.end((1, 2))
    whole = ["m:1 energy | a", "m:1 energy | b"]
    assert [((1, 1), whole), ((1, 1), ["m:1 energy | rest"])] == echoed


def test_a_line_with_bytes_that_are_not_utf_8_is_reported_with_escapes() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        PrintReporter(theirs)((1, 2), ["caf\udce9", "\udce9" * 1000])
        report = msgspec.msgpack.decode(ours.recv(100_000), type=PrintReport)
    line, long = report.lines
    assert r"caf\udce9" == line
    assert 400 == len(long)


class Log:
    """A stream whose lines have labels, and the file that it writes to."""

    def __init__(self, path: Path, stream: TextIO) -> None:
        self._path = path
        self.labelled = LabelledOutput(stream)

    def print(self, *words: str, of: int = 0, end: str = "\n") -> None:
        """Print in a run, or in none."""
        with GVAR.scope(ZERO):
            if of:
                GVAR.surroundings = RunSettings(label=f"m:{of}", function=energy, attempt=(1, of))
            print(*words, end=end, file=cast("TextIO", self.labelled))

    @property
    def text(self) -> str:
        """What has been written, without a flush."""
        return self._path.read_text()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with (tmp_path / "log").open("w", encoding="ascii") as stream:
        yield Log(tmp_path / "log", stream)


def test_a_line_is_written_as_soon_as_it_is_complete_and_in_one_piece(log: Log) -> None:
    log.print("half of", of=1, end=" ")
    log.print("another", "run's", of=2)
    assert "m:2 energy | another run's\n" == log.text
    log.print("a line\nand a second\n", of=1)

    assert (
        "m:2 energy | another run's\n"
        "m:1 energy | half of a line\n"
        "m:1 energy | and a second\n"
        "m:1 energy | \n"
    ) == log.text


def test_what_is_left_without_an_end_of_line_is_written_when_the_run_ends(log: Log) -> None:
    log.print("almost", of=1, end="")
    log.labelled.flush()
    log.labelled.end((1, 2))
    assert "" == log.text
    log.labelled.end((1, 1))
    log.labelled.end((1, 1))

    assert "m:1 energy | almost\n" == log.text


def test_what_no_run_prints_has_no_label(log: Log) -> None:
    log.print("the context begins", end="...")
    assert "the context begins..." == log.text


def test_any_character_and_a_very_long_line_can_be_printed(log: Log) -> None:
    log.print("Å", of=1)
    log.print("a" * 100_000, of=1, end="")

    assert "m:1 energy | \\xc5\nm:1 energy | " + "a" * 100_000 + "\n" == log.text


def test_bytes_and_properties_are_those_of_the_stream(log: Log) -> None:
    log.labelled.buffer.write(b"bytes\n")
    log.labelled.flush()
    log.labelled.close()

    assert "bytes\n" == log.text
    assert "ascii" == log.labelled.encoding
    assert log.labelled.writable()
    assert not log.labelled.isatty()
    os.fstat(log.labelled.fileno())
    assert str(log.labelled.name).endswith("log")


@pytest.mark.parametrize("kind", [outcome.Value, outcome.Error])
def test_a_result_or_exception_that_refers_to_it_arrives_with_the_stream_of_the_other_end(
    kind: Callable[[Any], outcome.Value[Any] | outcome.Error],
) -> None:
    """As from a process without labels; many a calculator keeps the stream for its messages."""
    assert sys.__stdout__ is not None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        out = LabelledOutput(sys.__stdout__, PrintReporter(theirs))
        error = Exception(out, logging.StreamHandler(cast("TextIO", out)), out.write)
        payload = Payloads().dump_outcome(kind(error))

    ended = Payloads().load_outcome(payload)
    back = ended.value if isinstance(ended, outcome.Value) else ended.error
    assert isinstance(back, Exception)
    stream, handler, write = back.args
    assert stream is handler.stream is write.__self__ is sys.__stdout__


def test_one_for_a_file_arrives_as_a_closed_file(log: Log) -> None:
    back = Payloads().load_outcome(Payloads().dump_outcome(outcome.Value([log.labelled]))).unwrap()
    assert back[0].closed
    assert log.labelled.name == back[0].name


def test_no_print_fails_on_a_full_disk_and_lost_lines_are_counted() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with os.fdopen(writer, "w", encoding="utf-8") as stream, os.fdopen(reader, "rb") as read:
        labelled = LabelledOutput(stream)
        with GVAR.scope(ZERO):
            GVAR.surroundings = RunSettings(label="m:1", function=energy, attempt=(1, 1))
            for _ in range(3):
                print("a" * 60_000, file=cast("TextIO", labelled))
            os.read(reader, 1 << 20)
            print("again", file=cast("TextIO", labelled))
        last = os.read(reader, 1 << 20).decode()
        assert read is not None

    assert "log lines could not be written here" in last
    assert last.endswith("m:1 energy | again\n")
