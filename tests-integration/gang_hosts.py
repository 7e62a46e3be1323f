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
from select import select
from shutil import which
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.hosts import Host, hosts, shared_folder, why_not

from grain_testkit.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = str(Path(__file__).with_name("gang_program.py"))
PAGE = Path(__file__).parents[1] / "docs/gangs.md"
SILENCE = 20.0
"""Seconds after which a member is lost in these tests: a busy machine may keep one waiting."""

GANG = ("gang_program", "gang.root", "gang.member", "guards/main.py")
"""Words on the command lines of the processes of a gang itself."""

SOON = "3"
"""Those as ``GANG_SILENCE``, where a test waits for them."""

PATIENCE = 300.0
"""Seconds for what must happen at all."""

on_hosts = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
"""The mark of tests that need hosts."""

OPENMPI = f"openmpi:{which('mpirun.openmpi') or ''}"
MPICH = f"mpich:{which('mpiexec.mpich') or ''}"


class Calls:
    """The calls of a gang that runs for many tests, one after the other.

    Args:
        root: of the gang, a program whose launcher is ``calls``.

    Attributes:
        are_over: True unless a call is under way.
    """

    def __init__(self, root: subprocess.Popen[str]) -> None:
        self._root = root
        self.are_over = True

    def begin(self, *words: str, launcher: str = "", limit: str = "", output: str = "") -> None:
        """Have the root call a program."""
        assert self._root.stdin is not None
        self.are_over = False
        asked = {"words": words, "launcher": launcher, "limit": limit, "output": output}
        self._root.stdin.write(f"{json.dumps(asked)}\n")
        self._root.stdin.flush()

    def ended(self) -> str:
        """Wait for the end of the call, and return what the root says of it."""
        assert self._root.stdout is not None
        assert select([self._root.stdout], [], [], PATIENCE)[0], "the call does not end"
        line = self._root.stdout.readline()
        assert line.startswith('"'), f"the gang has ended: {line}"
        self.are_over = True
        return str(json.loads(line))


class Members:
    """The members of a gang on several hosts.

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
                    stdin=subprocess.PIPE if launcher == "calls" else subprocess.DEVNULL,
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

    def left(self, index: int) -> list[int]:
        """Return the processes on a host that the tests have to be rid of."""
        return self.pids(index)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        began = time.monotonic()
        while not is_so():
            waited = time.monotonic() - began
            assert waited < PATIENCE
            time.sleep(min(0.02 + waited / 10, 0.2))  # a look at all processes is dear

    def kill(self, index: int, name: str, by: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the processes on a host that have a word on their command line."""
        found = self.pids(index, name)
        assert found, f"no process has {name}"
        for pid in found:
            with suppress(ProcessLookupError):  # it has ended with one before it
                os.kill(pid, by)

    def run_everywhere(self) -> bool:
        """Return True if all ranks run."""
        return all(self.pids(index, "777") for index in range(len(self.hosts)))

    def nothing_is_left(self, *indices: int) -> None:
        """Wait until no process is left on hosts; on all by default."""
        for index in indices or range(len(self.hosts)):
            self.wait_for(lambda index=index: not self.left(index))  # type: ignore[misc]


class RunningGang(Members):
    """A gang that runs for many tests, each of which has it make calls."""

    def __init__(self, members: Members) -> None:
        super().__init__(members.hosts, members.folder)
        members.start(launcher="calls")
        self.processes = members.processes
        self._calls = Calls(self.processes[0])

    def start(self, *words: str, launcher: str = "", limit: str = "", **variables: str) -> None:
        """Have the root call a program."""
        self._calls.begin(*words, launcher=launcher, limit=limit, **variables)

    def ended(self, index: int = 0) -> str:
        """Wait for the end of the call, and return what the root says of it."""
        return super().ended(index) if index else self._calls.ended()

    def left(self, index: int) -> list[int]:
        """Return the processes on a host that are none of the gang itself."""
        own = {pid for name in GANG for pid in self.pids(index, name)}
        return [pid for pid in self.pids(index) if pid not in own]

    @property
    def is_whole(self) -> bool:
        """True if it may serve another test."""
        alive = all(process.poll() is None for process in self.processes)
        return alive and self._calls.are_over and not any(map(self.left, range(len(self.hosts))))


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


@contextmanager
def running_gang(*names: str) -> Iterator[RunningGang]:
    """Make hosts, and start a gang on them; it ends with the block, unless a test has broken it."""
    with gang_of(*names) as members:
        running = RunningGang(members)
        yield running
        if running.is_whole:
            assert "no more calls\n" == members.ended()
            members.nothing_is_left()


def running_on(*names: str) -> Kept[RunningGang]:
    """Return a gang on hosts, for many tests."""
    return Kept(lambda: running_gang(*names), lambda gang: gang.is_whole)
