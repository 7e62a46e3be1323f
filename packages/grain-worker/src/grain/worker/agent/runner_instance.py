"""One process of a runner, from its start until nothing of it is left."""

from __future__ import annotations

import math
import socket
import sys
from typing import TYPE_CHECKING

import trio

from grain.edge.channel import FramedChannel
from grain.edge.errors import ChannelError
from grain.worker.agent.listener import Crash
from grain.worker.messages import DefineFunction, Ended, ForgetFunctions, Ready, Run
from grain.worker.node.cgroup import read_cgroups
from grain.worker.processes.subreaper_client import End, Warded
from grain.worker.runner.wire import BLOCKED, CODEC, HEARTBEAT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.edge.channel import Batch
    from grain.edge.messages import Message, Payload
    from grain.worker.agent.listener import Reports


class Incarnation:
    """One process, its channel and its runs.

    Attributes:
        ready: whether it has entered its context and takes runs.
        served: whether it ever had a run.
        why: why it did not become ready, if it said so.
        runs: what it runs: attempt by task.
        first: the first task that it was given; they ascend.
    """

    def __init__(self, name: str, context: str, grace: float, reports: Reports) -> None:
        words = [sys.executable, "-m", "grain.worker.runner.main", name]
        self._argv = [*words, context] if context else words
        self._grace = grace
        self._reports = reports
        self._channel: FramedChannel | None = None
        self._warded: Warded | None = None
        self._taught: set[bytes] = set()
        self._blocked = 0.0
        self._oom_kills = read_cgroups().oom_kills
        self.ready = self.served = False
        self.why = ""
        self.runs: dict[int, int] = {}
        self.first = math.inf

    # ---- what it is told

    def start(self, runs: Sequence[tuple[Run, tuple[Payload, Payload]]]) -> bool:
        """Hand over runs, with functions that have not travelled yet; False if it is dead."""
        batch: list[tuple[Message, Payload]] = []
        taught = set()
        for run, (function, arguments) in runs:
            if not (function is None or run.function in self._taught or run.function in taught):
                taught.add(run.function)
                batch.append((DefineFunction(run.function), function))
            batch.append((run, arguments))
        if not self.post(batch):
            return False
        self._taught |= taught
        self.runs.update((run.task, run.attempt) for run, _ in runs)
        if runs:
            self.first = min(self.first, runs[0][0].task)
            self.served = True
        return True

    def drop(self, digests: tuple[bytes, ...]) -> None:
        """No more runs of these functions will come."""
        self._taught.difference_update(digests)
        self.post([(ForgetFunctions(digests), None)])

    def post(self, batch: Batch) -> bool:
        """Send something; False if it is dead, which `live` is about to notice."""
        if self._channel is None or not self.ready:
            return False
        try:
            self._channel.post(batch)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def close(self) -> None:
        """Tell it to leave, once its runs have ended."""
        if self._channel is not None:
            await self._channel.aclose()

    def kill(self) -> None:
        """End it, and all that it started, now."""
        if self._warded is not None:
            self._warded.end(hurry=True)

    # ---- its life

    async def live(self, on_ready: Callable[[], object], on_ended: Callable[[], object]) -> None:
        """Start it, and be its ear until its channel ends: it is dead then, or leaves.

        Raises:
            OSError: no process can be started.
        """
        self._warded = await Warded.start(self._argv, self._grace)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(self._warded.socket))

        def take(batch: Batch) -> None:
            ended = []
            for message, payload in batch:
                if isinstance(message, Ended):
                    if self.runs.get(message.task) == message.attempt:
                        del self.runs[message.task]
                        ended.append((message, payload))
                elif isinstance(message, Ready):
                    self.why, self.ready = message.error, not message.error
                    if self.ready:
                        on_ready()
            if ended:
                self._reports.ended(ended)
                on_ended()

        async with (
            FramedChannel(stream, CODEC, HEARTBEAT) as channel,
            trio.open_nursery() as nursery,
        ):
            self._channel = channel
            nursery.start_soon(self._watch, channel)
            try:
                await channel.receive_into(take)
            except (ChannelError, trio.ClosedResourceError):
                pass
            self.ready = False
            nursery.cancel_scope.cancel()

    async def _watch(self, channel: FramedChannel) -> None:
        """Notice when a tasklet blocks the event loop, by the heartbeats that do not come."""
        misses = 0
        while True:
            await trio.sleep(HEARTBEAT.interval)
            silent = channel.silent_for()
            # Twice: after a stop of this process itself, what has come is yet to be read.
            misses = misses + 1 if silent > BLOCKED else 0
            if misses > 1 and self.ready:
                if not self._blocked:
                    self._reports.blocked(silent, tuple(self.runs.items()))
                self._blocked = silent
            elif not misses and self._blocked:
                self._reports.unblocked(self._blocked)
                self._blocked = 0.0

    async def bury(self, *, leaving: bool) -> Crash:
        """Wait until nothing of it is left, see to that unless it leaves by itself."""
        if self._warded is None:
            return Crash((), None)
        if not leaving:
            self._warded.end()
        try:
            end = await self._warded.wait()
        except trio.Cancelled:
            self.kill()
            raise
        return self._crash(end)

    def _crash(self, end: End) -> Crash:
        return Crash(
            runs=tuple(self.runs.items()),
            returncode=end.returncode,
            out_of_memory=read_cgroups().oom_kills > self._oom_kills,
            blocked=self._blocked,
            max_rss=end.max_rss,
            host=socket.gethostname(),
            left=end.left,
        )
