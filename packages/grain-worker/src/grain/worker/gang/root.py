"""``python -m grain.worker.gang.root CONTROL SILENCE MEMORY``: the process beside the root.

It connects to the seats, listens for ``rsh``, and has programs started on members. Member 0 is the
root itself, as launchers reach it by ``rsh`` like any other if they do not know its name.

Lines from the tasklet:

- ``join``: index and invitation of a seat; answered when it is connected, with its address, our
  own in the same network, and its place in Slurm
- ``run``: the number of a program and that of its ``call``, the member ``on`` which it runs, and
  the order; answered with its ``outcome`` when nothing of it is left
- ``settle``: the ``call`` has ended; answered by ``settled`` when nothing that it has started is
  left on any member, with what that has ``used``. ``doors`` is true if ranks may have come by
  these. If it has ``failed``, all members have said first that their workers are not being ended

The first line to the tasklet has the command ``rsh``, and the root's place in Slurm.
A line ``member``, with seconds ``left`` and ``now``, says when a member's worker ends, see
`MemberEnds`.
A line ``refused``, with a ``call``, says that a member lacks what a launcher wants there, and why.
A line ``lost``, with index and reason, says that a member is lost; with ``ends``, that its worker
is being ended. It is the last one.
"""

from __future__ import annotations

import base64
import math
import os
import pickle
import shlex
import sys
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from grain.edge.errors import EdgeError
from grain.edge.invitation import accept
from grain.edge.messages import Pieces
from grain.eventlog.usage import Usage
from grain.worker.errors import ExternalError, ExternalMemoryError
from grain.worker.external import Completed
from grain.worker.gang.control import ControlError, connect, listen, serve
from grain.worker.gang.door import RankDoor, slurm_place
from grain.worker.gang.messages import (
    CODEC,
    CallEnded,
    CallUsed,
    EndCall,
    EndProgram,
    MemberEnds,
    MemberPlace,
    OutputTaken,
    ProgramExited,
    ProgramInput,
    ProgramOrder,
    ProgramOutput,
    RemoteOrder,
    SpawnProgram,
    WarnProgram,
    heartbeat,
)
from grain.worker.gang.programs import (
    CANNOT,
    NO_BOUND,
    NOT_FOUND,
    CallUse,
    MemberPrograms,
    MemoryBound,
    as_of_ssh,
    end_unwatched,
)
from grain.worker.gang.rsh import ENFORCE
from grain.worker.processes.fork_server_client import set_last_resort
from grain.worker.processes.mpi import EDGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.channel import FramedChannel, Heartbeat
    from grain.edge.messages import Message
    from grain.worker.gang.control import JsonLines
    from grain.worker.gang.programs import Outcome

LEAVES = "its worker is being ended"
"""The reason why a member is lost that says so when a call has failed."""

_LONGEST_LINE = 4096  # bytes in which the first line of what a program writes is looked for


@dataclass(eq=False)
class _Spawned:
    """A program on a member.

    Attributes:
        index: of the member.
        call: the number of the call that it belongs to.
        end: ends it.
        warn: warns it, with True before the end of a worker.
        take: called with a stream when what was written to that has been passed on.
        give: called with a piece of its standard input.
        written: streams, as of `ProgramOutput`, and what was written to them; each waits for the
            one before.
        read: the end of these that `Root.serve_rsh` reads from.
        over: set when nothing of it is left; never if its member is lost.
        outcome: how it has ended.
    """

    index: int
    call: int
    end: Callable[[], object]
    warn: Callable[[bool], object]
    take: Callable[[int], object]
    give: Callable[[bytes], object]
    written: trio.MemorySendChannel[tuple[int, bytes]]
    read: trio.MemoryReceiveChannel[tuple[int, bytes]]
    over: trio.Event = field(default_factory=trio.Event)
    outcome: Outcome | None = None


