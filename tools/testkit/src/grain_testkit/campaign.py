"""The event log of a screening that never was, with all that goes wrong in a real one.

Each molecule passes `prepare`, `optimise` and `energy`, and each hundred of them `rank`. Tasks fail
in six ways, some are tried again; the worker n02 is killed, the clocks of two workers are wrong;
six tasks ask for a GPU, which no worker has, and wait until the mission cancels them. Runs of
`prepare` are brief: the mission learns of many at a time, and of each only how long it took.

Everything happens in virtual time, and is the same each time.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Literal, NamedTuple

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
)
from grain.eventlog.usage import Usage
from grain_testkit.small_log import failed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.eventlog.schema import AnyLine

MOLECULES = 630
"""The molecules of the whole campaign, which is 1,887 tasks."""

BEGAN = 1_767_600_000.0
"""When it begins, in Unix seconds: 5 January 2026, 08:00 UTC."""

CORES = 4
"""The cores of each worker."""

GPU_TASKS = 6
"""Tasks that no worker has room for."""

CLOCKS = {"n01": 0.0, "n02": 2.5, "n03": -40.0, "n04": 0.0}
"""Seconds by which the clock of each worker is ahead of the mission's."""

KILLED_AT, LOST_AT, REPLACED_AT = 128.0, 188.0, 300.0
"""Seconds until n02 is killed, until the mission knows it, and until n04 joins in its place."""

_JOINS = {"n01": 69.0, "n02": 70.0, "n03": 76.0, "n04": REPLACED_AT}
_MEMORY = 16.0
_AHEAD = 16  # brief tasks that a worker has beside those that run
_HEARD_EVERY = 0.25  # seconds between two looks at what has arrived of brief runs
_DELAY = 0.002  # seconds until the mission learns of any other run's end


class Function(NamedTuple):
    """A function of the campaign.

    Attributes:
        cores: the cores that it asks for.
        memory: the memory that it asks for, in GB.
        limit: its time limit in seconds.
        seconds: the median time of a run.
        computes: the cores on which its programs compute.
    """

    cores: int
    memory: float
    limit: float
    seconds: float
    computes: float


FUNCTIONS = {
    "prepare": Function(1, 0.5, 60, 0.08, 1.0),
    "optimise": Function(2, 2.0, 60, 5.0, 0.97),
    "energy": Function(1, 1.0, 600, 3.0, 0.98),
    "rank": Function(1, 0.5, 60, 1.5, 0.9),
    "dock": Function(1, 4.0, 3600, 60.0, 1.0),
}
"""By name."""


class Failure(NamedTuple):
    """A kind of failures.

    Attributes:
        function: the name of the function.
        tasks: how many of the whole campaign fail so for good.
        outcome: as the log has it.
        error: the class of the exception.
        message: its text, with the number of the molecule.
        retried: True if each of them is a second attempt.
    """

    function: str
    tasks: int
    outcome: Literal["error", "crashed"]
    error: str
    message: str
    retried: bool = False

    def of(self, molecule: int) -> RunFailure:
        """Return what the run has of a molecule that fails so."""
        message = self.message.format(n=molecule, word=_NAMES[molecule % len(_NAMES)])
        if self.error != "ExternalError":
            return RunFailure(self.error, message)
        command, how, line = message.split(": ")
        return failed(command, int(how.rpartition(" ")[2]), line)


FAILURES = (
    Failure(
        "optimise", 10, "error", "ExternalError",
        "xtb mol{n:04}.xyz --opt: exit code 128: SCF did not converge in 250 cycles",
    ),
    Failure(
        "optimise", 5, "error", "TooSlowError", "optimise took longer than its 60 s", retried=True
    ),
    Failure("optimise", 3, "crashed", "CrashedError", "its process was ended by SIGKILL"),
    Failure("optimise", 3, "error", "ValueError", "mol{n:04}: 3 imaginary frequencies are left"),
    Failure(
        "energy", 6, "error", "ExternalError",
        "orca {word}: exit code 25: the basis set has no such element",
    ),
    Failure(
        "energy", 3, "error", "FileNotFoundError",
        "[Errno 2] No such file or directory: 'orbitals/mol{n:04}.gbw'",
    ),
)  # fmt: skip
"""Six kinds, thirty tasks."""

