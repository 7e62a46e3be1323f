"""How things stand in a hub, as plain data: what ``grain ls`` shows.

Nothing else happens meanwhile, so tasks that wait are not walked: a million may.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from grain.head.hub.state import LeaseRecord
from grain.resource import Opaque, to_data

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.head.hub.state import Client, Entry, Staffer
    from grain.head.hub.tasks import Ledger
    from grain.head.scheduler.state import TaskQueue
    from grain.resource import Supply

_QUEUES = 200  # shown at most: a look at each costs a look at the workers
_TASKS = 4  # named for each worker


def snapshot(ledger: Ledger, now: float) -> dict[str, Any]:
    """The state of a hub.

    Returns:
        ``epoch``; ``tasks``: counts; ``workers``, ``missions`` and ``queues``: a list of dicts
        each; ``more_queues``: how many are left out, those with the fewest tasks. Resources are
        plain data, times are seconds; ``used`` is the part of each kind, None where it has no
        class here. A task is named as `named` understands it, ``mission:number``.
    """
    labels = _labels(ledger.clients.values())
    queues = [queue for queue in ledger.scheduler.queues.values() if queue.tasks or queue.running]
    queues.sort(key=lambda queue: -queue.waiting)
    running, waiting = _counts(ledger)
    shown = [_queue(ledger, queue, labels, now) for queue in queues[:_QUEUES]]
    return {
        "epoch": ledger.epoch,
        "tasks": {**ledger.summary(), "suspect": len(ledger.quarantine.waiting)},
        "workers": [_worker(ledger, worker, labels, now) for worker in ledger.workers.values()],
        "missions": [
            _mission(client, labels, running[client.number], waiting[client.number])
            for client in ledger.clients.values()
        ],
        "queues": [queue for queue in shown if queue["waiting"] or queue["running"]],
        "more_queues": len(queues) - len(shown),
    }


def named(ledger: Ledger, word: str) -> Client | None:
    """The mission of an id, of a name, or of the beginning of an id; None if that is not one."""
    clients = ledger.clients
    if word in clients or not word:
        return clients.get(word)
    found = [client for client in clients.values() if client.name == word]
    found = found or [client for client in clients.values() if client.id.startswith(word)]
    return found[0] if len(found) == 1 else None


def retired(ledger: Ledger, worker: Staffer) -> dict[str, Any]:
    """What to tell of a worker that is to leave."""
    running = len(ledger.scheduler.workers[worker.number].tasks)
    state = _state(worker)
    return {"name": worker.name, "host": worker.host, "state": state, "running": running}


def _labels(clients: Iterable[Client]) -> dict[int, str]:
    """What each mission is called: its name, or the beginning of its id if others have that."""
    seen: dict[str, list[Client]] = {}
    for client in clients:
        seen.setdefault(client.name, []).append(client)
    return {
        client.number: name if name and len(same) == 1 else client.id[:8]
        for name, same in seen.items()
        for client in same
    }


def _state(worker: Staffer) -> str:
    if worker.link is None:
        return "away"
    if not worker.serving:
        return "joining"
    return "draining" if worker.draining or worker.retired is not None else "serving"


def _worker(ledger: Ledger, worker: Staffer, labels: dict[int, str], now: float) -> dict[str, Any]:
    known = ledger.scheduler.workers[worker.number]
    known.give_back()
    leases = [lease for lease in worker.leases.values() if not lease.waits]
    entries = (lease.entry for lease in leases if lease.entry is not None)
    return {
        "id": worker.id,
        "name": worker.name,
        "host": worker.host,
        "state": _state(worker),
        "total": to_data(known.supply.total),
        "free": to_data(known.supply.free),
        "used": _used(known.supply),
        "left": None if known.end == math.inf else known.end - now,
        "running": len(known.tasks),
        "tasks": [_label(entry, labels) for entry in islice(entries, _TASKS)],
    }


def _used(supply: Supply) -> dict[str, float | None]:
    used: dict[str, float | None] = {}
    for kind, part in supply.free.parts().items():
        free, owned = part._stat()
        known = owned and not isinstance(part, Opaque)
        used[kind] = round(1 - free / owned, 4) if known else None
    return used


def _label(entry: Entry, labels: dict[int, str]) -> str:
    return f"{labels.get(entry.client.number, entry.client.id[:8])}:{entry.number}"


def _counts(ledger: Ledger) -> tuple[Counter[int], Counter[int]]:
    """How many tasks of each mission run, and how many wait, by the mission's number."""
    running: Counter[int] = Counter()
    waiting: Counter[int] = Counter()
    for worker in ledger.workers.values():
        for lease in worker.leases.values():
            if lease.entry is not None and lease.current:
                counts = waiting if lease.waits else running
                counts[lease.entry.client.number] += 1
    for queue in ledger.scheduler.queues.values():
        waiting[queue.share] += queue.waiting
    # Both of these ran before, so there are no more than once fitted on the workers.
    for entry in (*ledger.quarantine.waiting, *chain.from_iterable(ledger.awaiting.values())):
        waiting[entry.client.number] += 1
    return running, waiting


def _mission(client: Client, labels: dict[int, str], running: int, waiting: int) -> dict[str, Any]:
    return {
        "id": client.id,
        "name": client.name,
        "label": labels[client.number],
        "host": client.host,
        "connected": client.link is not None,
        "running": running,
        "waiting": waiting,
    }


def _queue(ledger: Ledger, queue: TaskQueue, labels: dict[int, str], now: float) -> dict[str, Any]:
    head = queue.head()
    never = _shortened(ledger.scheduler.why_never(queue.request, now)) if head else ""
    oldest = ledger.tickets.get(head.id) if head else None
    entry = oldest.entry if isinstance(oldest, LeaseRecord) else oldest
    return {
        "request": to_data(queue.request),
        "mission": labels.get(queue.share, ""),
        "priority": queue.priority,
        "waiting": queue.waiting,
        "running": queue.running,
        "oldest": _label(entry, labels) if entry is not None else "",
        "never": never,
        "why": never or (_why(ledger, queue, now) if head else ""),
    }


def _shortened(never: str | None) -> str:
    """The reasons of the first workers, which are most often those of all."""
    reasons = (never or "").split("; ")
    more = [f"and so on for {len(reasons) - 3} more"] if len(reasons) > 3 else []
    return "; ".join(reasons[:3] + more)


def _why(ledger: Ledger, queue: TaskQueue, now: float) -> str:
    """What its oldest task waits for, in a sentence; `Hub.why` tells it worker by worker."""
    reservation = queue.reservation
    if reservation is not None and reservation.start < math.inf:
        after = max(reservation.start - now, 0)
        return f"{reservation.worker.name} has room for it in {after:.0f} s at the latest"
    if reservation is not None:
        return f"{reservation.worker.name} is kept free for it"
    serving = sum(worker.serving and not worker.draining for worker in ledger.workers.values())
    if not serving:
        return "no worker that is here takes tasks"
    return "the worker is full" if serving == 1 else f"all {serving} workers are full"
