"""Programs whose processes may not be looked at: set-uid ones where /proc hides those of others."""

from __future__ import annotations

import marshal
import os
import shutil
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from grain.worker.guards import fork_server
from grain.worker.guards.protocol import STUCK, UNKILLABLE

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import os, signal, sys
import trio
from grain import GVAR
from grain.resource import Token
from grain.worker.external import ExternalLostError, run_external
from grain_testkit.program_trees import descendants_named

asleep, end = sys.argv[1:]

def sleepers():
    pids = map(int, filter(str.isdigit, os.listdir("/proc")))
    return [pid for pid in pids if pid > 1 and is_asleep(pid)]  # 1 is root's shell

def is_asleep(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().startswith(os.fsencode(asleep) + b"\\0")
    except PermissionError:
        return True  # no other process of this namespace may not be looked at
    except OSError:
        return False

async def call():
    with trio.move_on_after(250):
        try:
            await run_external(["sh", "-c", '"$0" 1000 & wait', asleep], grace=0.1)
        except ExternalLostError:
            print("lost", flush=True)

async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        # A helper process may not be looked at either for the moment in which it begins, when the
        # supervisor has no name yet.
        while not (sleepers() and descendants_named("grain-supervise")):
            await trio.sleep(0.01)
        if end == "cancelled":
            nursery.cancel_scope.cancel()
        else:
            os.kill(descendants_named("grain-supervise")[0], signal.SIGKILL)
    print(sleepers(), (await run_external(["echo", "next"])).stdout_text)

os.setresgid(12345, 12345, 12345)
with GVAR.scope(Token("own")):
    trio.run(main)
"""

# A user, who may read all files, as an interpreter may lie in root's home.
AS_USER = [
    *("setpriv", "--reuid=12345", "--clear-groups"),
    *("--inh-caps=+dac_read_search,+setgid", "--ambient-caps=+dac_read_search,+setgid"),
]


def may_mount() -> bool:
    words = ["unshare", "--mount", "--pid", "--fork", "mount", "-t", "proc", "proc", "/proc"]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a set-uid program and mounts /proc")
@pytest.mark.parametrize("end", ["cancelled", "killed"])
def test_a_set_uid_descendant_that_proc_hides_is_ended(tmp_path: Path, end: str) -> None:
    """By the supervisor when the call is cancelled, by the fork server when that is killed.

    Tried: Program that stops, hides or outlives its supervisor.
    Result: ended within the grace period.
    """
    if not may_mount():
        pytest.skip("no namespaces here")
    # Below pytest's own directory, which others may not enter.
    asleep = tmp_path / "asleep"
    shutil.copy("/bin/sleep", asleep)
    asleep.chmod(0o4755)
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    mount = 'mount -t proc -o hidepid=1 proc /proc && "$@"; exit $?'

    done = subprocess.run(
        [*words, "sh", "-c", mount, "sh", *AS_USER, sys.executable, "-c", PROGRAM, asleep, end],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert "" == done.stderr
    assert ("lost\n" if end == "killed" else "") + "[] next\n\n" == done.stdout


def test_processes_that_a_killed_supervisor_leaves_and_that_survive_sigkill_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After 30 s. Such a process cannot be made here."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    now = 5.0
    monkeypatch.setattr(fork_server, "time", SimpleNamespace(monotonic=lambda: now))
    with ours:
        awaited = fork_server.Awaited(3, theirs.detach())
        now += UNKILLABLE - 1
        assert not awaited.report_stuck([17])
        now += 1
        assert awaited.report_stuck([17])
        assert (STUCK, [17]) == marshal.loads(ours.recv(100))
        awaited.socket.close()
