"""The identity of a process, and what a look at it leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from grain.edge.meeting import files
from grain.edge.transports.file_folder import remove_tree
from grain.files.processes import (
    is_stopped,
    machine_digest,
    start_time,
    this_process,
    user_and_host,
    user_name,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_a_user_without_a_name_goes_by_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = 54399
    assert "54399" == user_name(nobody)

    monkeypatch.setattr(os, "geteuid", lambda: nobody)
    assert f"54399 on {this_process().host}" == user_and_host()


def test_a_forked_process_has_an_identity_of_its_own() -> None:
    """The parent's is kept, and is not that of the child."""
    parent = this_process()
    assert os.getpid() == parent.pid
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(this_process().pid).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert child == int(os.read(read, 100))
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("content", [None, "", "uninitialized\n", "ü" * 32, "0" * 31])
def test_a_host_may_have_no_machine_id(tmp_path: Path, content: str | None) -> None:
    """An image has an empty file, and some hosts have none."""
    if content is not None:
        (tmp_path / "id").write_text(content)
    assert "" == machine_digest(str(tmp_path / "id"))


def test_hosts_have_different_digests_that_hide_the_machine_id(tmp_path: Path) -> None:
    """The same id gives the same digest."""
    digests = []
    for number, text in enumerate(("a" * 32, "b" * 32, "a" * 32)):
        (tmp_path / str(number)).write_text(f"{text}\n")
        digests.append(machine_digest(str(tmp_path / str(number))))
    assert digests[0] == digests[2] != digests[1]
    assert "a" * 4 not in digests[0]


def test_a_process_may_have_any_name(tmp_path: Path) -> None:
    """The name of its program stands in the line that is read, whatever its bytes."""
    program = tmp_path / os.fsdecode(b"x) Z \xff (")
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as process:
        try:
            assert start_time(process.pid) is not None
            assert not is_stopped(process.pid)
        finally:
            process.kill()


def test_a_process_that_was_not_waited_for_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert start_time(process.pid) is None


def test_names_that_differ_each_time_are_not_interned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's table of interned strings grows by them; some versions never forget one."""
    interned: list[str] = []

    def intern(text: str) -> str:
        interned.append(text)
        return text

    folder = str(tmp_path / "mailbox-4711")
    monkeypatch.setattr(sys, "intern", intern)
    this_process()
    start_time(os.getpid())
    is_stopped(4711)
    files.make_private(folder)
    files.make_name(f"{folder}/0815")
    files.check_writable(folder)
    files.remove(f"{folder}/0815")
    files.remove(f"{folder}/0815")
    remove_tree(folder)
    monkeypatch.undo()
    assert [] == interned
    assert not os.path.lexists(folder)
