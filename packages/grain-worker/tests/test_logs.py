"""Logs where there is no room for them."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from grain.worker.logs import PatientHandler

if TYPE_CHECKING:
    import pytest


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

    assert "one \\udcff\n" == first
    assert "one \\udcff\ntwo\n" == (tmp_path / "log").read_text()


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
