"""A hub with the channels of its peers: the shell around the decisions.

    service = Service()
    async with trio.open_nursery() as nursery:
        serving = await nursery.start(partial(serve, service.handle, address, codec=CODEC))
        nursery.start_soon(service.run)

Each peer has a trio task that receives. What the hub decides then is posted to the channels, and
each channel writes by itself. So a slow or stuck peer delays no other: the buffer of its channel
grows, by no more than what runs on it or what it has submitted, until the channel breaks for
silence.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import secrets
import socket
import time
from typing import TYPE_CHECKING

import trio

from grain.edge.errors import ChannelBroken, ChannelError, LocalProtocolError
from grain.edge.messages import Codec
from grain.edge.version import own_versions
from grain.files.batch_jobs import WorkerJob, jobs_over
from grain.head import messages as mission
from grain.head.errors import BadMessage
from grain.head.hub.hub import GRACE, MAX_SILENCE, Hub, epoch_at
from grain.head.messages import Printed
from grain.worker import messages as worker
from grain.worker.messages import Disconnect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from grain.edge import Peer, PeerProcess
    from grain.edge.channel import WireBatch, WireChannel
    from grain.edge.messages import Hello, Message
    from grain.head.hub.state import Link
    from grain.head.scheduler.cluster import ClusterPool

CODEC = Codec(*worker.AGENT, *worker.HEAD, *mission.MISSION, *mission.HEAD)
"""The messages between a head and its peers: agents and missions."""

_log = logging.getLogger("grain.head")

_TICK = 1.0  # seconds between two ticks of the hub
_LOOK = 0.05  # seconds between two looks at a process that is about to end
_DIRECT = frozenset({"unix", "tcp", "reverse"})
_ENDING = 5.0  # seconds within which a process ends whose connections its kernel has closed


class HubService:
    """A hub that serves channels.

    Args:
        grace: seconds for which workers and missions that are away are waited for.
        max_silence: seconds for which a mission that does not run its event loop is waited for
            while its process, or over a network its host, is there.
        max_missions: how many missions may be connected at a time.
        cluster: what this scheduler owns for the whole cluster.
        ask: asks batch systems for the jobs of workers that are away, see `jobs_over`.

    Attributes:
        hub: the decisions.
    """

    def __init__(
        self,
        *,
        grace: float = GRACE,
        max_silence: float = MAX_SILENCE,
        max_missions: float = math.inf,
        cluster: ClusterPool | None = None,
        ask: Callable[[Sequence[WorkerJob]], Awaitable[list[str | None]]] = jobs_over,
    ) -> None:
        epoch = epoch_at(time.time_ns(), secrets.randbits(20))
        self.hub = Hub(
            epoch,
            trio.current_time(),
            grace=grace,
            wall=time.time(),
            versions=own_versions(),
            cluster=cluster,
        )
        self._jobs_over = ask
        self._max_missions = max_missions
        self._max_silence = max_silence
        self._links = itertools.count(1)
        self._channels: dict[Link, WireChannel] = {}
        self._scopes: dict[Link, trio.CancelScope] = {}
        # By their identity, each with its last connection: a mission that was cut off comes back
        # while its connection before still seems to be there, until that breaks for silence.
        self._missions: dict[str | Link, Link] = {}
        # The processes of peers whose connection has just ended, by the peer's id, with the time
        # until which they are looked at: a killed process takes a moment to end.
        self._ending: dict[str, tuple[PeerProcess, float]] = {}
        self._look = trio.Event()
        # Waits for the end of the next slice of a lane.
        self._slices = trio.CancelScope()

    def admit(self, hello: Hello) -> str:
        """Return why a peer may not join, for `grain.edge.serve`; "" if it may."""
        if hello.role != "mission" or self._has_room(hello.identity):
            return ""
        count = len(self._missions)
        _log.warning("mission %s is refused: %d are connected", hello.name, count)
        missions = "1 mission is" if count == 1 else f"{count} missions are"
        return (
            f"{missions} connected to this scheduler, and it takes no more "
            "at a time: wait until one has ended, or set head.gnaw.max_conn to a larger number in "
            "grain.toml before the scheduler is started"
        )

    def patience(self, hello: Hello) -> float:
        """Return for how long a peer may be silent, for `grain.edge.serve`.

        A mission runs its user's code in its event loop, which may compute, or stand still in a
        debugger. A worker's agent does nothing that takes long: a silent agent is not well.
        """
        return self._max_silence if hello.role == "mission" else 0.0

    def on_trouble(self, directory: str, why: str) -> None:
        """Report to missions that nothing can be stored in a directory, or, with "", the end."""
        if why:
            host = socket.gethostname()
            why = f"the scheduler, process {os.getpid()} on {host}, cannot store anything: {why}"
        self.hub.on_trouble(directory, why)
        self.dispatch()

    def on_uncounted(self, command: str, why: str) -> None:
        """Report to missions that a command does not count licences, or, with "", the end."""
        self.hub.on_trouble(command, why)
        self.dispatch()

    def _has_room(self, identity: str) -> bool:
        return identity in self._missions or len(self._missions) < self._max_missions

    async def handle(self, peer: Peer) -> None:
        """Serve one peer that `grain.edge.serve` has let in."""
        greeting = peer.greeting
        role = getattr(greeting, "role", "peer")
        name = getattr(greeting, "name", "")
        _log.info("%s %s has connected by %s", role, name, peer.transport)
        try:
            identity = getattr(greeting, "identity", "")
            await self.serve(
                *(peer.channel, role, identity),
                process=peer.process,
                name=name,
                direct=peer.transport in _DIRECT,
            )
        finally:
            _log.info("%s %s is disconnected", role, name)

    async def serve(
        self,
        channel: WireChannel,
        role: str = "",
        identity: str = "",
        *,
        process: PeerProcess | None = None,
        name: str = "",
        direct: bool = False,
    ) -> None:
        """Serve one channel until it ends, or until the hub disconnects the peer.

        A message that makes no sense, and an error in the hub while it handles one, end only this
        connection.

        Args:
            identity: by which it is recognised on its next connection, as in
                `grain.edge.messages.Hello`.
            process: the peer's, if it is on this host: a peer whose process has ended is not waited
                for.
            direct: the peer's kernel holds the connection, and no server in between.

        Raises:
            ChannelError: the connection is lost.
        """
        if role == "mission" and not self._has_room(identity):
            return  # it came with others at the same moment; `admit` says why when it comes again
        link = next(self._links)
        who = identity or link
        self._channels[link] = channel
        scope = self._scopes[link] = trio.CancelScope()
        peer = f"{role} {name}".strip() or "a peer"
        if role == "mission":
            self._missions[who] = link
        ended = False
        try:
            with scope:
                await channel.receive_into(lambda batch: self._take(link, peer, batch))
        except ChannelBroken as error:
            ended = direct and error.ended
            raise
        finally:
            del self._channels[link], self._scopes[link]
            if self._missions.get(who) == link:
                del self._missions[who]
            lost = self.hub.missions.links.get(link) or self.hub.workers.links.get(link)
            self.hub.on_link_lost(link, trio.current_time(), channel.silent_for(), ended=ended)
            self.dispatch()
            if lost is not None and process is not None:
                self._ending[lost.id] = (process, trio.current_time() + _ENDING)
                self._look.set()

    def _take(self, link: int, peer: str, batch: WireBatch) -> None:
        now = trio.current_time()
        message: Message | None = None
        try:
            for message, payload in batch:
                self.hub.on_message(link, message, payload, now)
        except BadMessage as error:
            kind = type(message).__name__
            _log.warning("%s is dropped: its %s makes no sense: %s", peer, kind, error)
            why = f"the scheduler refuses {kind} of {peer}: {error}"
            self.hub.disconnect(link, why, now, refused=True)
        except Exception as error:  # a bug here: the other peers are served all the same
            _log.exception("%s is dropped: its %s failed here", peer, type(message).__name__)
            why = f"the scheduler failed to serve {peer} ({error!r}): its log has the traceback"
            self.hub.disconnect(link, why, now)
        self.dispatch()

    def dispatch(self) -> None:
        """Decide, and send what is to be sent."""
        self.hub.dispatch(trio.current_time())
        if self._slices.deadline != self.hub.lanes.due:
            self._slices.deadline = self.hub.lanes.due
        for link, mail in self.hub.take().items():
            channel = self._channels.get(link)
            if channel is None:
                continue
            if channel.congested:  # by a peer that does not read: printed lines can wait
                mail = [one for one in mail if type(one[0]) is not Printed]
                if not mail:
                    continue
            try:
                channel.post(mail)
            except LocalProtocolError:  # a bug here
                _log.exception("a peer is dropped: what is for it cannot travel")
                self._scopes[link].cancel()
            except (ChannelError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # the task that receives from it is about to notice that
            if isinstance(mail[-1][0], Disconnect):
                self._scopes[link].cancel()  # the channel is closed in good order, after the mail

    async def run(self) -> None:
        """Let time pass, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ask_batch_systems)
            nursery.start_soon(self._end_slices)
            await self._keep_time()

    async def _keep_time(self) -> None:
        tick = trio.current_time() + _TICK
        while True:
            with trio.move_on_at(min(tick, trio.current_time() + _LOOK) if self._ending else tick):
                await self._look.wait()
                await trio.sleep(_LOOK)
            self._look = trio.Event()
            self._end_peers()
            if trio.current_time() >= tick:
                tick = trio.current_time() + _TICK
                self.hub.on_tick(trio.current_time())
                self.dispatch()

    async def _end_slices(self) -> None:
        """Decide again when the slices of lanes are over beside which others wait."""
        while True:
            with trio.CancelScope(deadline=self.hub.lanes.due) as self._slices:
                await trio.sleep_forever()
            self.dispatch()

    async def _ask_batch_systems(self) -> None:
        """Learn from batch systems which workers that are away do not come back."""
        while True:
            await trio.sleep(_TICK)
            doubts = self.hub.workers_in_doubt(trio.current_time())
            if doubts:
                jobs = [WorkerJob(one.system, one.listed, one.host) for one in doubts]
                found = await self._jobs_over(jobs)
                for worker, why in zip(doubts, found, strict=True):
                    if why is not None:
                        self.hub.on_job_over(worker.id, why, trio.current_time())
                self.dispatch()

    def _end_peers(self) -> None:
        """End the missions and workers whose connection has ended because their process has."""
        now = trio.current_time()
        for ended, (process, until) in list(self._ending.items()):
            if not process.alive:
                kind = "worker" if ended in self.hub.registry.workers else "mission"
                _log.info("the process of %s %s has ended", kind, ended)
                if kind == "worker":
                    self.hub.on_worker_ended(ended, now)
                else:
                    self.hub.on_mission_ended(ended, now)
                self.dispatch()
            elif now < until:
                continue
            del self._ending[ended]
