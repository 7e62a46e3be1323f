"""Queues that cannot be used: every command says why, and nothing is half submitted."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grain.files.trust import python_command
from grain.queue.folder import Queue, queue_folder
from grain_testkit.command_line import grain
from grain_testkit.job_commands import JobCommands
from grain_testkit.small_disk import fill, small_disk

if TYPE_CHECKING:
    from slurm_site import SlurmSite

COMMANDS = [
    ("submit", "true"), ("jobs",), ("wait", "1"), ("cancel", "1"), ("hold", "1"), ("release", "1"),
    ("resubmit", "1"), ("why", "1"), ("logs", "queue:1"), ("queue", "status"), ("queue", "start"),
    ("queue", "stop"),
]  # fmt: skip


def everywhere(jobs: JobCommands, message: str) -> None:
    """Have each command refuse the queue with a message."""
    for words in COMMANDS:
        done = jobs.grain(*words)
        assert done.exit_code in (1, 255), words
        assert message in done.stderr, words
        assert done.stdout == "", words


def test_a_queue_of_another_version_is_refused_by_every_command(idle: JobCommands) -> None:
    idle.submit()
    (idle.queue.folder / "format").write_text('{"version":1,"mission":"m"}')

    everywhere(idle, "has version 1 of the format, and this Grain has 2: use the same Grain on all")
    assert 2 == idle.queue.jobs.end()


def test_a_queue_that_others_may_write_to_is_refused_by_every_command(idle: JobCommands) -> None:
    idle.submit()
    idle.queue.folder.chmod(0o777)

    everywhere(idle, "cannot be a queue: every user may write to ")
    assert "or choose another queue by --queue NAME" in idle.refused("jobs")
    assert 2 == idle.queue.jobs.end()


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_queue_of_another_user_is_refused_by_every_command(idle: JobCommands) -> None:
    os.chown(idle.queue.folder, 65534, -1)

    everywhere(idle, "and only you may have access")


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_cannot_have_a_queue(
    idle: JobCommands, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def link(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    assert "hard links" in idle.refused("submit", "--queue", "new", "true")
    assert "hard links" in idle.refused("submit", "true")
    assert 1 == idle.queue.jobs.end()


def test_on_a_full_disk_no_number_is_given(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (alone / "grain.toml").write_text("")
    with small_disk("256k") as disk:
        monkeypatch.setenv("XDG_STATE_HOME", str(disk / "state"))
        jobs = JobCommands(alone)
        jobs.dispatch()
        filler = fill(disk)
        message = "no job was submitted, and no number was given: the disk is full"
        assert message in jobs.refused("submit", "true")
        assert message in jobs.refused("submit", "-i", "-", "cat", input="x" * 5000)
        assert "the disk is full" in jobs.refused("submit", "--queue", "new", "true")
        assert 1 == jobs.queue.jobs.end()
        filler.unlink()
        assert "job 1\n" == jobs.done("submit", "true")
        fill(disk)
        assert "the disk is full" in jobs.refused("hold", "1")
        assert "the disk is full" in jobs.refused("cancel", "1")
        assert "waiting" in jobs.done("jobs", "1")


@pytest.mark.parametrize("option", ["--name=opt", "--parsable", "--json"])
def test_a_number_that_cannot_be_written_is_told_to_the_user(
    jobs: JobCommands, option: str
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*python_command("grain.cli"), "submit", option, "true"],
            cwd=jobs.home, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "Error: job 1 was submitted, but its number could not be written: No space left on device\n"
    )
    assert jobs.queue.jobs.has(1)


def test_on_a_full_disk_sbatch_says_so_in_words_of_slurm(site: SlurmSite) -> None:
    with small_disk("256k") as disk:
        state = {"XDG_STATE_HOME": str(disk / "state")}
        Queue.open(queue_folder("queue", state), make=True)
        fill(disk)
        found = site.answer("sbatch", "--wrap=x", **state)
        assert (1, "") == (found.status, found.out)
        first, second = found.err.splitlines()
        assert first == (
            "sbatch: error: Batch job submission failed: "
            "I/O error writing script/environment to file"
        )
        assert second.startswith("sbatch: (Grain) no job was submitted, and no number was given")


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "true"), ("queue", "start"), ("up", "-n", "1"), ("run", "true"), ("slurm",),
        ("hq",), ("scale", "1"), ("run", "-d", "--name", "m", "true"),
    ],
)  # fmt: skip
def test_on_a_full_disk_each_command_names_the_place_and_the_remedy(
    alone: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    (alone / "grain.toml").write_text("")
    with small_disk("256k") as disk:
        monkeypatch.setenv("XDG_STATE_HOME", str(disk / "state"))
        fill(disk)
        done = grain(*words)
    assert 1 == done.exit_code
    assert f"{disk}/state/grain" in done.output
    assert (
        "make room there, or set xdg_state_home to a dir" in done.output.replace("\n", " ").lower()
    )
    assert "None" not in done.output