_NAMES = ("aspirin", "caffeine", "quinine", "morphine", "codeine", "atropine")

_MADE_UP = 8  # of the whole campaign: optimise fails once, and its second attempt does not


def plan_failures(molecules: int, rng: random.Random) -> dict[tuple[str, int], Failure | None]:
    """Return the failure of the runs that fail, by function and molecule; None: only once.

    Args:
        molecules: as of `Campaign`; at least 22.
        rng: chooses those that fail.
    """
    chosen: list[tuple[str, Failure | None]] = []
    for failure in FAILURES:
        number = max(2, round(failure.tasks * molecules / MOLECULES))
        chosen += [(failure.function, failure)] * number
    chosen += [("optimise", None)] * round(_MADE_UP * molecules / MOLECULES)
    numbers = rng.sample(range(1, molecules + 1), len(chosen))
    return {
        (function, molecule): failure
        for (function, failure), molecule in zip(chosen, numbers, strict=True)
    }


@dataclass(eq=False)
class _Task:
    number: int
    function: str
    molecule: int
    submitted: float
    after: int = 0
    retry_of: int = 0
    attempt: int = 0
    failure: Failure | None = None

    @property
    def request(self) -> dict[str, float]:
        function = FUNCTIONS[self.function]
        request = {"Cores": float(function.cores), "Memory": function.memory}
        if self.function == "dock":
            request["GPUs"] = 1.0
        return {**request, "WTime": function.limit}

    @property
    def request_text(self) -> str:
        function = FUNCTIONS[self.function]
        parts = [f"Cores({function.cores})", f"Memory({function.memory:g})"]
        if self.function == "dock":
            parts.append("GPUs(1)")
        return " & ".join([*parts, f"WTime({function.limit:g})"])


@dataclass(eq=False)
class _Worker:
    name: str
    free: list[int] = field(default_factory=lambda: list(range(CORES)))
    memory: float = _MEMORY
    ahead: deque[tuple[_Task, float]] = field(default_factory=deque)
    runs: dict[int, _Run] = field(default_factory=dict)
    heard: list[tuple[_Task, float, float]] = field(default_factory=list)
    here: bool = True


class _Run(NamedTuple):
    task: _Task
    worker: _Worker
    given: float
    began: float
    cpus: tuple[int, ...]


