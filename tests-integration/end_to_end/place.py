"""A user of the tests: a home, a configuration, and whatever grows out of the commands typed there.

Every process that a place brings about, on the nodes too, carries a mark in its environment. So a
place finds its own among those of others, and can check that none is left. (Jobs of PBS have the
environment of a login: there, the set-up has to add the mark.)
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from fake_batch.start import LONG, Batch, until

from grain.edge import dial
from grain.edge.questions import CODEC, Ask, StateAnswer, unpack
from grain.facts.rows import Worker
from grain_testkit.local_processes import process_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MARK = "GRAIN_TEST_PLACE"
BIN = Path(sys.executable).parent
NODES = ("--nodes=4", "--cores=16", "--memory=64000")  # options of a fake or a real system


@dataclass
class Mission:
    """A program that was started, and what it has printed."""

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def out(self) -> str:
        """Its standard output so far."""
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        """Its standard error so far."""
        return (self.folder / "err").read_text()

    def wait(self, seconds: float = LONG) -> str:
        """Wait for its end, which must be good; its standard output."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        assert 0 == code, f"the mission's exit code is {code}\n{self.out}\n{self.err}"
        return self.out


@dataclass
class Place:
    """A user's home on a cluster.

    Attributes:
        batch: The batch system.
        folder: Everything is below it.
    """

    batch: Batch
    folder: Path
    missions: list[Mission] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("home", "work", "bin"):
            (self.folder / name).mkdir(parents=True)

    @property
    def home(self) -> Path:
        """The home directory."""
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """The user's working directory."""
        return self.folder / "work"

    @property
    def env(self) -> dict[str, str]:
        """The environment of the user's shell."""
        others = ("GRAIN_", "XDG_", "PYTHON")
        env = {k: v for k, v in self.batch.env.items() if not k.startswith(others)}
        path = f"{BIN}{os.pathsep}{env['PATH']}"
        return {**env, "HOME": str(self.home), "PATH": path, MARK: str(self.folder)}

    # ---- what a user types

    def configure(self, text: str) -> None:
        """Write grain.toml."""
        (self.work / "grain.toml").write_text(text)

    def up(self, *words: str) -> list[str]:
        """``grain up``; the ids of the jobs."""
        before = [one["id"] for one in self.records()]
        self.grain("up", *words)
        return [str(one["id"]) for one in self.records() if one["id"] not in before]

    def grain(self, *words: str) -> str:
        """``grain WORDS``, which must succeed without complaint; what it printed."""
        done = self.typed(*words)
        complaints = re.sub(r"^Using config file .*\n", "", done.stderr, flags=re.MULTILINE)
        assert (0, "") == (done.returncode, complaints)
        return done.stdout

    def typed(self, *words: str) -> subprocess.CompletedProcess[str]:
        """``grain WORDS``, whatever comes of it."""
        return subprocess.run(
            [BIN / "grain", *words],
            cwd=self.work,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, program: str, *words: str, name: str = "mission") -> Mission:
        """``python NAME.py WORDS &``."""
        (self.work / f"{name}.py").write_text(program)
        folder = self.folder / f"{name}.{len(self.missions)}"
        folder.mkdir()
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                # A terminal shows at once what a program prints; a file would wait for its end.
                [sys.executable, "-u", f"{name}.py", *words],
                cwd=self.work,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        self.missions.append(Mission(process, folder))
        return self.missions[-1]

    # ---- what there is

    def records(self) -> list[dict[str, Any]]:
        """The jobs that were submitted."""
        files = sorted((self.home / ".local/state/grain/jobs").glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def log(self, name: str) -> str:
        """The output of a worker's job."""
        with contextlib.suppress(FileNotFoundError):
            return (self.work / f"{name}.log").read_text(errors="replace")
        return ""

    def processes(self) -> dict[int, str]:
        """The living processes of this place, with their command lines."""
        return dict(self._marked())

    def _marked(self) -> Iterator[tuple[int, str]]:
        mark = f"{MARK}={self.folder}".encode()
        for entry in process_folders():
            with contextlib.suppress(OSError):
                # Empty for a zombie.
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    yield int(entry.name), b" ".join(words).decode(errors="replace")

    def gnaw(self) -> int:
        """The pid of Gnaw. One that finds another one serving leaves at once."""
        return self._the(lambda words: " grain.head " in words)

    def agent(self, worker: str) -> int:
        """The pid of a worker's agent."""
        results = f"--name {worker} "
        return self._the(lambda words: "grain-worker " in words and results in words)

    def runner(self, worker: str) -> int:
        """The pid of a worker's runner."""
        words = f" grain.worker.runner.main {worker}"
        return self._the(lambda line: words in line and "subreaper" not in line)

    def _the(self, what: Callable[[str], bool]) -> int:
        """The pid of the one process with such a command line.

        A process that it is about to start has the same for a moment.
        """
        results: list[int] = []

        def one() -> bool:
            results[:] = [pid for pid, words in self._marked() if what(words)]
            return len(results) == 1

        until(one)
        return results[0]

    def of_job(self, worker: str) -> list[int]:
        """The processes on the node where a worker runs, the job's shell included."""
        agent = self.agent(worker)
        where = _variable(agent, "SLURM_JOB_ID")
        return [p for p in self.processes() if where and _variable(p, "SLURM_JOB_ID") == where]

    def state(self) -> StateAnswer:
        """Query the state of the scheduler."""

        async def ask() -> StateAnswer:
            address = f"edge://{self.home}/.local/share/edge-file-default"
            async with dial(address, role="cli", codec=CODEC, patience=LONG) as peer:
                await peer.channel.send([(Ask("state"), None)])
                return unpack((await peer.channel.receive())[0][1], StateAnswer)

        return trio.run(ask)

    def workers(self) -> dict[str, Worker]:
        """The workers that Gnaw has, by name."""
        return {worker.name: worker for worker in self.state().workers}

    def serving(self) -> list[str]:
        """The names of the workers that serve."""
        return sorted(n for n, worker in self.workers().items() if worker.state == "serving")

    # ---- the end

    def end_missions(self) -> None:
        """End the missions that still run."""
        for mission in self.missions:
            mission.process.terminate()
        for mission in self.missions:
            mission.process.wait(LONG)

    def close(self) -> None:
        """End everything in the ordinary ways.

        Raises:
            AssertionError: Something is left.
        """
        try:
            for pid in self.processes():
                send(signal.SIGCONT, pid)
            self.end_missions()
            ids = [str(one["id"]) for one in self.records()]
            if ids and self.batch.system != "local":  # whose processes end with Gnaw, or below
                # PBS says of a job that has ended that it has.
                self.batch.run("scancel" if self.batch.system == "slurm" else "qdel", *ids)
            signalled: set[int] = set()
            until(lambda: not self._end_heads(signalled))
        finally:
            left = self.processes()
            send(signal.SIGKILL, *left)
        assert {} == left

    def _end_heads(self, signalled: set[int]) -> dict[int, str]:
        """Tell each Gnaw once to end, also one that was just being started; all that is left."""
        left = self.processes()
        heads = {pid for pid, words in left.items() if " grain.head " in words} - signalled
        send(signal.SIGTERM, *heads)
        signalled |= heads
        return left


def send(number: signal.Signals, *pids: int) -> None:
    """Send a signal to processes that may be gone by now."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _variable(pid: int, name: str) -> str:
    with contextlib.suppress(OSError):
        for one in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            key, _, value = one.decode(errors="replace").partition("=")
            if key == name:
                return value
    return ""
