"""Files of a queue that are damaged, lost or something else: a message, and nothing vanishes."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from grain.cli.slurm.__main__ import answer
from grain.cli.slurm.here import Here
from grain.eventlog.files import LARGEST
from grain.queue.book import Book
from grain.queue.packing import pack_bucket
from grain_testkit.command_line import grain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grain_testkit.job_commands import JobCommands

OLD = 3600.0  # seconds since a file was made, after which each host sees it


@pytest.fixture
def jobs(idle: JobCommands) -> JobCommands:
    """Three jobs, of which the first has ended; a wish; a view. No command starts a process."""
    found = idle
    for _ in range(3):
        found.submit()
    found.end(1)
    found.done("hold", "3")
    Book.read(found.queue).write_view()
    for name in ("jobs", "wishes"):
        for file in (found.queue.folder / name / "0").iterdir():
            os.utime(file, (time.time() - OLD,) * 2)
    return found


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def torn(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def noise(file: Path) -> None:
    file.write_bytes(bytes(range(256)))


def odd_types(file: Path) -> None:
    file.write_bytes(b'{"name":5,"at":[],"jobs":"x","what":{},"how":1,"version":2,"mission":[]}')


def another_kind(file: Path) -> None:
    file.write_bytes(b"[[[[7]]]]")


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def blown_up(file: Path) -> None:
    os.truncate(file, LARGEST + 1)


def lost(file: Path) -> None:
    file.unlink()


def other_note(file: Path) -> None:
    file.unlink()
    file.symlink_to('{"at":[]} 0123456789abcdef')


DAMAGES = [
    other_note,
    emptied,
    torn,
    noise,
    odd_types,
    another_kind,
    pipe,
    folder,
    link,
    blown_up,
    lost,
]
FILES = ["format", "view", "jobs/0/1", "jobs/0/2", "attempts/0/1.1.begun", "attempts/0/1.1.ended",
         "wishes/0/1"]  # fmt: skip
COMMANDS = [
    ("jobs", "--all"), ("jobs", "2"), ("jobs", "--csv"), ("jobs", "--json"), ("why", "1-3"),
    ("logs", "queue:1"), ("release", "3"), ("hold", "2"), ("resubmit", "1"), ("queue", "status"),
    ("cancel", "-y", "2"), ("submit", "-H", "true"),
]  # fmt: skip
SLURM = [("squeue", "-t", "all"), ("sacct", "-S", "2020-01-01"), ("scontrol", "show", "job"),
         ("scancel", "2")]  # fmt: skip


def each_command(jobs: JobCommands) -> str:
    """Return all that the commands print; an error that they do not foresee is raised."""
    printed = ""
    for words in COMMANDS:
        done = jobs.grain(*words)
        assert done.exit_code in (0, 1, 2), words
        printed += done.output
    for command, *options in SLURM:
        found = answer(Here(command), options)
        printed += found.out + found.err
    assert "Error: (Grain)" not in printed
    assert "error: (Grain) " not in printed.replace(str(jobs.queue.folder), "")
    return printed


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        pytest.param(damage, name, marks=() if (i + k) % 4 == 0 else pytest.mark.nightly)
        for i, damage in enumerate(DAMAGES)
        for k, name in enumerate(FILES)
    ],
)
def test_no_command_ends_in_a_traceback_or_waits(
    damage: Callable[[Path], None], name: str, jobs: JobCommands
) -> None:
    file = jobs.queue.folder / name
    if file.is_symlink():  # a note: a file with its content means the same
        content = jobs.queue.files.content(name)
        file.unlink()
        file.write_bytes(content)
    damage(file)

    each_command(jobs)


@pytest.mark.parametrize("view", [True, False])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("number", [1, 2])
def test_the_other_jobs_stay_if_the_file_of_one_is_damaged_or_lost(
    number: int, damage: Callable[[Path], None], view: bool, jobs: JobCommands
) -> None:
    damage(jobs.queue.folder / "jobs/0" / str(number))
    if not view:
        (jobs.queue.folder / "view").unlink()

    rows = [line.split()[0] for line in jobs.done("jobs", "--all").splitlines()[2:5]]
    assert ["1", "2", "3"] == rows
    assert 3 == len(answer(Here("squeue"), ["-h", "-t", "all"]).out.splitlines())
    assert jobs.done("submit", "-H", "true").startswith("job 4")


@pytest.fixture
def packed(idle: JobCommands) -> JobCommands:
    """Jobs 1 to 3 in a pack, and job 4."""
    found = idle
    shutil.rmtree(found.queue.folder)
    from grain.queue.files import LocalDisk, WholeFiles
    from grain.queue.folder import Queue, make_format, queue_folder

    path = queue_folder()
    path.mkdir(mode=0o700)
    files = WholeFiles(LocalDisk(path))
    found.queue = Queue(files, make_format(files, str(path), bucket=4), path)
    for number in range(1, 5):
        found.submit()
        if number < 4:
            found.end(number)
    pack_bucket(found.queue, 0, Book.read(found.queue).entries.values())
    return found


@pytest.mark.parametrize("damage", [emptied, torn, noise, pipe])
@pytest.mark.parametrize("kind", ["jobs", "attempts"])
def test_a_packed_file_that_is_damaged_is_named_and_hides_no_other_job(
    kind: str, damage: Callable[[Path], None], packed: JobCommands
) -> None:
    damage(packed.queue.folder / kind / "0")

    done = packed.grain("jobs", "--all")
    assert 0 == done.exit_code
    assert "4 " in done.stdout
    assert f"{kind}/0 in the folder of the queue is damaged" in done.stderr
    assert f"{kind}/0 in the folder of the queue is damaged" in packed.grain("why", "1").output
    found = answer(Here("sacct"), ["-n", "-X", "-S", "2020-01-01"])
    assert f"{kind}/0 in the folder of the queue is damaged" in found.err
    assert 1 == len(found.out.splitlines())
    each_command(packed)


@pytest.mark.parametrize("kind", ["jobs", "wishes"])
def test_a_file_in_the_place_of_a_bucket_hides_nothing_else(kind: str, jobs: JobCommands) -> None:
    """Without a view, which else has what was read before."""
    damage = jobs.queue.folder / kind / "0"
    damage.unlink()
    damage.touch()
    (jobs.queue.folder / "view").unlink()

    assert "job " in jobs.done("submit", "-H", "true")
    done = jobs.grain("jobs", "--all")
    assert f"{kind}/0 in the folder of the queue is damaged" in done.stderr
    assert 1 == done.stdout.count(" true ")
    assert (0 if kind == "jobs" else 3) == done.stdout.count(" opt ")
    each_command(jobs)


@pytest.mark.parametrize("reason", [os.fsdecode(b"no \xff good"), "\ud800", "x\0y", "x" * 100_000])
def test_a_reason_may_have_any_bytes(reason: str, jobs: JobCommands) -> None:
    jobs.begin(2)

    assert "job 2 is cancelled" in jobs.done("cancel", "-y", "2", "--reason", reason)
    assert "job 3 is cancelled" in jobs.done("cancel", "-y", "3", "--reason", reason)
    text = jobs.done("jobs", "--all") + jobs.done("jobs", "3") + jobs.done("why", "3")
    assert all(len(line) < 1200 for line in jobs.done("jobs", "--all").splitlines())
    assert "cancelled" in text


ODD = os.fsdecode(b"a\xff\xfe")


@pytest.mark.parametrize(
    "words",
    [
        ["submit", "-n", ODD, "true"], ["submit", "--", "echo", ODD], ["submit", ODD],
        ["submit", "-C", ODD, "true"], ["jobs", ODD], ["why", ODD], ["wait", ODD], ["logs", ODD],
        ["hold", ODD], ["cancel", "-y", ODD, "--reason", ODD], ["--config", ODD, "ls"],
        ["jobs", "--queue", ODD], ["history", ODD], ["report", ODD], ["up", "--", ODD],
        ["run", ODD], ["attach", ODD], ["drain", ODD], ["resume", ODD], ["queue", "start", ODD],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_an_argument_may_have_any_bytes(words: list[str], jobs: JobCommands) -> None:
    done = grain(*words)
    assert done.exit_code in (0, 1, 2, 127, 255)


def test_a_named_pipe_that_lies_about_is_not_read_as_a_configuration(alone: Path) -> None:
    os.mkfifo(alone / "grain.toml")

    done = grain("ls")
    assert 1 == done.exit_code
    assert "it is not a plain file" in done.stderr
