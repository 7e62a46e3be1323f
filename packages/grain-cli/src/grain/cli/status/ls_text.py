"""The tables of ``grain ls``. Pure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from grain.cli.show import resources, span, table
from grain.cli.status.versions_text import versions_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from grain.cli.workers.jobs import OwnJob


def state_text(state: dict[str, Any]) -> str:
    """Format the scheduler's answer as tables."""
    tasks = state["tasks"]
    parts = [
        table(
            "WORKERS",
            ("NAME", "HOST", "STATE", "LEFT", "RUNNING", "OWNS", "USES", "FREE"),
            map(_worker, sorted(state["workers"], key=lambda worker: str(worker["name"]))),
        )
        or "No worker is here; `grain up` submits some.\n",
        table(
            "MISSIONS",
            ("NAME", "HOST", "STATE", "RUNNING", "WAITING"),
            map(_mission, state["missions"]),
        )
        or "No mission is here.\n",
        table(
            "TASKS",
            ("ASKING FOR", "MISSION", "PRIORITY", "RUNNING", "WAITING", "OLDEST", "WAITS BECAUSE"),
            map(_queue, state["queues"]),
        ),
        versions_text(state),
        "".join(f"{line}\n" for line in _remarks(state, tasks)),
    ]
    return "\n".join(part for part in parts if part)


def _worker(worker: dict[str, Any]) -> tuple[object, ...]:
    used = (
        f"{kind} {'?' if part is None else f'{part:.0%}'}" for kind, part in worker["used"].items()
    )
    running = worker["running"]
    some = " ".join(worker["tasks"]) + (" ..." if running > len(worker["tasks"]) else "")
    return (
        worker.get("label") or worker["name"],
        worker["host"],
        worker["state"],
        span(worker["left"]),
        f"{running} ({some})" if running and worker["tasks"] else running,
        resources(worker["total"]),
        ", ".join(used),
        resources(worker["free"]),
    )


def _mission(mission: dict[str, Any]) -> tuple[object, ...]:
    state = "connected" if mission["connected"] else "away"
    return mission["label"], mission["host"], state, mission["running"], mission["waiting"]


def _queue(queue: dict[str, Any]) -> tuple[object, ...]:
    return (
        resources(queue["request"]),
        queue["mission"],
        queue["priority"],
        queue["running"],
        queue["waiting"],
        queue["oldest"] or "-",
        _why(queue),
    )


def _why(queue: dict[str, Any]) -> str:
    nobody = queue["why"] == "no worker is here"
    return f"{'on no worker here: ' if queue['never'] and not nobody else ''}{queue['why']}"


def _remarks(state: dict[str, Any], tasks: dict[str, Any]) -> list[str]:
    sentences = []
    if (count := tasks.get("held back", 0)) == 1:
        sentences.append("1 task waits for the report of the worker that it ran on.")
    elif count:
        sentences.append(f"{count} tasks wait for the reports of the workers that they ran on.")
    if (count := tasks.get("suspect", 0)) == 1:
        sentences.append("1 task that crashed waits for a worker of its own.")
    elif count:
        sentences.append(f"{count} tasks that crashed wait for a worker of their own.")
    if count := state.get("more_queues", 0):
        sentences.append(f"More kinds of tasks are not shown: {count}.")
    return sentences


def jobs_text(jobs: list[OwnJob], here: Collection[str]) -> str:
    """Format the jobs whose workers have not joined the scheduler."""
    rows = [
        (
            job.record.name,
            job.record.id,
            job.state.phase.value,
            span(time.time() - job.record.submitted),
            job.state.reason or "-",
        )
        for job in jobs
        if job.record.name not in here
    ]
    shown = table("JOBS NOT HERE YET", ("NAME", "JOB", "STATE", "SUBMITTED", "REASON"), rows)
    return f"\n{shown}" if shown else ""
