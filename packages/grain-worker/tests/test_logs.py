"""Logs where there is no room for them."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grain.worker.logs import PER_MINUTE, LogFile, PatientHandler


def logger(fd: int) -> logging.Logger:
    log = logging.Logger("test")
    log.addHandler(PatientHandler(fd))
    return log


def test_log_lines_are_written_at_once_with_any_character(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    log = logger(fd)

    log.warning("one %s", "\udcff")
    first = (tmp_path / "log").read_text()
    log.warning("two")
    os.close(fd)

    # A byte that is not UTF-8 is a question mark, as in all texts of Grain's.
    assert "one ?\n" == first
    assert "one ?\ntwo\n" == (tmp_path / "log").read_text()


def test_lost_log_lines_are_counted_and_reported_when_there_is_space() -> None:
    """A line may have been written in part: the next one begins on a line of its own."""
    # As a full disk does, it takes a part of a long line, and then nothing.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    log = logger(writer)

    log.warning("one" + "." * 100_000)
    log.warning("two")
    before = os.read(reader, 200_000)
    log.warning("three")
    log.warning("four")
    after = os.read(reader, 200_000).decode()

    assert before.startswith(b"one..")
    assert not before.endswith(b"\n")
    why = os.strerror(11)
    assert f"\n2 log lines could not be written here: {why}\nthree\nfour\n" == after
    os.close(reader)
    os.close(writer)


def test_a_mistake_in_a_log_call_ends_no_program(capsys: pytest.CaptureFixture[str]) -> None:
    """Python reports it on stderr."""
    logger(2).warning("%d", "no number")

    assert "a real number is required" in capsys.readouterr().err


def test_a_worker_whose_log_is_full_has_exit_code_0_when_it_leaves() -> None:
    """Python's own handlers would make it 120."""
    words = [sys.executable, "-m", "grain.worker", "--dry", "--res", '{"Cores": 1}']
    with Path("/dev/full").open("wb") as full:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
        done = subprocess.run(words, env=env, stderr=full, check=False)

    assert 0 == done.returncode


def test_lines_of_one_cause_are_counted_beyond_some_in_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are written meanwhile, and so are those of users.

    Tried: Fill the disk with log lines.
    Result: counted beyond 200 a minute; 20 MB are the most.
    """
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    path = tmp_path / "log"
    handler = PatientHandler(LogFile(str(path)))
    grain, users = logging.Logger("grain.head"), logging.Logger("mine")
    for log in (grain, users):
        log.addHandler(handler)

    for number in range(PER_MINUTE + 999):
        users.info("mine")
        grain.info("turned away 10.0.0.%d", number)
    grain.info("another cause")
    lines = path.read_text().splitlines()
    assert PER_MINUTE + 999 == lines.count("mine")
    turned_away = [line for line in lines if "turned away" in line]
    assert PER_MINUTE == len(turned_away)
    assert turned_away[-1].endswith(" ... more of these are counted for a minute")
    assert "another cause" == lines[-1]


def test_the_number_of_lines_that_were_left_out_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    path = tmp_path / "log"
    log = logging.Logger("grain.head")
    log.addHandler(PatientHandler(LogFile(str(path))))
    for number in range(PER_MINUTE + 1000):
        if number == PER_MINUTE + 999:
            now = 60.0
        log.info("turned away %d", number)
    last = path.read_text().splitlines()[-1]
    assert f"turned away {PER_MINUTE + 999} ... and 999 more like this before" == last


def test_a_log_file_has_a_limit_and_is_private(tmp_path: Path) -> None:
    """Tried: Fill the disk with log lines.
    Result: counted beyond 200 a minute; 20 MB are the most.
    """
    path = tmp_path / "log"
    path.touch(0o644)
    path.chmod(0o644)
    one, two = LogFile(str(path), 100), LogFile(str(path), 100)
    for number in range(50):
        one.write(b"one %02d\n" % number)
        two.write(b"two %02d\n" % number)
    rest = tmp_path / "log.1"
    assert ["log", "log.1"] == sorted(file.name for file in tmp_path.iterdir())
    for file in (path, rest):
        assert file.stat().st_size <= 100
        assert 0o600 == file.stat().st_mode & 0o777
    assert b"two 49\n" == path.read_bytes()[-7:]


def test_standard_error_goes_along_with_a_log_that_is_renamed(tmp_path: Path) -> None:
    """What ends the interpreter is to be seen in the newest file."""
    program = (
        "import os, sys; from grain.worker.logs import LogFile\n"
        "log = LogFile(sys.argv[1], 100); os.dup2(log._fd, 2)\n"
        "for _ in range(20): log.write(b'x' * 30 + b'\\n')\n"
        "os.write(2, b'the end\\n')\n"
    )
    path = tmp_path / "log"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    assert path.read_text().endswith("the end\n")


def test_a_line_neither_controls_a_terminal_nor_looks_like_another_line(tmp_path: Path) -> None:
    """Names that peers state are logged. A user's own lines stay lines.

    Tried: Names with escapes and line breaks, for `grain ls`, `grain why` and the log.
    Result: question marks, no forged line.
    """
    path = tmp_path / "log"
    handler = PatientHandler(LogFile(str(path)))
    grain, users = logging.Logger("grain.head"), logging.Logger("mine")
    for log in (grain, users):
        log.addHandler(handler)
    grain.info("%s has connected", "w\x1b]0;title\x07\n2026-11-22 INFO all is well\r\u202e")
    users.info("two\nlines")

    assert [
        "w?]0;title?",
        "  2026-11-22 INFO all is well?? has connected",
        "two",
        "lines",
    ] == path.read_text().splitlines()


def test_a_log_that_another_user_has_planted_is_not_written(tmp_path: Path) -> None:
    """Tried: The same against the log of the scheduler.
    Result: refused.
    """
    own = tmp_path / "own"
    own.write_text("")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "log").symlink_to(own)
    with pytest.raises(PermissionError, match="another user may have put it there"):
        LogFile(str(shared / "log"))
    assert "" == own.read_text()
