"""Workers that join at a bridge: how long each takes, and how long after the server was away.

Two clusters are network namespaces, which reach nothing but the host of the server, so the server
carries what passes between them; that needs root. The scheduler is idle, busy with the calls of two
missions, or stopped for two thirds of the time: a member's first bytes are there then before the
scheduler has looked at the server's answer. A join includes the start of the worker's processes, a
dial is only the way to the scheduler. `python -m tools.bench.bridge_joins 4 busy` measures one load
beside four busy processes.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from grain.edge import dial, make_key
from grain.head.service import CODEC
from grain.remote_exer import RemoteExecutor
from grain.resource import Cores, Token
from tools.bench import say
from tools.bench.cluster import nothing
from tools.hosts import Clusters, Host, clusters, why_not

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    Program = AbstractContextManager[subprocess.Popen[bytes]]

WORKERS = 8
MOST = 3.0
"""Seconds in which each worker is to be in, from its first line to its registration."""

AWAY = 20.0
"""Seconds for which the server is away."""

GRACE = 600.0
"""Seconds for which the scheduler waits: no task of a worker that is back begins twice."""

TASKS, LASTS = 400, 1.0  # tasks of the mission that sees the server go, and the seconds of each
DIALS = 20
PATIENCE = 300.0  # seconds after which something hangs
PORT = 4747
_ROOT = Path(__file__).parents[2]
_LINE = re.compile(r"(\d+-\d+-\d+ \d+:\d+:\d+,\d+) \w+ (.*)")
_STOPPER = """
import sys, time, psutil
top = psutil.Process(int(sys.argv[1]))
while True:
    programs = [top, *top.children(recursive=True)]
    for one in programs:
        one.suspend()
    time.sleep(0.2)
    for one in programs:
        one.resume()
    time.sleep(0.1)
"""
_BEGINS, _IS_IN = "this worker, ", "registered at "


class Site:
    """Two clusters, with a scheduler in the first and workers in the second, that meet at a bridge.

    Args:
        folder: where the key and the logs are.
        network: the clusters.
    """

    def __init__(self, folder: Path, network: Clusters) -> None:
        self.folder = folder
        self._network = network
        self._here, self._far = network.hosts["here"], network.hosts["far"]
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_text(make_key())
        self.address = f"bridge://@{key}@{network.relay.address}:{PORT}"
        # Another kernel has another boot id: what a host of another cluster leaves out is left out.
        boot = folder / "boot_id"
        boot.write_text(f"{uuid.uuid4()}\n")
        mount = ["mount", "--bind", str(boot), "/proc/sys/kernel/random/boot_id"]
        subprocess.run(self._far.entering(mount), check=True)

    @contextmanager
    def _program(
        self, host: Host, log: str, words: Sequence[str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        with (self.folder / log).open("ab") as file:
            process = subprocess.Popen(
                host.entering([sys.executable, "-m", *words], str(_ROOT)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
            )
        with process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def bridge(self) -> Iterator[None]:
        """Serve the bridge."""
        words = ["grain.cli", "bridge", "serve", "--listen", f":{PORT}"]
        with self._program(self._network.relay, "bridge", words) as process:
            assert process.stdout is not None
            assert process.stdout.readline(), "the server has ended"
            yield

    @contextmanager
    def head(self, load: str) -> Iterator[None]:
        """Run the scheduler: "idle", "busy" or "stopped"."""
        words = ["grain.head", "--address", self.address, "--grace", f"{GRACE:g}"]
        with ExitStack() as stack:
            head = stack.enter_context(self._program(self._here, "head", words))
            if load == "busy":
                stack.enter_context(
                    self._worker(self._here, "here", '{"Cores": 32, "Token": "flood"}')
                )
                for _ in range(2):
                    stack.enter_context(self.mission("flood"))
            if load == "stopped":
                stack.enter_context(stopping(head))
            yield

    def _worker(self, host: Host, name: str, resources: str) -> Program:
        words = ["grain.worker", "--url", self.address, "--name", name, "--res", resources]
        return self._program(host, name, words)

    def worker(self, number: int) -> Program:
        """Run a worker in the second cluster."""
        return self._worker(self._far, f"w{number}", '{"Cores": 1, "Token": "far"}')

    def near_worker(self, number: int) -> Program:
        """Run a worker on the scheduler's host, which needs no relay."""
        return self._worker(self._here, f"near{number}", '{"Cores": 1, "Token": "near"}')

    def dials(self) -> list[float]:
        """Return the seconds of some dials of one process in the second cluster."""
        words = ["tools.bench.bridge_joins", "dials", self.address, str(self.folder)]
        with self._program(self._far, "dials", words) as process:
            assert process.stdout is not None
            return [float(line) for line in process.stdout]

    def mission(self, kind: str) -> Program:
        """Run a mission in the first cluster: "flood" or "work"."""
        words = ["tools.bench.bridge_joins", kind, self.address, str(self.folder)]
        return self._program(self._here, kind, words)

    def cut(self) -> None:
        """Let all packets to the second cluster vanish."""
        self._network.cut("two")

    def mend(self) -> None:
        """Undo `cut`."""
        self._network.mend("two")

    def times(self, worker: str, text: str) -> list[float]:
        """Return when a worker has logged the lines that begin so, in seconds."""
        log = self.folder / worker
        lines = log.read_text().splitlines() if log.exists() else []
        return [
            datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").timestamp()
            for match in map(_LINE.match, lines)
            if match is not None and match[2].startswith(text)
        ]

    def until_all(self, since: float = 0.0, names: str = "w") -> list[float]:
        """Wait until each worker has registered after a time; return when."""
        workers = [f"{names}{number}" for number in range(WORKERS)]
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = [[at for at in self.times(one, _IS_IN) if at > since] for one in workers]
            if all(found):
                return [times[0] for times in found]
            time.sleep(0.1)
        raise TimeoutError(f"only {sum(map(bool, found))} of {WORKERS} workers are in")

    def begun(self) -> list[str]:
        """Return the tasks of the mission "work" that have begun, once for each time."""
        file = self.folder / "begun"
        return file.read_text().split() if file.exists() else []


