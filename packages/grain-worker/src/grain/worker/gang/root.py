"""``python -m grain.worker.gang.root CONTROL SILENCE``: the process beside the tasklet of the root.

It connects to the seats, listens for ``rsh``, and has programs started on members. Member 0 is the
root itself, as launchers reach it by ``rsh`` like any other if they do not know its name.

Lines from the tasklet, each of which is answered by a line that begins alike:

- ``join``: index and invitation of a seat; answered when it is connected, with the address of this
  host in the network of the seat
- ``settle``: the number of a call of `run_external` that has ended; answered when nothing that it
  has started is left on any member

A line ``lost``, with index and reason, says that a member is lost. It is the last one.
"""

from __future__ import annotations

import base64
import os
import shlex
import sys
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from grain.edge.errors import EdgeError
from grain.edge.invitation import accept
from grain.worker.gang.control import ControlError, JsonLines, check_user, connect, listen
from grain.worker.gang.messages import (
    CODEC,
    EndProgram,
    ProgramExited,
    ProgramOrder,
    SpawnProgram,
    heartbeat,
)
from grain.worker.gang.programs import CANNOT, MemberPrograms

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.channel import FramedChannel, Heartbeat
    from grain.edge.messages import Message


@dataclass(eq=False)
class _Spawned:
    """A program on a member.

    Attributes:
        call: the number of the call of `run_external` that it belongs to.
        over: set when nothing of it is left, or its member is lost.
    """

    call: int
    end: Callable[[], object]
    over: trio.Event = field(default_factory=trio.Event)
    status: int = CANNOT
    output: bytes = b""


class Root:
    """The members of a gang, and what runs on them."""

    def __init__(self, nursery: trio.Nursery, tasklet: JsonLines, beats: Heartbeat) -> None:
        self._nursery = nursery
        self._heartbeat = beats
        self._tasklet = tasklet
        self._numbers = count(1)
        self._spawned: dict[int, _Spawned] = {}
        self._channels: dict[int, FramedChannel] = {}
        self._here = MemberPrograms(nursery, self._on_exited)
        # Calls that have ended: what is ordered for them comes too late.
        self._settled: set[int] = set()
        self._running: defaultdict[int, set[_Spawned]] = defaultdict(set)

    # ---- the tasklet

    async def serve_tasklet(self) -> None:
        """Do what the tasklet says until it has gone."""
        try:
            while True:
                line = await self._tasklet.receive()
                if "join" in line:
                    self._nursery.start_soon(self._join, line)
                elif "settle" in line:
                    self._nursery.start_soon(self._settle, line["settle"])
        except ControlError:
            self._nursery.cancel_scope.cancel()

    async def _settle(self, call: int) -> None:
        self._settled.add(call)
        for spawned in list(self._running[call]):
            spawned.end()
        for spawned in list(self._running[call]):
            await spawned.over.wait()
        del self._running[call]
        with suppress(ControlError):
            await self._tasklet.send(settle=call)

    # ---- seats

    async def _join(self, line: dict[str, Any]) -> None:
        index = line["join"]
        invitation = base64.b85decode(line["invitation"])
        try:
            async with accept(invitation, CODEC, self._heartbeat) as (channel, address):
                self._channels[index] = channel
                await self._tasklet.send(join=index, address=address)
                while True:
                    for message, payload in await channel.receive():
                        if isinstance(message, ProgramExited):
                            output = payload if isinstance(payload, bytes) else b""
                            self._on_exited(message.number, message.status, output)
        except (EdgeError, trio.EndOfChannel, trio.BrokenResourceError) as error:
            why = str(error) or "its run has ended"
        # All else ends with this process, which the tasklet ends.
        with suppress(ControlError):
            await self._tasklet.send(lost=index, why=why)

    def _on_exited(self, number: int, status: int, output: bytes) -> None:
        spawned = self._spawned.pop(number)
        spawned.status, spawned.output = status, output
        self._running[spawned.call].discard(spawned)
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
        if index == 0:
            spawned = _Spawned(call, partial(self._here.end, number))
            self._here.start(number, order)
        else:
            channel = self._channels[index]
            spawned = _Spawned(call, partial(_post, channel, EndProgram(number)))
            _post(channel, SpawnProgram(number), msgspec.msgpack.encode(order))
        self._spawned[number] = spawned
        self._running[call].add(spawned)
        return spawned

    # ---- rsh

    async def serve_rsh(self, stream: trio.SocketStream) -> None:
        """Run what one call of ``rsh`` asks for; end it when that has gone."""
        async with JsonLines(stream) as lines:
            try:
                check_user(stream)
                spawned = self._ordered(await lines.receive())
            except (ControlError, LookupError, ValueError) as error:
                await _answer(lines, CANNOT, f"grain-rsh: {error}\n")
                return
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_end_with, lines, spawned)
                await spawned.over.wait()
                nursery.cancel_scope.cancel()
            await _answer(lines, spawned.status, spawned.output.decode(errors="replace"))

    def _ordered(self, line: dict[str, Any]) -> _Spawned:
        host = str(line["host"])
        index = int(host[1:]) if host.startswith("m") and host[1:].isdecimal() else -1
        if index and index not in self._channels:
            raise ControlError(f"there is no member {host}: they are m0, m1 and so on")
        environment = {os.fsencode(k): os.fsencode(v) for k, v in line["environment"].items()}
        # The words are quoted for a shell, to which ssh would pass them.
        argv = (b"/bin/sh", b"-c", os.fsencode(" ".join(line["words"])))
        order = ProgramOrder(argv, tuple(environment.items()), os.fsencode(line["cwd"]))
        return self.start(index, int(line["call"]), order)


async def lead(control: str, silence: float) -> None:
    """Serve the tasklet of the root.

    Args:
        control: the name at which it listens.
        silence: seconds without a sign of life after which a seat is lost.
    """
    name, listener = listen()
    async with await connect(control) as tasklet, listener, trio.open_nursery() as nursery:
        root = Root(nursery, tasklet, heartbeat(silence))
        await tasklet.send(rsh=str(_script(name)))
        nursery.start_soon(root.serve_tasklet)
        nursery.start_soon(partial(trio.serve_listeners, root.serve_rsh, [listener]))


def _script(name: str) -> Path:
    """Write the command that launchers call in place of ssh; return its path.

    They take one word, and this directory is removed with this process.
    """
    path = Path(os.environ["TMPDIR"], "grain-rsh")
    words = [sys.executable, "-SEs", str(Path(__file__).with_name("rsh.py")), name]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o700)
    return path


async def _end_with(lines: JsonLines, spawned: _Spawned) -> None:
    """End a program when the other side of its lines has gone."""
    try:
        await lines.receive()
    except ControlError:
        spawned.end()


async def _answer(lines: JsonLines, status: int, output: str) -> None:
    with suppress(ControlError):  # it has gone
        await lines.send(status=status, output=output)


def _post(channel: FramedChannel, message: Message, payload: bytes | None = None) -> None:
    # If the member is lost, the task that reads from it says so.
    with suppress(EdgeError, trio.BrokenResourceError, trio.ClosedResourceError):
        channel.post([(message, payload)])


def main(control: str, silence: str) -> int:
    """Serve the tasklet of the root; return the exit status."""
    try:
        trio.run(lead, control, float(silence))
    except (ControlError, OSError) as error:
        print(f"grain: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
