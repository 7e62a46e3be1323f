"""`grain report`: which log it takes, where it writes, and what it says when it cannot."""

from __future__ import annotations

import gzip
import json
import os
import socket
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from grain.cli import main
from grain.eventlog.schema import VERSION, TaskSubmitted, encode
from grain_testkit.small_log import END, HEADER, body, write

if TYPE_CHECKING:
    from pathlib import Path


def report(*words: str) -> Result:
    return CliRunner().invoke(main, ["report", *words], catch_exceptions=False)


@pytest.fixture
def opt(alone: Path) -> Path:
    return write(HEADER, [*body(), END])


def test_the_last_mission_is_written_to_a_file_of_its_name(alone: Path, opt: Path) -> None:
    write(replace(HEADER, time=HEADER.time - 60, name="old", id="ffff"), [END])
    done = report()

    assert (0, "report-opt.html: 2 of 4 tasks done, 1 failed; 52 kB\n") == (
        done.exit_code,
        done.stdout.replace(done.stdout.rpartition("; ")[2], "52 kB\n"),
    )
    page = (alone / "report-opt.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert ["report-opt.html"] == [path.name for path in alone.glob("*.html")]
    assert opt.exists()


@pytest.mark.parametrize("name", ["opt", "a1b2c3", "path"])
def test_a_mission_is_named_as_elsewhere(alone: Path, opt: Path, name: str) -> None:
    done = report("-o", "page.html", str(opt / "events.jsonl") if name == "path" else name)

    assert 0 == done.exit_code, done.output
    assert "ExternalError: no convergence" in (alone / "page.html").read_text()


@pytest.mark.usefixtures("opt")
def test_a_page_goes_to_the_standard_output() -> None:
    done = report("-o", "-", "opt")

    assert done.stdout.startswith("<!DOCTYPE html>")
    assert done.stdout.endswith("</html>")


@pytest.mark.usefixtures("opt")
def test_a_trace_is_written_by_itself_or_with_the_page(alone: Path) -> None:
    assert 0 == report("--trace", "opt.json", "opt").exit_code
    events = json.loads((alone / "opt.json").read_text())["traceEvents"]
    assert 6 == len([event for event in events if event["ph"] == "X"])
    assert not list(alone.glob("*.html"))

    assert 0 == report("--trace", "opt.json.gz", "-o", "opt.html", "opt").exit_code
    assert (
        events == json.loads(gzip.decompress((alone / "opt.json.gz").read_bytes()))["traceEvents"]
    )
    assert (alone / "opt.html").exists()


@pytest.mark.parametrize("words", [(), ("--all",)])
def test_all_rows_are_shown_on_demand(alone: Path, words: tuple[str, ...]) -> None:
    tasks = (TaskSubmitted(time=HEADER.time, task=at, function=f"f{at}") for at in range(1, 202))
    write(HEADER, [*tasks, END])

    assert 0 == report("-o", "page.html", *words).exit_code
    more = "+1 more function: grain report --all shows all." in (alone / "page.html").read_text()
    assert more == (not words)


def test_a_torn_log_has_a_page_that_says_so(alone: Path, opt: Path) -> None:
    file = opt / "events.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"task":4', b'"ta\n', 1) + b'{"event":"en')
    done = report("-o", "page.html", "opt")

    assert 0 == done.exit_code, done.output
    assert "2 lines of the log could not be read" in (alone / "page.html").read_text()


def test_a_mission_that_runs_is_shown_as_such(alone: Path) -> None:
    write(replace(HEADER, host=socket.gethostname(), pid=os.getpid()), body())
    report("-o", "page.html")

    assert 'class="state live">running</span>' in (alone / "page.html").read_text()


@pytest.mark.usefixtures("alone")
def test_a_log_of_a_newer_version_is_refused() -> None:
    log = write(replace(HEADER, version=VERSION + 1), [END])
    done = report(str(log))

    assert 1 == done.exit_code
    assert "was written by a newer Grain" in done.output


@pytest.mark.usefixtures("alone")
def test_without_logs_it_says_who_writes_them() -> None:
    done = report()

    assert 1 == done.exit_code
    assert "missions write one, unless run(..., event_log=False)" in done.output
    assert 1 == report("nobody").exit_code


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(alone: Path, opt: Path) -> None:
    done = report("-o", "nowhere/page.html", "opt")

    assert (1, "Error: nowhere/page.html: No such file or directory\n") == (
        done.exit_code, done.output
    )  # fmt: skip
    (alone / "folder").mkdir()
    done = report("--trace", "folder", str(opt))
    assert (1, "Error: folder: Is a directory\n") == (done.exit_code, done.output)
    assert not list(alone.glob(".*"))


def test_a_page_that_fails_leaves_the_old_one(alone: Path, opt: Path) -> None:
    (alone / "page.html").write_text("old")
    (opt / "events.jsonl").write_bytes(encode(replace(HEADER, version=VERSION + 1)))

    assert 1 == report("-o", "page.html", str(opt)).exit_code
    assert "old" == (alone / "page.html").read_text()
