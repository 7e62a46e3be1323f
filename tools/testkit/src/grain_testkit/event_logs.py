"""Event logs of missions that never were: realistic, and the same for the same seed.

A small simulation without processes: molecules pass four functions one after the other, on workers
that join, leave and are lost; tasks fail for several reasons, and some are retried with more
memory. It streams, so a log of a million tasks needs little memory.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

from grain.eventlog.causes import NO_FAILURE, RunFailure
from grain.eventlog.schema import (
    VERSION,
    LogEnded,
    LogStarted,
    Remark,
    RunEnded,
    TaskStarted,
    TaskSubmitted,
    WorkerJoined,
    WorkerLeft,
    encode,
)
from grain.eventlog.usage import Usage
from grain_testkit.small_log import failed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from grain.eventlog.schema import AnyLine

BEGAN = 1_767_600_000.0
"""When synthetic missions begin, in Unix seconds: 5 January 2026, 08:00 UTC."""


class Function(NamedTuple):
    """A function of synthetic missions.

    Attributes:
        name: its name.
        cores: the cores that it asks for.
        memory: the memory that it asks for, in GB.
        seconds: the median time of a run.
        used: the median share of the memory that it uses.
        busy: the share of the time of its cores in which its program computes.
    """

    name: str
    cores: int
    memory: float
    seconds: float
    used: float
    busy: float


STEPS = (
    Function("conformers", 1, 2.0, 40, 0.3, 0.97),
    Function("optimise", 4, 8.0, 300, 0.35, 0.85),
    Function("frequencies", 8, 24.0, 200, 0.6, 0.7),
    Function("energy", 2, 4.0, 15, 0.2, 0.9),
)
"""What each molecule passes, one after the other."""

# Failures, with a share of each.
_FAILURES = (
    (6, failed("xtb mol{n}.xyz --opt", 128, "abnormal termination of xtb")),
    (3, RunFailure("ExternalTimeoutError", "orca ended after its limit of {n} s")),
    (2, RunFailure("ValueError", "no convergence in /scratch/job{n} in {n} cycles")),
    (1, RunFailure("MemoryError", "mol{n}: no room for 2.1 GiB of integrals")),
)


@dataclass(eq=False)
class _Worker:
    name: str
    host: str
    free: list[int]  # CPUs, as a heap
    memory: float
    tasks: dict[int, _Run] = field(default_factory=dict)


class _Task(NamedTuple):
    number: int
    molecule: int
    step: int
    memory: float
    after: tuple[int, ...]
    retry_of: int
    attempt: int


class _Run(NamedTuple):
    task: _Task
    worker: _Worker
    started: float
    cpus: tuple[int, ...]
    outcome: Literal["value", "error", "lost"]


class SyntheticMission:
    """A mission that is simulated while its lines are read.

    Args:
        tasks: the number of tasks that it submits, retries included.
        seed: the same mission for the same seed.
        workers: the number of workers; with three or more, one leaves early and one is lost.
        cores: the cores of each.
        memory: the memory of each, in GB.
        failing: the share of runs that fail.
        ended: how the log ends; None for a mission that still runs.
        with_cpus: False where workers do not know the numbers of their CPUs.
    """

    def __init__(
        self,
        tasks: int,
        *,
        seed: int = 0,
        workers: int = 4,
        cores: int = 16,
        memory: float = 64.0,
        failing: float = 0.03,
        ended: Literal["done", "failed", "interrupted"] | None = "done",
        with_cpus: bool = True,
        name: str = "screening",
    ) -> None:
        self.name = name
        self._rng = random.Random(seed)
        self._limit = tasks
        self._cores, self._memory = cores, memory
        self._failing = failing
        self._ended = ended
        self._with_cpus = with_cpus
        self._numbers = count(1)
        self._order = count()
        self._submitted = 0
        self._molecules = count(1)
        self._waiting: tuple[deque[_Task], ...] = tuple(deque() for _ in STEPS)
        self._workers: list[_Worker] = []
        self._agenda: list[tuple[float, int, str, _Run | _Worker | int]] = []
        self._now = BEGAN
        self._planned = workers
        # The critical path: of each task its predecessor, of each that ended when.
        self._before: dict[int, int] = {}
        self._last = 0

    @property
    def critical_path(self) -> tuple[int, ...]:
        """The chain of tasks, each awaited by the next one, up to the last to end.

        Of the lines that have been read so far.
        """
        path = []
        at = self._last
        while at:
            path.append(at)
            at = self._before.get(at, 0)
        return tuple(reversed(path))

    def lines(self) -> Iterator[AnyLine]:
        """Yield the lines of the log, in the order of their times; only once."""
        yield LogStarted(
            time=BEGAN,
            version=VERSION,
            grain="1.0.0",
            python="3.12.4",
            id=f"{self._rng.getrandbits(64):016x}",
            name=self.name,
            command=("python", f"{self.name}.py", "--level", "gfn2"),
            directory=f"/home/me/{self.name}",
            host="login1",
            pid=4242,
            address="edge:///home/me/.local/share/edge-file-default",
        )
        for number in range(self._planned):
            self._at(BEGAN + self._rng.uniform(1, 60) * number, "join", number)
        # A first wave fills the queue; then each molecule that is finished lets another one begin.
        wave = self._planned * self._cores
        for _ in range(min(wave, self._limit // len(STEPS) + 1)):
            yield from self._begin_molecule()
        while self._agenda:
            self._now, _, what, subject = heapq.heappop(self._agenda)
            if what == "join":
                assert isinstance(subject, int)
                yield self._join(subject)
            elif isinstance(subject, _Worker):
                yield from self._leave(subject, lost=what == "lost")
            elif isinstance(subject, _Run):
                yield from self._end(subject)
            yield from self._start_tasks()
        if self._ended is not None:
            why = "" if self._ended == "done" else "ExternalError: xtb mol7.xyz --opt: exit code 1"
            yield LogEnded(time=self._now + 1, status=self._ended, message=why)

    def _at(self, time: float, what: str, subject: _Run | _Worker | int) -> None:
        heapq.heappush(self._agenda, (time, next(self._order), what, subject))

    # ---- workers

    def _join(self, number: int) -> AnyLine:
        worker = _Worker(f"w080000-{number}", f"n{17 + number}", list(range(self._cores)), 0.0)
        worker.memory = self._memory
        self._workers.append(worker)
        # Expected seconds of the whole mission, roughly: half of it is a good time for trouble.
        work = sum(step.seconds * step.cores for step in STEPS) / len(STEPS)
        span = self._limit * work / (self._cores * max(1, self._planned))
        if self._planned >= 3 and number == self._planned - 1:
            self._at(self._now + 0.4 * span, "lost", worker)
        elif self._planned >= 3 and number == 1:
            self._at(self._now + 0.7 * span, "leave", worker)
        return WorkerJoined(
            time=self._now,
            worker=worker.name,
            host=worker.host,
            job=str(7000 + number),
            resources={"Cores": float(self._cores), "Memory": self._memory},
            ends=BEGAN + 86_400 + 100 * number,
        )

    def _leave(self, worker: _Worker, *, lost: bool) -> Iterator[AnyLine]:
        if not lost and worker.tasks:
            self._workers = [one for one in self._workers if one is not worker]  # it drains
            self._at(self._now + 60, "leave", worker)
            return
        self._workers = [one for one in self._workers if one is not worker]
        why = "its node does not answer any more" if lost else ""
        yield WorkerLeft(time=self._now, worker=worker.name, why=why)
        if lost:
            yield Remark(time=self._now, text=f"{worker.name} is lost; its tasks run elsewhere")
        for run in worker.tasks.values():
            yield RunEnded(
                time=self._now,
                task=run.task.number,
                outcome="lost",
                worker=worker.name,
                host=worker.host,
                attempt=run.task.attempt,
                failure=RunFailure("WorkerLost", f"{worker.name}: its node does not answer"),
                final=False,
            )
            again = run.task._replace(attempt=run.task.attempt + 1)
            self._waiting[again.step].appendleft(again)
        worker.tasks.clear()

    # ---- tasks

    def _begin_molecule(self, after: tuple[int, ...] = ()) -> Iterator[AnyLine]:
        yield from self._submit(next(self._molecules), 0, STEPS[0].memory, after, 0)

    def _submit(
        self, molecule: int, step: int, memory: float, after: tuple[int, ...], retry_of: int
    ) -> Iterator[AnyLine]:
        if self._submitted == self._limit:
            return
        self._submitted += 1
        number = next(self._numbers)
        self._before[number] = retry_of or (after[0] if after else 0)
        task = _Task(number, molecule, step, memory, after, retry_of, 1)
        self._waiting[step].append(task)
        function = STEPS[step]
        yield TaskSubmitted(
            time=self._now,
            task=number,
            function=function.name,
            request={"Cores": float(function.cores), "Memory": memory, "WTime": 7200.0},
            request_text=f"Cores({function.cores}) & Memory({memory:g}) & WTime('2h')",
            after=after,
            retry_of=retry_of,
        )

    def _start_tasks(self) -> Iterator[AnyLine]:
        # Later steps first, as molecules are to be finished.
        for step in reversed(range(len(STEPS))):
            queue = self._waiting[step]
            while queue:
                task = queue[0]
                worker = self._room_for(STEPS[step].cores, task.memory)
                if worker is None:
                    break
                queue.popleft()
                yield self._start(task, worker)

    def _room_for(self, cores: int, memory: float) -> _Worker | None:
        rooms = (w for w in self._workers if len(w.free) >= cores and w.memory >= memory)
        return max(rooms, key=lambda one: len(one.free), default=None)

    def _start(self, task: _Task, worker: _Worker) -> AnyLine:
        function = STEPS[task.step]
        cpus = tuple(heapq.heappop(worker.free) for _ in range(function.cores))
        worker.memory -= task.memory
        seconds = function.seconds * self._rng.lognormvariate(0, 0.5)
        fails = self._rng.random() < self._failing
        run = _Run(task, worker, self._now, cpus, "error" if fails else "value")
        worker.tasks[task.number] = run
        self._at(self._now + seconds * (0.5 if fails else 1), "end", run)
        return TaskStarted(time=self._now, task=task.number, worker=worker.name)

    def _end(self, run: _Run) -> Iterator[AnyLine]:
        task, worker = run.task, run.worker
        if worker.tasks.pop(task.number, None) is None:
            return  # lost with its worker
        for cpu in run.cpus:
            heapq.heappush(worker.free, cpu)
        worker.memory += task.memory
        function = STEPS[task.step]
        failure = NO_FAILURE
        if run.outcome == "error":
            _, failure = self._rng.choices(_FAILURES, [share for share, _ in _FAILURES])[0]
            failure = replace(failure, message=failure.message.format(n=task.molecule))
        busy = (self._now - run.started) * function.cores * function.busy
        yield RunEnded(
            time=self._now,
            task=task.number,
            outcome=run.outcome,
            worker=worker.name,
            host=worker.host,
            attempt=task.attempt,
            started=run.started + 0.01,
            ended=self._now - 0.005,
            cpus=run.cpus if self._with_cpus else (),
            failure=failure,
            usage=Usage(
                user=round(busy * 0.95, 3),
                system=round(busy * 0.05, 3),
                peak_memory=round(function.memory * function.used * self._rng.uniform(0.6, 1.7), 3),
                measured_by="polling",
                read=0.01,
                written=0.2,
                programs=1,
                exit_statuses={1 if failure.error else 0: 1},
            ),
        )
        self._last = task.number
        if run.outcome == "error" and not task.retry_of:
            yield from self._submit(
                task.molecule, task.step, 1.5 * task.memory, task.after, task.number
            )
        elif run.outcome == "value" and task.step + 1 < len(STEPS):
            following = STEPS[task.step + 1]
            yield from self._submit(
                task.molecule, task.step + 1, following.memory, (task.number,), 0
            )
        else:
            yield from self._begin_molecule((task.number,))


def write_log(folder: Path, lines: Iterable[AnyLine]) -> Path:
    """Write a log of one part into a folder, as a mission does; return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "events.jsonl"
    with file.open("wb") as out:
        out.writelines(map(encode, lines))
    return file
