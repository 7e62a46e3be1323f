"""The classes that a world is made of, and how to put faulty ones into their places."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.edge.bridge.leader import Leader
from grain.edge.relay.switchboard import Switchboard
from grain.facts.fold import Fold
from grain.head.hub.hub import Hub, Parts, epoch_at
from grain.head.run_log import RunLog
from grain.head.scheduler.cluster import ClusterPool
from grain.remote_exer import MissionSession
from grain.remote_exer.lanes import MissionLanes
from grain.remote_exer.session.registration import Registration
from grain.worker.agent.session import WorkerSession
from grain.worker.agent.session.delayed import ArrivedLeases
from grain.worker.lanes.calls import LaneCalls

if TYPE_CHECKING:
    from collections.abc import Callable


class Cast(NamedTuple):
    """The classes of a world.

    Those of hubs and their parts, what the cluster has, workers, missions with their logs and what
    these are read by, both ends of lanes, and sides of a bridge.
    """

    hub: type[Hub] = Hub
    parts: Parts = Parts()
    cluster: type[ClusterPool] = ClusterPool
    worker: type[WorkerSession] = WorkerSession
    mission: type[MissionSession] = MissionSession
    run_log: type[RunLog] = RunLog
    fold: type[Fold] = Fold
    lanes: type[MissionLanes] = MissionLanes
    calls: type[LaneCalls] = LaneCalls
    epoch: Callable[[int, int], int] = epoch_at
    switchboard: type[Switchboard] = Switchboard
    leader: type[Leader] = Leader


_OWNERS: dict[type, type] = {Registration: MissionSession, ArrivedLeases: WorkerSession}
"""The classes whose objects make parts of the others' for themselves."""


def faulty(kind: type, **methods: Callable[..., Any]) -> Cast:
    """Return a world in which other methods are in the places of those of a class."""
    wrong: Any = type("Faulty", (kind,), methods)
    if kind in _OWNERS:
        # The owner finds the class of its part by name.
        init: Any = vars(_OWNERS[kind])["__init__"]
        names = {**init.__globals__, kind.__name__: wrong}
        again = FunctionType(init.__code__, names, "__init__", init.__defaults__)
        return faulty(_OWNERS[kind], __init__=again)
    of_cast = {right: name for name, right in Cast._field_defaults.items()}
    if kind in of_cast:
        return Cast(**{of_cast[kind]: wrong})
    of_hub = {right: name for name, right in Parts._field_defaults.items()}
    return Cast(parts=Parts(**{of_hub[kind]: wrong}))