class Campaign:
    """The campaign, simulated while its lines are read.

    Args:
        molecules: how many; a tenth of `MOLECULES` fails a tenth as often, and each kind twice at
            least.
        gpu_tasks: the tasks that no worker has room for.
        loses_a_worker: False if no worker is killed.
    """

    def __init__(
        self,
        molecules: int = MOLECULES,
        *,
        gpu_tasks: int = GPU_TASKS,
        loses_a_worker: bool = True,
    ) -> None:
        self._molecules = molecules
        self._gpu_tasks = gpu_tasks
        self._loses_a_worker = loses_a_worker
        self._rng = random.Random(molecules)
        self._numbers = count(1)
        self._order = count()
        self._agenda: list[tuple[float, int, str, object]] = []
        self._now = 0.0
        self._workers: list[_Worker] = []
        self._brief: deque[_Task] = deque()
        self._waiting: deque[_Task] = deque()
        self._dock: list[_Task] = []
        self._left = 0
        self._groups: dict[int, int] = {}
        self._failing = plan_failures(molecules, self._rng)

    def lines(self) -> Iterator[AnyLine]:
        """Yield the lines of the log in their order; only once."""
        yield LogStarted(
            time=BEGAN,
            version=VERSION,
            grain="1.0.0",
            python="3.12.4",
            id="5ca1ab1e0ddba11",
            name="campaign",
            command=("python", "campaign.py"),
            directory="/home/me/campaign",
            host="login1",
            pid=4242,
        )
        for _ in range(self._gpu_tasks):
            self._dock.append(self._submit("dock", 0))
            yield self._list(self._dock[-1])
        for molecule in range(1, self._molecules + 1):
            self._brief.append(self._submit("prepare", molecule))
            yield self._list(self._brief[-1])
            group = (molecule - 1) // self._group
            self._groups[group] = self._groups.get(group, 0) + 1
        for name, joins in _JOINS.items():
            if name != "n04" or self._loses_a_worker:
                self._at(joins, "join", name)
        while self._agenda and self._left > len(self._dock):
            self._now, _, what, subject = heapq.heappop(self._agenda)
            if what == "join":
                yield self._join(str(subject))
            elif isinstance(subject, _Worker):
                if what == "kill":
                    self._kill(subject)
                else:
                    yield from self._lose(subject) if what == "lose" else self._hear(subject)
            elif isinstance(subject, _Run):
                yield from self._end(subject)
            yield from self._start()
        for task in self._dock:
            yield RunEnded(
                time=BEGAN + self._now + 0.2, task=task.number, outcome="cancelled", attempt=0
            )
        yield LogEnded(time=BEGAN + self._now + 0.3, status="done")

    @property
    def _group(self) -> int:
        """The molecules of each call of `rank`, so that there are twelve."""
        return max(1, -(-self._molecules // 12))

    def _at(self, time: float, what: str, subject: object) -> None:
        heapq.heappush(self._agenda, (time, next(self._order), what, subject))

    # ---- workers

    def _join(self, name: str) -> AnyLine:
        worker = _Worker(name)
        self._workers.append(worker)
        if name == "n02" and self._loses_a_worker:
            self._at(KILLED_AT, "kill", worker)
            self._at(LOST_AT, "lose", worker)
        return WorkerJoined(
            time=BEGAN + self._now,
            worker=name,
            host=name,
            job=str(7000 + len(self._workers)),
            resources={"Cores": float(CORES), "Memory": _MEMORY},
        )

    def _kill(self, worker: _Worker) -> None:
        worker.here = False
        self._workers.remove(worker)

    def _lose(self, worker: _Worker) -> Iterator[AnyLine]:
        why = "its connection was lost, and it did not come back within 60 s"
        heard = BEGAN + KILLED_AT
        yield WorkerLeft(time=BEGAN + self._now, worker=worker.name, why=why, heard=heard)
        yield Remark(time=BEGAN + self._now, text=f"worker {worker.name} is lost")
        given = [(run.task, run.given) for run in worker.runs.values()]
        given += [(task, at) for task, at, _ in worker.heard]
        given += worker.ahead
        for task, at in sorted(given, key=lambda one: one[0].number):
            yield RunEnded(
                time=BEGAN + self._now,
                task=task.number,
                outcome="lost",
                worker=worker.name,
                host=worker.name,
                attempt=task.attempt,
                started=BEGAN + at,
                ended=max(BEGAN + at, heard),
                final=False,
            )
            queue = self._brief if task.function == "prepare" else self._waiting
            queue.appendleft(task)

    # ---- tasks

    def _submit(self, function: str, molecule: int, after: int = 0, retry_of: int = 0) -> _Task:
        self._left += 1
        task = _Task(next(self._numbers), function, molecule, self._now, after, retry_of)
        if (function, molecule) in self._failing:
            failure = self._failing[function, molecule]
            task.failure = failure or (None if retry_of else FAILURES[1])
        return task

    def _list(self, task: _Task) -> AnyLine:
        return TaskSubmitted(
            time=BEGAN + task.submitted,
            task=task.number,
            function=task.function,
            request=task.request,
            request_text=task.request_text,
            after=(task.after,) if task.after else (),
            retry_of=task.retry_of,
        )

    def _start(self) -> Iterator[AnyLine]:
        # The oldest first, as the scheduler does: these were submitted before all others.
        for worker in self._workers:
            while self._brief and len(worker.ahead) < _AHEAD:
                task = self._brief.popleft()
                task.attempt += 1
                worker.ahead.append((task, self._now))
                yield TaskStarted(time=BEGAN + self._now, task=task.number, worker=worker.name)
            while worker.ahead and worker.free:
                task, given = worker.ahead.popleft()
                self._run(task, worker, given)
        for task in list(self._waiting):
            function = FUNCTIONS[task.function]
            freest = max(self._workers, key=lambda one: len(one.free), default=None)
            if freest is None or not freest.free:
                break
            if len(freest.free) >= function.cores and freest.memory >= function.memory:
                self._waiting.remove(task)
                task.attempt += 1
                yield TaskStarted(time=BEGAN + self._now, task=task.number, worker=freest.name)
                self._run(task, freest, self._now)

    def _run(self, task: _Task, worker: _Worker, given: float) -> None:
        function = FUNCTIONS[task.function]
        cpus = tuple(heapq.heappop(worker.free) for _ in range(function.cores))
        worker.memory -= function.memory
        began = self._now + self._rng.uniform(0.001, 0.004)
        seconds = function.seconds * self._rng.lognormvariate(0, 0.4)
        if task.function == "prepare":
            seconds = min(seconds, 0.19)  # what is longer is not brief
        elif task.failure is not None:
            seconds = function.limit if task.failure.error == "TooSlowError" else 0.6 * seconds
        run = worker.runs[task.number] = _Run(task, worker, given, began, cpus)
        brief = task.function == "prepare"
        self._at(began + seconds + (0 if brief else _DELAY), "end", run)

    def _end(self, run: _Run) -> Iterator[AnyLine]:
        task, worker = run.task, run.worker
        if not worker.here:
            return
        brief = task.function == "prepare"
        ended = self._now - (0 if brief else _DELAY)
        del worker.runs[task.number]
        for cpu in run.cpus:
            heapq.heappush(worker.free, cpu)
        worker.memory += FUNCTIONS[task.function].memory
        if not brief:
            yield self._reported(run, ended)
            yield from self._next(task)
            return
        if not worker.heard:
            self._at((self._now // _HEARD_EVERY + 1) * _HEARD_EVERY, "hear", worker)
        worker.heard.append((task, run.given, ended - run.began))

    def _hear(self, worker: _Worker) -> Iterator[AnyLine]:
        """Let the mission learn of brief runs: of each only its length."""
        if not worker.here:
            return
        heard, worker.heard = worker.heard, []
        for task, _, seconds in heard:
            yield RunEnded(
                time=BEGAN + self._now,
                task=task.number,
                outcome="value",
                worker=worker.name,
                host=worker.name,
                attempt=task.attempt,
                started=BEGAN + self._now - seconds,
                ended=BEGAN + self._now,
                usage=Usage(),
            )
            yield from self._next(task)

    def _reported(self, run: _Run, ended: float) -> AnyLine:
        """Return the end of a run that its worker reports by its own clock."""
        task, worker, failure = run.task, run.worker, run.task.failure
        clock = BEGAN + CLOCKS[worker.name]
        function = FUNCTIONS[task.function]
        busy = (ended - run.began) * function.computes
        return RunEnded(
            time=BEGAN + self._now,
            task=task.number,
            outcome="value" if failure is None else failure.outcome,
            worker=worker.name,
            host=worker.name,
            attempt=task.attempt,
            started=clock + run.began,
            ended=clock + ended,
            cpus=run.cpus,
            failure=NO_FAILURE if failure is None else failure.of(task.molecule),
            usage=Usage(
                user=round(0.95 * busy, 3),
                system=round(0.05 * busy, 3),
                peak_memory=round(0.6 * function.memory * self._rng.uniform(0.7, 1.3), 3),
                measured_by="polling",
                programs=1,
                exit_statuses={0 if failure is None else 1: 1},
            ),
        )

    def _next(self, task: _Task) -> Iterator[AnyLine]:
        """Yield the submissions that follow the end of a task."""
        self._left -= 1
        follows: _Task | None = None
        if task.failure is not None and not task.retry_of and self._is_retried(task):
            follows = self._submit(task.function, task.molecule, task.after, task.number)
        elif task.failure is None and task.function == "prepare":
            follows = self._submit("optimise", task.molecule, task.number)
        elif task.failure is None and task.function == "optimise":
            follows = self._submit("energy", task.molecule, task.number)
        elif task.function != "rank":
            group = (task.molecule - 1) // self._group
            self._groups[group] -= 1
            if not self._groups[group]:
                follows = self._submit("rank", 0, task.number)
        if follows is not None:
            self._waiting.append(follows)
            yield self._list(follows)

    def _is_retried(self, task: _Task) -> bool:
        failure = self._failing[task.function, task.molecule]
        return failure is None or failure.retried