class Root:
    """The members of a gang, and what runs on them."""

    def __init__(
        self,
        nursery: trio.Nursery,
        tasklet: JsonLines,
        beats: Heartbeat,
        bound: MemoryBound = NO_BOUND,
    ) -> None:
        self._nursery = nursery
        self._heartbeat = beats
        self._tasklet = tasklet
        self._numbers = count(1)
        self._spawned: dict[int, _Spawned] = {}
        self._channels: dict[int, FramedChannel] = {}
        self._here = MemberPrograms(nursery, self._on_output, self._on_exited, bound)
        self.door = RankDoor(nursery, bound)
        # Of calls that end, the members on which ranks may be left.
        self._ending: dict[int, set[int]] = {}
        self._ended: dict[int, trio.Event] = {}
        # The member whose worker is being ended, by calls that have failed.
        self._leaving: dict[int, int] = {}
        # Calls that have ended: what is ordered for them comes too late.
        self._settled: set[int] = set()
        self._running: defaultdict[int, set[_Spawned]] = defaultdict(set)
        # What the programs of a call have used, by the member.
        self._used: defaultdict[int, defaultdict[int, CallUse]] = defaultdict(
            lambda: defaultdict(CallUse)
        )

    # ---- the tasklet

    async def serve_tasklet(self) -> None:
        """Do what the tasklet says until it has gone."""
        try:
            while True:
                line = await self._tasklet.receive()
                if "join" in line:
                    self._nursery.start_soon(self._join, line)
                elif "run" in line:
                    self._run(line)
                elif "warn" in line:
                    for spawned in self._running[line["warn"]]:
                        spawned.warn(line["worker"])
                elif "settle" in line:
                    self._nursery.start_soon(
                        self._settle, line["call"], line["doors"], line["failed"]
                    )
        except ControlError:
            self._nursery.cancel_scope.cancel()

    def _run(self, line: dict[str, Any]) -> None:
        order = msgspec.msgpack.decode(base64.b85decode(line["order"]), type=ProgramOrder)
        # A member that is not there is lost, and the tasklet hears of that.
        with suppress(KeyError, ControlError):
            spawned = self.start(line["on"], line["call"], order)
            self._nursery.start_soon(self._report, line["run"], spawned)

    async def _report(self, number: int, spawned: _Spawned) -> None:
        await spawned.over.wait()
        outcome = base64.b85encode(pickle.dumps(spawned.outcome)).decode()
        with suppress(ControlError):
            await self._tasklet.send(run=number, call=spawned.call, outcome=outcome)

    async def _settle(self, call: int, doors: bool, failed: bool) -> None:
        self._settled.add(call)
        for spawned in list(self._running[call]):
            spawned.end()
        if doors or failed:
            self._ending[call] = {*self._channels}
            ended = self._ended[call] = trio.Event()
            for channel in self._channels.values():
                _post(channel, EndCall(call, failed))
            own = await self.door.end_call(call)
            self._used[call][0].add(own.usage, own.exceeded)
            if self._channels:
                await ended.wait()  # a member that is lost ends the run
            del self._ended[call], self._ending[call]
        if call in self._leaving:
            self._used.pop(call, None)
            with suppress(ControlError):
                await self._tasklet.send(lost=self._leaving[call], why=LEAVES, ends=True)
            return
        for spawned in list(self._running[call]):
            await spawned.over.wait()
        del self._running[call]
        used, exceeded = {}, None
        for index, one in self._used.pop(call, {}).items():
            if one.usage.programs:
                used[index] = one.usage
            if one.exceeded is not None:
                exceeded = ExternalMemoryError(replace(one.exceeded.failure, member=index))
        content = base64.b85encode(pickle.dumps((used, exceeded))).decode()
        with suppress(ControlError):
            await self._tasklet.send(settled=True, call=call, used=content)

    # ---- seats

    async def _join(self, line: dict[str, Any]) -> None:
        index = line["join"]
        invitation = base64.b85decode(line["invitation"])
        try:
            async with accept(invitation, CODEC, self._heartbeat) as (channel, own, address):
                self._channels[index] = channel
                while True:
                    for message, payload in await channel.receive():
                        if isinstance(message, MemberPlace):
                            place = msgspec.structs.asdict(message)
                            line = {"join": index, "address": address, "own": own, "place": place}
                            await self._tasklet.send(**line)
                        elif isinstance(message, MemberEnds):
                            await self._tasklet.send(
                                member=index, left=message.left, now=message.now
                            )
                        else:
                            self._on_message(index, message, payload)
        except (EdgeError, trio.EndOfChannel, trio.BrokenResourceError) as error:
            why = str(error) or "its run has ended"
        except ControlError:
            return  # the tasklet has gone, and this process ends
        except Exception as error:  # a broken member ends its own run, with a reason
            why = f"it has sent something that does not fit: {type(error).__name__}: {error}"
        # All else ends with this process, which the tasklet ends.
        with suppress(ControlError):
            await self._tasklet.send(lost=index, why=why)

    def _on_message(self, index: int, message: Message, payload: object) -> None:
        """Record what a member says.

        Raises:
            Exception: it does not fit what runs there.
        """
        assert not isinstance(payload, Pieces)  # it has travelled
        data = bytes(payload or b"")  # type: ignore[call-overload]
        if isinstance(message, CallEnded):
            self._on_call_ended(index, message)
        elif isinstance(message, CallUsed):
            usage, exceeded = pickle.loads(data)  # noqa: S301 - from a member
            if not isinstance(usage, Usage):
                raise TypeError(f"a use of type {type(usage).__name__}")
            self._used[message.call][index].add(usage, exceeded)
        elif isinstance(message, ProgramOutput):
            self._on_output(message.number, message.stream, data)
        elif isinstance(message, ProgramExited):
            outcome = pickle.loads(data)  # noqa: S301 - from a member
            if not isinstance(outcome, Completed | ExternalError):
                raise TypeError(f"an outcome of type {type(outcome).__name__}")
            self._on_exited(message.number, outcome)

    def _on_output(self, number: int, stream: int, data: bytes) -> None:
        self._spawned[number].written.send_nowait((stream, data))

    def _on_call_ended(self, index: int, message: CallEnded) -> None:
        call = message.call
        self._ending[call].discard(index)
        if message.ends:
            self._leaving.setdefault(call, index)
        if not self._ending[call]:
            self._ended[call].set()

    def _on_exited(self, number: int, outcome: Outcome) -> None:
        spawned = self._spawned.pop(number)
        spawned.outcome = outcome
        self._running[spawned.call].discard(spawned)
        self._used[spawned.call][spawned.index].end(spawned, outcome)
        spawned.written.close()
        spawned.over.set()

    def start(self, index: int, call: int, order: ProgramOrder) -> _Spawned:
        """Start a program on a member.

        Raises:
            KeyError: there is no such member.
            ControlError: the call has ended.
        """
        if call in self._settled:
            raise ControlError("the program that asked for this has ended")
        number = next(self._numbers)
        # Programs bound what is in it: they wait until what they wrote has been taken.
        pipe = trio.open_memory_channel[tuple[int, bytes]](math.inf)
        if index == 0:
            here = self._here
            spawned = _Spawned(
                index,
                call,
                partial(here.end, number),
                lambda worker: here.warn(number, worker=worker),
                partial(here.take, number),
                partial(here.give, number),
                *pipe,
            )
            self._here.start(number, order)
        else:
            channel = self._channels[index]
            spawned = _Spawned(
                index,
                call,
                partial(_post, channel, EndProgram(number)),
                lambda worker: _post(channel, WarnProgram(number, worker)),
                lambda stream: _post(channel, OutputTaken(number, stream)),
                lambda data: _post(channel, ProgramInput(number), data),
                *pipe,
            )
            _post(channel, SpawnProgram(number), msgspec.msgpack.encode(order))
        self._spawned[number] = spawned
        self._running[call].add(spawned)
        self._used[call][index].begin(spawned)
        return spawned

    # ---- rsh

    async def serve_rsh(self, lines: JsonLines) -> None:
        """Run what one call of ``rsh`` asks for; end it when that has gone."""
        try:
            asked = await lines.receive_as(RemoteOrder)
            spawned = self._ordered(asked)
        except (ControlError, LookupError, ValueError) as error:
            await _answer(lines, CANNOT, f"grain-rsh: {error}\n")
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_listen, lines, spawned)
            written = b""
            with suppress(ControlError):  # it has gone, which ends the program
                async for stream, data in spawned.read:
                    if not stream:
                        await lines.send(taken=bool(data))
                        continue
                    # A shell writes its line in parts.
                    if b"\n" not in written and len(written) < _LONGEST_LINE:
                        written += data
                    await lines.send(stream=stream, data=base64.b85encode(data).decode())
                    spawned.take(stream)
            await spawned.over.wait()
            nursery.cancel_scope.cancel()
        assert spawned.outcome is not None
        status, why_not = as_of_ssh(spawned.outcome)
        output = why_not or written.decode(errors="replace")
        # What a shell says of a program that is not there, or whose libraries are not. Some
        # launchers wait for their daemon without end.
        if asked.daemon and status == NOT_FOUND and (said := output.split("\n")[0]):
            why = (
                f"member {spawned.index} (host {spawned.outcome.host}) cannot take part: {said}"
                ". Each member needs what the first one has, such as its MPI library, at the "
                "same path"
            )
            with suppress(ControlError):
                await self._tasklet.send(refused=why, call=spawned.call)
        await _answer(lines, status, why_not)

    def _ordered(self, asked: RemoteOrder) -> _Spawned:
        host = asked.host
        index = int(host[1:]) if host.startswith("m") and host[1:].isdecimal() else -1
        if index and index not in self._channels:
            raise ControlError(f"there is no member {host}: they are m0, m1 and so on")
        environment = {os.fsencode(k): os.fsencode(v) for k, v in asked.environment.items()}
        argv = (b"/bin/sh", b"-c", os.fsencode(" ".join(asked.words)))
        cwd = os.fsencode(asked.cwd)
        enforce = {"1": True, "0": False}.get(asked.environment.get(ENFORCE, ""))
        order = ProgramOrder(
            argv, tuple(environment.items()), cwd,
            streams=True, enforce=enforce, reads=asked.reads,
        )  # fmt: skip
        return self.start(index, asked.call, order)


