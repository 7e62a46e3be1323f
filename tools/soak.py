"""Soak: very many tasks and missions through one Gnaw and one worker, and what that leaves in them.

Nothing fails here. Each mission is an executor with a function of its own, which travels by value,
so that Gnaw, agent and runner have to forget as much as they learn; in every other mission the
first task runs an external program. After a tenth of the missions, and after the last, everything
comes to rest: no mission is there, and the worker is free. Then resident memory, descriptors and
threads are read once a second for 20 s, and the least of each counts, as a thread that has had to
look after the shared file system stays for some seconds. CPython rarely gives memory back, so what
is compared are high-water marks: since all missions are alike, those of the first tenth are those
of the rest, unless something grows.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import trio

from grain.edge import dial
from grain.edge.questions import CODEC, Ask, StateAnswer, unpack
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from tools.chaos.processes import environment, make_home, marked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

READINGS = 20
ROLES = ("gnaw", "agent", "runner", "subreaper", "fork server")
AT_ONCE = 4
"""Missions at a time."""


@dataclass(frozen=True)
class Reading:
    """What the processes of one role take.

    Attributes:
        megabytes: resident memory.
        descriptors: open files.
        threads: threads.
        processes: how many processes there are.
    """

    megabytes: float
    descriptors: int
    threads: int
    processes: int


def compare(before: dict[str, Reading], after: dict[str, Reading], tolerance: float) -> list[str]:
    """Return, as text, what has grown or shrunk by more than the tolerance, a fraction."""
    problems = []
    for role in sorted({*before, *after}):
        if role not in before or role not in after:
            problems.append(f"{role}: not there at both times")
            continue
        for name, early in vars(before[role]).items():
            late = getattr(after[role], name)
            if abs(late - early) > tolerance * early:
                problems.append(f"{role}: {name} went from {early:g} to {late:g}")
    return problems


def function_of(mission: int) -> Callable[[int], Any]:
    """Return a function that no other mission has."""

    async def work(task: int) -> int:
        if task == 0 and mission % 2:
            from grain.worker.external import run_external

            await run_external(["true"])
        return mission + task

    return work


class Soak:
    """Gnaw and a worker that live through many missions.

    Args:
        folder: empty.
        missions: how many.
        tasks: how many in all.
    """

    def __init__(self, folder: Path, missions: int, tasks: int) -> None:
        self._folder = folder
        self._missions = missions
        self._each, self._more = divmod(tasks, missions)
        make_home(folder)
        (folder / "shared").mkdir(mode=0o700)
        self._address = f"edge://{folder}/shared/meeting"
        self.right = 0

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a process of the run."""
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=self._folder / "work",
                env=environment(self._folder, "soak"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def run(self) -> tuple[dict[str, Reading], dict[str, Reading]]:
        """Run all missions; return the readings after a tenth of them, and after the last."""
        log = str(self._folder / "log")
        gnaw = self.start("grain.head", "--address", self._address, "--log-file", log)
        worker = self.start("grain.worker", "--url", self._address, "--res", '{"Cores": 16}')
        try:
            tenth = max(1, self._missions // 10)
            await self._live(range(tenth))
            early = await self._read()
            await self._live(range(tenth, self._missions))
            return early, await self._read()
        finally:
            for process in (worker, gnaw):
                process.terminate()
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(process.wait)

    async def _live(self, missions: range) -> None:
        numbers = iter(missions)

        async def in_turn() -> None:
            for number in numbers:
                await self._mission(number)

        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(in_turn)

    async def _mission(self, number: int) -> None:
        count = self._each + (number < self._more)
        connect = GnawConnector(self._address, start=False).connect
        work = function_of(number)
        async with RemoteExecutor(self._address, name=f"m{number}", connect=connect) as executor:
            tasks = {executor.submit(Cores(1), work, n): n for n in range(count)}
            executor.close()
            async for task, ended in executor.results:
                self.right += ended.unwrap() == number + tasks.pop(task)

    async def _state(self) -> StateAnswer:
        async with dial(self._address, role="cli", codec=CODEC, patience=60) as peer:
            await peer.channel.send([(Ask("state"), None)])
            return unpack((await peer.channel.receive())[0][1], StateAnswer)

    async def _read(self) -> dict[str, Reading]:
        """Wait until everything rests; return the least of some readings."""
        while True:
            state = await self._state()
            if not state.missions and all(one.free == one.total for one in state.workers):
                break
            await trio.sleep(0.2)
        readings = []
        for _ in range(READINGS):
            await trio.sleep(1.0)
            readings.append(await trio.to_thread.run_sync(self._now))
        return {role: least([one[role] for one in readings]) for role in readings[-1]}

    def _now(self) -> dict[str, Reading]:
        result: dict[str, Reading] = {}
        there = marked(str(self._folder))
        for role in ROLES:
            of_role = [one.process for one in there if one.role == role]
            with suppress(psutil.Error):
                if of_role:
                    result[role] = Reading(
                        round(sum(one.memory_info().rss for one in of_role) / 1e6, 2),
                        sum(one.num_fds() for one in of_role),
                        sum(one.num_threads() for one in of_role),
                        len(of_role),
                    )
        return result


def least(readings: Sequence[Reading]) -> Reading:
    """Return the least of each number."""
    return Reading(
        min(one.megabytes for one in readings),
        min(one.descriptors for one in readings),
        min(one.threads for one in readings),
        min(one.processes for one in readings),
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run; print a JSON line; return 1 if something grew."""
    parser = argparse.ArgumentParser(prog="nox -s soak --")
    add = parser.add_argument
    add("--tasks", type=int, default=1_000_000, help="in all (%(default)d)")
    add("--missions", type=int, default=2000, help="(%(default)d)")
    add("--tolerance", type=float, default=0.05, help="a fraction (%(default)g)")
    options = parser.parse_args(words)
    folder = Path(tempfile.mkdtemp(prefix="grain-soak-", dir="/var/tmp"))
    began = time.monotonic()
    soak = Soak(folder, options.missions, options.tasks)
    early, late = trio.run(soak.run)
    broken = compare(early, late, options.tolerance)
    if soak.right != options.tasks:
        broken.append(f"{soak.right} of {options.tasks} tasks had the right result")
    line = {
        "soak": options.tasks,
        "missions": options.missions,
        "elapsed": round(time.monotonic() - began, 1),
        "after a tenth": {role: vars(one) for role, one in early.items()},
        "at the end": {role: vars(one) for role, one in late.items()},
        "broken": broken,
    }
    print(json.dumps(line), flush=True)
    if not broken:
        shutil.rmtree(folder)
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
