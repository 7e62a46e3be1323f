"""Many workers in one process: real connections and sessions, but what runs ends at once.

python -m tools.bench._crowd ADDRESS WORKERS CORES
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import outcome
import trio

from grain.edge import dial
from grain.edge.version import own_versions
from grain.resource import Cores
from grain.worker.agent.spool import SpooledOutcome
from grain.worker.messages import CODEC, Ended, StartRun
from grain.worker.payload import Payloads
from grain.worker.session import WorkerSession

if TYPE_CHECKING:
    from grain.edge.channel import WireBatch, WireChannel

NONE = Payloads().dump_outcome(outcome.Value(None))


class Double:
    """A stand-in that answers like a worker whose tasks take no time."""

    def __init__(self, name: str, cores: int) -> None:
        self.name = name
        self._session = WorkerSession(
            name, name, "here", Cores(cores), trio.current_time(), versions=own_versions()
        )

    async def serve(self, address: str) -> None:
        """Work for the head at an address, until it has left."""
        async with dial(address, role="worker", name=self.name, codec=CODEC) as peer:
            self._session.on_connected(trio.current_time())
            self._settle(peer.channel)
            await peer.channel.receive_into(lambda batch: self._take(peer.channel, batch))

    def _take(self, channel: WireChannel, batch: WireBatch) -> None:
        now = trio.current_time()
        for message, payload in batch:
            self._session.on_message(message, payload, now)
        orders = self._session.take_orders()
        for message, _ in orders:
            if isinstance(message, StartRun):
                self._session.on_ended(Ended(message.attempt), NONE, now)
        self._session.on_tick(now)
        self._settle(channel)

    def _settle(self, channel: WireChannel) -> None:
        # It has no spool, so nothing is spooled; the type checker cannot know.
        mail = [
            (message, outcome)
            for message, outcome in self._session.take_mail()
            if not isinstance(outcome, SpooledOutcome)
        ]
        if mail:
            channel.post(mail)


async def crowd(address: str, workers: int, cores: int) -> None:
    """Serve as so many workers."""
    async with trio.open_nursery() as nursery:
        for number in range(workers):
            nursery.start_soon(Double(f"w{number}", cores).serve, address)


if __name__ == "__main__":
    trio.run(crowd, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
