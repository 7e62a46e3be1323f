"""The classes that a world is made of, and how to put faulty ones into their places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from grain.edge.bridge.leader import Leader
from grain.edge.relay.switchboard import Switchboard
from grain.head.hub.functions import FunctionTable
from grain.head.hub.hub import Hub, Parts, epoch_at
from grain.head.hub.missions import Missions
from grain.head.hub.prefetch import Prefetch
from grain.head.hub.tasks import TaskTable
from grain.head.hub.workers import Workers
from grain.remote_exer import MissionSession
from grain.worker.agent.session import WorkerSession

if TYPE_CHECKING:
    from collections.abc import Callable


class Cast(NamedTuple):
    """The classes of a world: of hubs and their parts, workers, missions, sides of a bridge."""

    hub: type[Hub] = Hub
    parts: Parts = Parts()
    worker: type[WorkerSession] = WorkerSession
    mission: type[MissionSession] = MissionSession
    epoch: Callable[[int, int], int] = epoch_at
    switchboard: type[Switchboard] = Switchboard
    leader: type[Leader] = Leader


def tasks(**methods: Callable[..., Any]) -> Cast:
    """A hub with a faulty task table."""
    return Cast(parts=Parts(tasks=type("Faulty", (TaskTable,), methods)))


def prefetch(**methods: Callable[..., Any]) -> Cast:
    """A hub with a faulty prefetch."""
    return Cast(parts=Parts(prefetch=type("Faulty", (Prefetch,), methods)))


def functions(**methods: Callable[..., Any]) -> Cast:
    """A hub with a faulty table of functions."""
    return Cast(parts=Parts(functions=type("Faulty", (FunctionTable,), methods)))


def workers(**methods: Callable[..., Any]) -> Cast:
    """A hub with faulty workers."""
    return Cast(parts=Parts(workers=type("Faulty", (Workers,), methods)))


def missions(**methods: Callable[..., Any]) -> Cast:
    """A hub with faulty missions."""
    return Cast(parts=Parts(missions=type("Faulty", (Missions,), methods)))


def worker(**methods: Callable[..., Any]) -> Cast:
    """A faulty worker."""
    return Cast(worker=type("Faulty", (WorkerSession,), methods))


def mission(**methods: Callable[..., Any]) -> Cast:
    """A faulty mission."""
    return Cast(mission=type("Faulty", (MissionSession,), methods))