@contextmanager
def stopping(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop a program for two thirds of the time until the end of the block."""
    with subprocess.Popen([sys.executable, "-c", _STOPPER, str(process.pid)]) as stopper:
        try:
            yield
        finally:
            stopper.kill()


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep processes beside busy until the end of the block."""
    with ExitStack() as stack:
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


# ---- the missions


async def begin(folder: str, number: int) -> None:
    """Enter the beginning of a task in a file, and wait."""
    import trio

    from tools.bench.bridge_joins import LASTS

    with open(f"{folder}/begun", "a") as begun:  # noqa: ASYNC230, PTH123 - one line, at once
        begun.write(f"{number}\n")
    await trio.sleep(LASTS)


async def flood(address: str, folder: str) -> None:  # noqa: ARG001
    """Keep the scheduler busy with calls that do nothing."""
    async with RemoteExecutor(address, name="flood") as executor:
        while True:
            for _ in range(10_000):
                executor.submit(Cores(1) & Token("flood"), nothing)
            await executor.join()


async def work(address: str, folder: str) -> None:
    """Run tasks in the second cluster."""
    async with RemoteExecutor(address, name="work") as executor:
        for number in range(TASKS):
            executor.submit(Cores(1) & Token("far"), begin, folder, number)
        await executor.join()


async def dials(address: str, folder: str) -> None:  # noqa: ARG001
    """Print the seconds of each of some dials, from the first look to the scheduler's greeting."""
    for _ in range(DIALS):
        began = time.monotonic()
        async with dial(address, role="cli", codec=CODEC, patience=PATIENCE):
            print(time.monotonic() - began, flush=True)
        await trio.sleep(0.2)


# ---- what is measured


def joins(site: Site, load: str) -> None:
    """Measure workers that come a second apart; and as many that need no relay, to compare."""
    with site.bridge(), site.head(load), ExitStack() as stack:
        # The missions' flood has begun then.
        time.sleep(8)
        took: dict[str, list[float]] = {}
        for names, worker in (("near", site.near_worker), ("w", site.worker)):
            for number in range(WORKERS):
                stack.enter_context(worker(number))
                time.sleep(1)
            ends = site.until_all(names=names)
            began = [site.times(f"{names}{number}", _BEGINS)[0] for number in range(WORKERS)]
            took[names] = [end - begin for begin, end in zip(began, ends, strict=True)]
        more = {
            "median": round(statistics.median(took["w"]), 2),
            "without_relay": round(max(took["near"]), 2),
            "its_median": round(statistics.median(took["near"]), 2),
        }
        dialled = site.dials()
        median = round(statistics.median(dialled), 2)
        say(f"bridge.dial.{load}", max(dialled), f"s, the longest of {DIALS}", MOST, median=median)
        say(f"bridge.join.{load}", max(took["w"]), f"s, the last of {WORKERS}", MOST, **more)


def away(site: Site, load: str, how: str) -> None:
    """Measure what a server costs that is away while tasks run: killed, or cut off."""
    with ExitStack() as stack:
        bridge = stack.enter_context(ExitStack())
        bridge.enter_context(site.bridge())
        stack.enter_context(site.head(load))
        for number in range(WORKERS):
            stack.enter_context(site.worker(number))
        site.until_all()
        mission = stack.enter_context(site.mission("work"))
        while len(site.begun()) < 2 * WORKERS:
            time.sleep(0.1)
        if how == "killed":
            bridge.close()
            time.sleep(AWAY)
            bridge.enter_context(site.bridge())
            since = time.time()
            took = [at - since for at in site.until_all(since)]
            more = {"median": round(statistics.median(took), 2)}
            say(f"bridge.away.{load}.back", max(took), f"s, the last of {WORKERS}", **more)
        else:
            site.cut()
            time.sleep(AWAY)
            site.mend()
            count, since = len(site.begun()), time.time()
            while len(site.begun()) < count + 2 * WORKERS:
                time.sleep(0.1)
            say(f"bridge.cut.{load}.back", time.time() - since, "s until two tasks a worker")
        code = mission.wait(PATIENCE)
        begun = site.begun()
        twice = len(begun) - len(set(begun))
        more = {"ended": len(set(begun)), "of": TASKS, "exit_code": code}
        say(f"bridge.{how}.{load}.twice", twice, "tasks that began twice", 0, **more)


def main(beside: int = 0, *only: str) -> None:
    """Measure each load, or those named; beside so many busy processes."""
    if why := why_not():
        print(f"bridge_joins: {why}", file=sys.stderr)
        return
    with busy_processes(beside):
        for load in only or ("idle", "busy", "stopped"):
            for measure in (joins, partial(away, how="killed"), partial(away, how="cut")):
                with (
                    tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
                    clusters(one=["here"], two=["far"]) as network,
                ):
                    measure(Site(Path(folder), network), load)


if __name__ == "__main__":
    programs: dict[str, Callable[[str, str], Awaitable[None]]]
    programs = {"flood": flood, "work": work, "dials": dials}
    first, *rest = sys.argv[1:] or ["0"]
    if first in programs:
        trio.run(programs[first], rest[0], rest[1])
    else:
        main(int(first), *rest)
