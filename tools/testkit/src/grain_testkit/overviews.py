"""Answers of a scheduler to ``Ask("overview")``, as large as a test wants them."""

from __future__ import annotations

from typing import Any

from grain.edge.questions import MissionOutlook, OverviewAnswer, TaskCounts
from grain.eventlog.causes import RunFailure
from grain.eventlog.usage import RunMember
from grain.facts.amounts import AskedAmounts, Histogram
from grain.facts.rows import Function, Mission, Queue, Run, Worker

AT = 1_000_000.0
"""When they were made."""


def overview(
    *,
    workers: int = 3,
    runs: int = 4,
    missions: int = 2,
    queues: int = 3,
    failures: int = 3,
    at: float = AT,
    **more: Any,
) -> OverviewAnswer:
    """Return an answer with so many of each; of ``more`` each replaces a part."""
    known = {
        "at": at,
        "epoch": 1,
        "tasks": TaskCounts(
            waiting=5500,
            awaiting_report=0,
            running=workers * runs,
            done=3600,
            failed=failures,
            retried=0,
            suspect=0,
        ),
        "cores": (workers * runs * 4, workers * 16),
        "computing": workers * runs * 0.9,
        "worker_states": {"serving": workers},
        "workers": [worker(number, runs, max(missions, 1), at) for number in range(workers)],
        "more_workers": 0,
        "missions": [mission(number, workers * runs // missions) for number in range(missions)],
        "more_missions": 0,
        "queues": [queue(number) for number in range(queues)],
        "more_queues": 0,
        "failures": [failure(number, at) for number in range(failures)],
        "lost": [],
        "troubles": [],
    }
    return OverviewAnswer(**{**known, **more})


def worker(number: int, runs: int = 0, missions: int = 1, at: float = AT, **more: Any) -> Worker:
    """Return a worker with tasks."""
    tasks = range(number * runs, number * runs + runs)
    known = {
        "id": f"id{number}",
        "name": f"w093015-{number}",
        "label": f"w093015-{number}",
        "host": f"n{17 + number}",
        "cluster": "",
        "state": "serving",
        "ends": at + 3600.0 * (number + 1),
        "total": {"Cores": 16, "Memory": 59.5, "GPUs": [0, 1]},
        "used": {"Cores": min(runs / 4, 1.0), "Memory": 0.5, "GPUs": 0.0},
        "running": runs,
        "computing": runs * 0.9,
        "runs": [
            Run(
                mission=f"mission{task % missions}",
                task=task + 1,
                function="optimise",
                state="running",
                final=False,
                started=at - 60.0 * (task + 1),
                asked="Cores(4)",
            )
            for task in tasks
        ],
        "at": at,
    }
    return Worker(**{**known, **more})


def mission(number: int, running: int | None = 0, **more: Any) -> Mission:
    """Return a mission: the first is opt, the second screen."""
    name = ("opt", "screen", "third")[number % 3]
    known = {
        "id": f"mission{number}",
        "name": name,
        "label": name,
        "host": "login1",
        "connected": True,
        "paused": False,
        "since": AT - 1000.0,
        "done": 1200 * (number + 1),
        "failed": 3 * number,
        "retried": number,
        "left": 4000,
        "running": running,
        "outlook": outlook(),
        "rate": 1.2 * (number + 1),
    }
    return Mission(**{**known, **more})


def outlook(**more: Any) -> MissionOutlook:
    """Return how far a mission is, as it says itself."""
    known = {
        "ended": 1200,
        "total": 5200,
        "left": 3333.0,
        "least": False,
        "whole": True,
        "functions": (function(),),
        "more_functions": 0,
    }
    return MissionOutlook(**{**known, **more})


def function(
    name: str = "optimise",
    *,
    seconds: Histogram | None = None,
    memory: Histogram | None = None,
    busy: Histogram | None = None,
    request: dict[str, float] | None = None,
    **more: Any,
) -> Function:
    """Return the tasks of a function of a mission, which ask for four cores and 2 GB."""
    asked = {"Cores": 4.0, "Memory": 2.0} if request is None else request
    known = {
        "name": name,
        "done": 1200,
        "running": 6,
        "waiting": 3994,
        "seconds": seconds or amounts(1200, 5.0),
        "memory": memory or amounts(1200, 1.5),
        "busy_cores": busy or amounts(1200, 3.6, 4.0),
        "requests": {"": 1},
        "asked": {kind: AskedAmounts(1, each, each) for kind, each in asked.items()},
        "core_seconds": 24_000.0,
    }
    return Function(**{**known, **more})


def amounts(count: int, median: float = 0.0, most: float = 0.0) -> Histogram:
    """Return so many amounts, as a mission tells of them; the largest is the median if not given.

    A median that is the largest is exact.
    """
    whole = Histogram(count, count * median, 0.0 if most else median, most or median)
    return whole.thinned(median)


def queue(number: int, **more: Any) -> Queue:
    """Return waiting tasks of the first mission."""
    known = {
        "mission": "opt",
        "mission_id": "mission0",
        "asked": f"Cores({number + 1})",
        "priority": 0,
        "waiting": 3000 // (number + 1),
        "running": 2,
        "oldest": f"opt:{500 + number}",
        "task": 500 + number,
        "why": "not enough Cores free on any of the 3 workers",
    }
    return Queue(**{**known, **more})


def failure(number: int, at: float = AT, error: str = "", message: str = "", **more: Any) -> Run:
    """Return a task that has failed; the larger the number, the later."""
    known = {
        "mission": "mission0",
        "name": f"opt:{40 + number}",
        "task": 40 + number,
        "function": "optimise",
        "members": (RunMember(worker="w093015-1"),),
        "started": at - 700.0,
        "ended": at - 100.0 + number,
        "seconds": 600.0 + number,
        "state": "error",
        "failure": RunFailure(error, message),
    }
    return Run(**{**known, **more})
