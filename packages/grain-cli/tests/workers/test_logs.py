"""`grain logs`: the output of jobs that `grain` has submitted."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from grain.cli.batch import JobRecord, JobRecords
from grain.cli.workers.jobs import outputs
from grain.cli.workers.logs import PIECE, begin_of_last, readable, readable_part
from grain_testkit import states
from grain_testkit.command_line import grain

if TYPE_CHECKING:
    from pathlib import Path


def submitted(folder: Path, name: str, log: str, at: float = 1.0) -> JobRecord:
    records = JobRecords(folder / "state/grain/jobs")
    record = JobRecord(name, "slurm", name, log, "edge:///x", "", at)
    records.add(records.new_file(), record)
    return record


def test_logs_of_one_worker_are_printed_whole_or_their_last_lines(alone: Path) -> None:
    (alone / "w.log").write_text("one\ntwo\nthree\n")
    submitted(alone, "w", f"{alone}/w.log")

    assert "one\ntwo\nthree\n" == grain("logs", "w").output
    assert "two\nthree\n" == grain("logs", "-n", "2", "w").output


def test_jobs_of_one_name_are_told_apart(alone: Path) -> None:
    """The last one is meant, and a note names the others; so does each by its number or its id."""
    records = JobRecords(alone / "state/grain/jobs")
    for at, job in ((2.0, "8"), (1.0, "6"), (3.0, "9")):
        (alone / f"{job}.log").write_text(f"of {job}\n")
        log = f"{alone}/{job}.log"
        record = JobRecord(job, "slurm", "w", log, "edge:///x", "", at)
        records.add(records.new_file(), record)

    last = grain("logs", "w")
    assert (
        "Note: this is the last of 3 jobs of that name: w@1 is job 6, w@2 is job 8, w@3 is job 9\n"
        "of 9\n"
    ) == last.output
    assert "of 6\n" == grain("logs", "w@1").output
    assert "of 8\n" == grain("logs", "8").output
    assert 1 == grain("logs", "w@4").exit_code


def test_a_job_of_several_nodes_has_the_output_of_each_worker(alone: Path) -> None:
    """Together under its own name, and each under that of the worker."""
    for name in ("w", "w.0", "w.1", "w-r1.1", "w2.0"):
        (alone / f"{name}.log").write_text(f"of {name}\n")
    records = JobRecords(alone / "state/grain/jobs")
    record = JobRecord("7", "slurm", "w", f"{alone}/w.log", "edge:///x", "", 1.0, nodes=2)
    records.add(records.new_file(), record)

    whole = grain("logs", "w").output
    assert all(f"of {name}\n" in whole for name in ("w", "w.0", "w.1", "w-r1.1"))
    assert "of w2.0" not in whole
    assert "of w.1\n" == grain("logs", "w.1").output
    assert "of w-r1.1\n" == grain("logs", "w-r1.1").output
    assert 1 == grain("logs", "w.x").exit_code


@pytest.mark.usefixtures("alone")
def test_without_a_worker_logs_says_how_to_get_some() -> None:
    done = grain("logs")

    assert 2 == done.exit_code
    expected = "no job was submitted from here, so there is no output; `grain up` submits workers\n"
    assert done.output.endswith(f"Error: {expected}")


def test_without_a_worker_logs_lists_the_last_ones(alone: Path) -> None:
    for number in range(12):
        submitted(alone, f"w{number}", "", float(number))
        # Files are read in the order of their names, which begin with the second.
        [*_, last] = sorted(
            (alone / "state/grain/jobs").glob("2*"), key=lambda p: p.stat().st_mtime
        )
        last.rename(last.with_name(f"{number:02}.jsonl"))
    done = grain("logs")

    names = ", ".join(f"w{number}" for number in range(11, 1, -1))
    expected = (
        f"name a worker, as in: grain logs w11; the last ones are: {names}, and earlier ones\n"
    )
    assert done.output.endswith(f"Error: {expected}")


def test_logs_of_several_jobs_stand_below_their_names(alone: Path) -> None:
    """Each below the name of its file."""
    for name in ("w-0", "w-1", "x"):
        (alone / f"{name}.log").write_text(f"{name}\n")
        submitted(alone, name, f"{alone}/{name}.log")

    assert (
        f"==> {alone}/w-0.log <==\nw-0\n\n==> {alone}/w-1.log <==\nw-1\n"
        == grain("logs", "w-*").output
    )


def test_logs_find_files_whose_placeholders_were_filled_in(alone: Path) -> None:
    """The batch system has filled them in; other characters stand for themselves."""
    (alone / "a[1]-42.log").write_text("here\n")
    record = submitted(alone, "w", f"{alone}/a[1]-%3j.log")

    assert [alone / "a[1]-42.log"] == outputs(record)
    assert "here\n" == grain("logs", "w").output


@pytest.mark.parametrize("log", ["w.log", "w-%j.log"])
def test_logs_show_those_of_a_job_that_was_started_again_too(alone: Path, log: str) -> None:
    record = submitted(alone, "w", f"{alone}/{log}")
    first = alone / log.replace("%j", "42")
    again = first.with_stem(f"{first.stem}-r1")
    for at, path in enumerate((first, again)):
        path.write_text("here\n")
        os.utime(path, (at, at))
    (alone / "w-x.txt").touch()

    assert [first, again] == outputs(record)


@pytest.mark.parametrize("log", ["nothing.log", "no%j.log"])
def test_of_one_that_has_not_begun(alone: Path, log: str) -> None:
    """It says where the output goes."""
    submitted(alone, "w", f"{alone}/{log}")

    done = grain("logs", "w")
    assert f"Error: nothing was written yet; the output goes to {alone}/{log}\n" == done.output
    assert 1 == done.exit_code


def test_of_one_that_is_not_known(alone: Path) -> None:
    """It names some that are."""
    submitted(alone, "w", f"{alone}/w.log")

    done = grain("logs", "v")
    assert "is called 'v'; the last ones are: w; no worker is here\n" in done.output
    assert 1 == done.exit_code


def test_of_a_worker_that_was_started_in_another_way(alone: Path, answering: Any) -> None:
    """It says where the output is, and how to have it in a file."""
    address = f"unix://{alone}/socket"
    (alone / "grain.toml").write_text(f'address = "{address}"\n')
    worker = states.worker("own", label="own@2", host="n3")
    with answering(address, state=states.state([worker], [states.mission("kk")])):
        done = grain("logs", "-c", "grain.toml", "own@2")
        other = grain("logs", "-c", "grain.toml", "nope")
        mission = grain("logs", "-c", "grain.toml", "kk")

    assert 1 == done.exit_code
    assert "worker own@2 runs on host n3 and was not started by `grain up` from here" in done.output
    assert "start it with >own@2.log 2>&1 behind the command\n" in done.output
    assert "is called 'nope'; there are none; workers here are: own@2\n" in other.output
    assert mission.output.startswith("Error: kk is a mission, and no worker: `grain logs kk:1`")


def test_what_programs_print_cannot_control_the_terminal() -> None:
    """Nor is anything lost that was written over."""
    assert "10 %\n20 %\nü?[31m\tx\n" == readable("10 %\r20 %\r\nü\x1b[31m\tx\n".encode())
    assert "\ufffd" == readable(b"\xff")


def test_a_character_of_which_a_part_is_there_is_left_until_its_rest_is_written() -> None:
    begun = "ü█".encode()[:-1]

    assert ("ü", 2) == readable_part(begun, last=False)
    assert ("ü\ufffd", len(begun)) == readable_part(begun, last=True)


def test_follow_prints_what_is_appended_until_ctrl_c(alone: Path) -> None:
    """Lines that are appended are printed, also if the file is created or truncated later."""
    submitted(alone, "w", f"{alone}/w.log")
    log = alone / "w.log"
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # if ignored
        "from grain.cli import main; main(prog_name='grain')"
    )
    follower = subprocess.Popen(
        [sys.executable, "-u", "-c", code, "logs", "-f", "w"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    try:
        log.write_text("one\n")
        assert "one\n" == follower.stdout.readline()
        with log.open("a") as more:
            more.write("two\n")
        assert "two\n" == follower.stdout.readline()
        log.write_text("new\n")
        assert "new\n" == follower.stdout.readline()
        time.sleep(0.1)
        follower.send_signal(signal.SIGINT)
        _, err = follower.communicate(timeout=120)
        said = "the output is not followed any more; what writes it goes on"
        assert (130, f"\n{said}\n") == (follower.returncode, err)
    finally:
        follower.kill()
        follower.wait()
        follower.stdout.close()


@pytest.mark.parametrize("most", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "text",
    [b"", b"a", b"a\nb\nc", b"a\r\nb\rc\r\n\r\n", b"\n\n\n", b"a\rb\r", b"one\ntwo\nthree\n"],
)
def test_the_last_lines_are_found_whatever_is_read_at_once(text: bytes, most: int) -> None:
    ends = text.splitlines(keepends=True)
    for lines in range(1, 7):
        begin = begin_of_last(io.BytesIO(text), lines, most)
        assert b"".join(ends[-lines:]) == text[begin:]


@pytest.mark.parametrize("ending", [b"\r\n", b"\xc3\xbc\n", b"\xe2\x82\xac\n", b"\xff\n", b"\r"])
def test_an_output_of_many_pieces_is_printed_as_one(alone: Path, ending: bytes) -> None:
    """A line end and a character may begin in one piece and end in the next."""
    submitted(alone, "w", f"{alone}/w.log")
    for less in (1, 2, 3):
        text = b"a\n" + b"x" * (PIECE - 2 - less) + ending + b"y" * PIECE + ending
        (alone / "w.log").write_bytes(text)
        assert readable(text) == grain("logs", "w").output
        assert readable(b"y" * PIECE + ending)[-PIECE:] == grain("logs", "-n1", "w").output[-PIECE:]


@pytest.mark.parametrize("words", ["-n1 w", "w"])
def test_the_memory_does_not_grow_with_the_output(alone: Path, words: str) -> None:
    with (alone / "w.log").open("wb") as file:
        for _ in range(200):
            file.write(b"x" * (1 << 20))
        file.write(b"\nend\n")
    submitted(alone, "w", f"{alone}/w.log")
    line = f"ulimit -v 300000; {sys.executable} -m grain.cli logs {words} | tail -c4"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], stdout=subprocess.PIPE, check=True, text=True
    )
    assert "end\n" == done.stdout
