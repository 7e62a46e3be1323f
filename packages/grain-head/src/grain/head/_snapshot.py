"""How things stand in a hub, as plain data: what ``grain ls`` shows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from grain.resource import to_data

if TYPE_CHECKING:
    from grain.head._ledger import Ledger
    from grain.head._records import Client, Staffer


def snapshot(ledger: Ledger, now: float) -> dict[str, Any]:
    """The state of a hub.

    Returns:
        ``epoch``; ``tasks``: counts; ``workers``, ``missions`` and ``queues``: a list of dicts
        each. Resources are plain data, times are seconds.
    """
    return {
        "epoch": ledger.epoch,
        "tasks": ledger.summary(),
        "workers": [_worker(ledger, worker, now) for worker in ledger.workers.values()],
        "missions": [_mission(client) for client in ledger.clients.values()],
        "queues": _queues(ledger, now),
    }


def _worker(ledger: Ledger, worker: Staffer, now: float) -> dict[str, Any]:
    known = ledger.scheduler.workers[worker.number]
    known.give_back()
    state = "serving" if worker.serving else "away" if worker.link is None else "joining"
    return {
        "id": worker.id,
        "name": worker.name,
        "host": worker.host,
        "state": "draining" if worker.draining and worker.serving else state,
        "total": to_data(known.supply.total),
        "free": to_data(known.supply.free),
        "left": None if known.end == math.inf else known.end - now,
        "running": len(known.tasks),
    }


def _mission(client: Client) -> dict[str, Any]:
    entries = client.entries.values()
    return {
        "id": client.id,
        "name": client.name,
        "host": client.host,
        "connected": client.link is not None,
        "running": sum(entry.lease is not None for entry in entries),
        "waiting": sum(entry.ticket is not None or entry.awaits != "" for entry in entries),
    }


def _queues(ledger: Ledger, now: float) -> list[dict[str, Any]]:
    names = {client.number: client.name for client in ledger.clients.values()}
    found = []
    for queue in ledger.scheduler.queues.values():
        waiting = sum(not task.cancelled for task in queue.tasks)
        if waiting or queue.running:
            found.append(
                {
                    "request": to_data(queue.request),
                    "mission": names.get(queue.share, ""),
                    "priority": queue.priority,
                    "waiting": waiting,
                    "running": queue.running,
                    "never": ledger.scheduler.why_never(queue.request, now) or "",
                }
            )
    return found
