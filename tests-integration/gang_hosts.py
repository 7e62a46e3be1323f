"""A gang on hosts that are network namespaces, each member a program (`gang_program`)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.hosts import Host, hosts, shared_folder, why_not

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = str(Path(__file__).with_name("gang_program.py"))
PAGE = Path(__file__).parents[1] / "docs/gangs.md"
SILENCE = 20.0
"""Seconds after which a member is lost in these tests: a busy machine may keep one waiting."""

SOON = "3"
"""Those as ``GANG_SILENCE``, where a test waits for them."""

PATIENCE = 300.0
"""Seconds for what must happen at all."""

on_hosts = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
"""The mark of tests that need hosts."""

OPENMPI = f"openmpi:{which('mpirun.openmpi') or ''}"
MPICH = f"mpich:{which('mpiexec.mpich') or ''}"


class Members:
    """The members of a gang on three hosts.

    Args:
        hosts: the first one is the root's.
        folder: which they share.
    """

    def __init__(self, hosts: list[Host], folder: Path) -> None:
        self.hosts = hosts
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *words: str, launcher: str = "", limit: str = "", **variables: str) -> None:
        """Start all members; the root runs a program."""
        places = [self.folder / f"seat{index}" for index in range(1, len(self.hosts))]
        joined = ",".join(map(str, places))
        commands = [["root", joined, *words], *(["seat", str(place)] for place in places)]
        for index, (host, command) in enumerate(zip(self.hosts, commands, strict=True)):
            environment = {
                **os.environ,
                "GANG_CPUS": json.dumps([index % 2]),
                "GANG_SILENCE": str(SILENCE),
                "GANG_LAUNCHER": launcher,
                "GANG_LIMIT": limit,
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                # More ranks than the machine has cores would otherwise wait by computing.
                "OMPI_MCA_mpi_yield_when_idle": "1",
                **variables,
            }
            self.processes.append(
                subprocess.Popen(
                    host.entering([sys.executable, PROGRAM, *command], str(self.folder)),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )

    def start_of_page(self, name: str, *arguments: str, **variables: str) -> None:
        """Start all members; the root calls a function of a program of docs/gangs.md."""
        blocks = re.findall("^```py\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
        (block,) = [one for one in blocks if f"async def {name}(" in one]
        (self.folder / "page.py").write_text(block.replace("\nrun(main)\n", ""))
        self.start("page.py", name, *arguments, launcher="function", **variables)

    def ended(self, index: int = 0) -> str:
        """Wait for the end of a member, and return what it printed."""
        return self.processes[index].communicate(timeout=PATIENCE)[0]

    def pids(self, index: int, name: str = "") -> list[int]:
        """Return the processes on a host that have a word on their command line; no part of one.

        A port, a key or the name of a temporary folder may hold any digits.
        """
        whole = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)".encode())
        found = []
        for pid in self.hosts[index].processes():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
            except OSError:
                continue
            # A cat keeps the host alive.
            if state != "Z" and words[0] != b"cat" and any(map(whole.search, words)):
                found.append(pid)
        return found

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill(self, index: int, name: str, by: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the processes on a host that have a word on their command line."""
        for pid in self.pids(index, name):
            with suppress(ProcessLookupError):  # it has ended with one before it
                os.kill(pid, by)

    def run_everywhere(self) -> bool:
        """Return True if all ranks run."""
        return all(self.pids(index, "777") for index in range(len(self.hosts)))

    def nothing_is_left(self, *indices: int) -> None:
        """Wait until no process is left on hosts; on all by default."""
        for index in indices or range(len(self.hosts)):
            self.wait_for(lambda index=index: not self.pids(index))  # type: ignore[misc]


@contextmanager
def gang_of(*names: str) -> Iterator[Members]:
    """Make hosts for the members of a gang; they and all their processes end with the block."""
    with hosts(*names) as made, shared_folder() as folder:
        members = Members(made, folder)
        try:
            yield members
        finally:
            for process in members.processes:
                process.kill()
                process.communicate()
