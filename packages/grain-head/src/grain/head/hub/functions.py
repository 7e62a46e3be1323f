"""The functions of a hub: which mission defined them, and which workers have them. No I/O.

A function is known by the digest of its bytes. A mission's record holds the bytes of the functions
that it defined, a worker's record the digests of the functions that it was sent or reported. Both
go with their owner. A worker gets a function before the first lease that calls it, and forgets it
when no mission has it any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.worker.messages import FUNCTIONS, DefineFunction, ForgetFunctions

if TYPE_CHECKING:
    from grain.head.hub.registry import Registry
    from grain.head.hub.state import MissionRecord, WorkerRecord


class FunctionTable:
    """The functions of all missions, and of all workers."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._outgoing = registry.outgoing
        # True if no worker that serves has a function without a mission.
        self._swept = False

    def send(self, digest: bytes, mission: MissionRecord, worker: WorkerRecord) -> None:
        """Send a function of a mission to a worker, unless it has it."""
        if digest not in worker.functions:
            worker.functions.add(digest)
            _, payload = mission.functions.get(digest, (digest, None))
            self._outgoing.post(worker.link, DefineFunction(digest), payload)

    def on_changed(self) -> None:
        """Look again for functions without a mission: a mission left, or a worker reported."""
        self._swept = False

    def sweep(self) -> None:
        """Have workers forget the functions that no mission has.

        To be called only while all missions are synced: an unsynced mission may yet define again
        what the workers have from its last connection.
        """
        if self._swept:
            return
        self._swept = True
        missions = self._registry.missions.values()
        self._forget_all_but({digest for mission in missions for digest in mission.functions})

    def _forget_all_but(self, wanted: set[bytes]) -> None:
        for worker in self._registry.workers.values():
            left = worker.functions - wanted
            if left and worker.serving:
                worker.functions -= left
                digests = tuple(left)
                for at in range(0, len(digests), FUNCTIONS):
                    self._outgoing.post(worker.link, ForgetFunctions(digests[at : at + FUNCTIONS]))