async def lead(control: str, silence: float, bound: MemoryBound = NO_BOUND) -> None:
    """Serve the tasklet of the root.

    Args:
        control: the name at which it listens.
        silence: seconds without a sign of life after which a seat is lost.
        bound: the memory that each program may have.
    """
    set_last_resort(end_unwatched)
    name, listener = listen()
    async with listener, await connect(control) as tasklet, trio.open_nursery() as nursery:
        root = Root(nursery, tasklet, heartbeat(silence), bound)
        await tasklet.send(rsh=str(_script(name)), place=slurm_place(root.door.name))
        nursery.start_soon(root.door.serve)
        nursery.start_soon(root.serve_tasklet)
        nursery.start_soon(serve, listener, root.serve_rsh)


def _script(name: str) -> Path:
    """Write the command that launchers call in place of ssh; return its path.

    They take one word, and this directory is removed with this process.
    """
    path = Path(os.environ["TMPDIR"], "grain-rsh")
    words = [sys.executable, "-SEs", str(Path(__file__).with_name("rsh.py")), EDGE, name]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o700)
    return path


async def _listen(lines: JsonLines, spawned: _Spawned) -> None:
    """Pass a program its standard input, and end it when the other side of its lines has gone."""
    try:
        while True:
            line = await lines.receive()
            spawned.give(base64.b85decode(line["input"]))
    except (ControlError, LookupError, ValueError):
        spawned.end()


async def _answer(lines: JsonLines, status: int, output: str) -> None:
    with suppress(ControlError):  # it has gone
        await lines.send(status=status, output=output)


def _post(channel: FramedChannel, message: Message, payload: bytes | None = None) -> None:
    # If the member is lost, the task that reads from it says so.
    with suppress(EdgeError, trio.BrokenResourceError, trio.ClosedResourceError):
        channel.post([(message, payload)])


def main(control: str, silence: str, memory: str) -> int:
    """Serve the tasklet of the root; return the exit status."""
    try:
        trio.run(lead, control, float(silence), MemoryBound.parse(memory))
    except (ControlError, OSError) as error:
        print(f"grain: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
