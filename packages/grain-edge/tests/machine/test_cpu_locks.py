"""CPUs are taken by locks that end with their holders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from grain.edge.machine.cpu_locks import VARIABLE, CpuLocks, taken_cpus, taking_cpus

if TYPE_CHECKING:
    from pathlib import Path

HOLDER = """
import sys, time
from grain.edge.machine.cpu_locks import taking_cpus
with taking_cpus([1, 3]):
    print("taken", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cpus"
    assert "grain-cpus-" in os.environ[VARIABLE], "the plugin of the tests names another variable"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


@pytest.mark.usefixtures("file")
def test_a_cpu_is_taken_once_within_a_process_too() -> None:
    ours, theirs = CpuLocks(), CpuLocks()

    assert ours.take(2)
    assert not theirs.take(2)
    assert theirs.take(3)
    assert {2, 3} == taken_cpus(range(8))
    ours.close()
    assert theirs.take(2)
    theirs.close()
    assert set() == taken_cpus(range(8))


@pytest.mark.usefixtures("file")
def test_cpus_of_a_process_that_was_killed_are_free() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        assert {1, 3} == taken_cpus(range(8))
        with taking_cpus([1, 2]):
            assert {1, 2, 3} == taken_cpus(range(8))
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert set() == taken_cpus(range(8))


def test_all_users_share_the_file_whatever_the_umask(file: Path) -> None:
    before = os.umask(0o077)
    try:
        CpuLocks().close()
    finally:
        os.umask(before)

    assert 0o666 == file.stat().st_mode & 0o777
    assert 0 == file.stat().st_size


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "nowhere", "none"])
def test_without_a_plain_file_every_cpu_counts_as_free(
    file: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link, which another user may have put there, is not followed.

    Tried: Replace the file by which local workers divide CPUs.
    Result: every CPU counts as free.
    """
    if kind == "link":
        file.symlink_to("elsewhere")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    else:
        monkeypatch.setenv(VARIABLE, "" if kind == "none" else f"{file}/a/b")
    ours, theirs = CpuLocks(), CpuLocks()

    assert ours.take(0)
    assert theirs.take(0)
    assert set() == taken_cpus([0])
    assert not (file.parent / "elsewhere").exists()
