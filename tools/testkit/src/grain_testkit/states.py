"""Answers of a scheduler to ``Ask("state")``; of ``more`` each replaces a field."""

from __future__ import annotations

from typing import Any

from grain.edge.questions import PeerVersions, StateAnswer, TaskCounts
from grain.facts.rows import Mission, Queue, Worker

NO_TASKS = TaskCounts(
    waiting=0, awaiting_report=0, running=0, done=0, failed=0, retried=0, suspect=0
)


def state(
    workers: list[Worker] | None = None,
    missions: list[Mission] | None = None,
    queues: list[Queue] | None = None,
    ended: list[Mission] | None = None,
    **more: Any,
) -> StateAnswer:
    """Return the answer of a scheduler; of one with nothing, if nothing is given."""
    known: dict[str, Any] = {
        "epoch": 1,
        "tasks": NO_TASKS,
        "workers": workers or [],
        "missions": missions or [],
        "queues": queues or [],
        "more_queues": 0,
        "ended": ended or [],
        "versions": PeerVersions(),
        "troubles": [],
    }
    return StateAnswer(**{**known, **more})


def worker(name: str = "w1", **more: Any) -> Worker:
    """Return a worker on which nothing runs."""
    known: dict[str, Any] = {
        "id": f"id of {name}",
        "name": name,
        "label": name,
        "host": "n17",
        "cluster": "",
        "state": "serving",
        "backlog": None,
        "total": {"Cores": 16},
        "free": {"Cores": 16},
        "used": {"Cores": 0.0},
        "left": None,
        "running": 0,
        "computing": 0.0,
        "tasks": [],
        "versions": {},
    }
    return Worker(**{**known, **more})


def mission(name: str = "opt", **more: Any) -> Mission:
    """Return a mission that has no tasks."""
    known: dict[str, Any] = {
        "done": 0,
        "failed": 0,
        "retried": 0,
        "id": f"id of {name}",
        "name": name,
        "label": name,
        "host": "login1",
        "connected": True,
        "unconfirmed": 0,
        "unconfirmed_bytes": 0,
        "paused": False,
        "running": 0,
        "waiting": 0,
        "versions": {},
    }
    return Mission(**{**known, **more})


def queue(request: dict[str, Any], **more: Any) -> Queue:
    """Return tasks of a mission that ask for the same."""
    known: dict[str, Any] = {
        "request": request,
        "interpreter": "",
        "mission": "opt",
        "priority": 0,
        "waiting": 0,
        "running": 0,
        "oldest": "",
        "never": "",
        "why": "",
    }
    return Queue(**{**known, **more})
