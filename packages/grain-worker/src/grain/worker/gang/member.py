"""``python -m grain.worker.gang.member CONTROL SILENCE MEMORY``: the process of a seat.

It ends when the root says goodbye, is lost, or has not come in time, and when the seat's tasklet
has gone. All of its programs have ended then.
"""

from __future__ import annotations

import base64
import pickle
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import trio

from grain.edge.errors import EdgeError
from grain.edge.invitation import invite
from grain.edge.messages import Pieces
from grain.worker.gang.control import ControlError, connect
from grain.worker.gang.door import RankDoor, slurm_place
from grain.worker.gang.messages import (
    CODEC,
    LEAD,
    NO_ROOT,
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
    SpawnProgram,
    WarnProgram,
    heartbeat,
)
from grain.worker.gang.programs import NO_BOUND, MemberPrograms, MemoryBound, end_unwatched
from grain.worker.processes.fork_server_client import set_last_resort

if TYPE_CHECKING:
    from grain.edge.buffers import Buffer
    from grain.edge.channel import FramedChannel
    from grain.edge.messages import Message
    from grain.worker.gang.control import JsonLines


async def keep(control: str, silence: float, bound: MemoryBound = NO_BOUND) -> bool:
    """Serve the root of a gang until it has gone; return False if it has never come.

    Args:
        control: the name at which the seat's tasklet listens.
        silence: seconds without a sign of life after which the root is lost.
        bound: the memory that each program may have.
    """
    set_last_resort(end_unwatched)
    async with await connect(control) as tasklet, invite(CODEC, heartbeat(silence)) as door:
        await tasklet.send(invitation=base64.b85encode(door.invitation).decode())
        with trio.move_on_after(LEAD * silence) as patience:
            async with door.guest() as root:
                patience.deadline = float("inf")
                await _serve(root, tasklet, bound)
        return not patience.cancelled_caught


async def _serve(root: FramedChannel, tasklet: JsonLines, bound: MemoryBound) -> None:
    async def serve_tasklet(scope: trio.CancelScope) -> None:
        try:
            while True:
                told = await tasklet.receive()
                if "call" in told:
                    _post(root, CallEnded(told["call"], told["ends"]))
                else:
                    _post(root, MemberEnds(told["left"], told["now"]))
        except ControlError:
            scope.cancel()

    async with trio.open_nursery() as nursery:
        programs = MemberPrograms(
            nursery,
            lambda number, stream, data: _post(root, ProgramOutput(number, stream), data),
            lambda number, ended: _post(root, ProgramExited(number), pickle.dumps(ended)),
            bound,
        )
        door = RankDoor(nursery, bound)
        nursery.start_soon(door.serve)
        _post(root, MemberPlace(**slurm_place(door.name)))
        nursery.start_soon(serve_tasklet, nursery.cancel_scope)
        try:
            while True:
                for message, payload in await root.receive():
                    if isinstance(message, EndCall):
                        nursery.start_soon(_end_call, root, tasklet, door, message)
                    else:
                        assert not isinstance(payload, Pieces)  # it has travelled
                        _obey(programs, message, payload)
        except (EdgeError, trio.EndOfChannel, trio.BrokenResourceError):
            pass  # the root has ended, or is lost
        nursery.cancel_scope.cancel()


def _obey(programs: MemberPrograms, message: Message, payload: Buffer | None) -> None:
    if isinstance(message, SpawnProgram):
        # A large one, as with a large environment, is another kind of buffer.
        order = msgspec.msgpack.decode(payload or b"", type=ProgramOrder)
        programs.start(message.number, order)
    elif isinstance(message, EndProgram):
        programs.end(message.number)
    elif isinstance(message, WarnProgram):
        programs.warn(message.number, worker=message.worker)
    elif isinstance(message, ProgramInput):
        programs.give(message.number, bytes(payload or b""))
    elif isinstance(message, OutputTaken):
        programs.take(message.number, message.stream)


async def _end_call(
    root: FramedChannel, tasklet: JsonLines, door: RankDoor, order: EndCall
) -> None:
    used = await door.end_call(order.call)
    if used.usage.programs:
        _post(root, CallUsed(order.call), pickle.dumps((used.usage, used.exceeded)))
    if not order.failed:
        _post(root, CallEnded(order.call))
        return
    with suppress(ControlError):  # it has gone, and this process ends
        await tasklet.send(failed=order.call)


def _post(root: FramedChannel, message: Message, payload: bytes | None = None) -> None:
    try:
        root.post([(message, payload)])
    except (EdgeError, trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # the root is lost, and this process ends


def main(control: str, silence: str, memory: str) -> int:
    """Keep a seat; return the exit status."""
    try:
        return 0 if trio.run(keep, control, float(silence), MemoryBound.parse(memory)) else NO_ROOT
    except (ControlError, EdgeError, OSError) as error:
        print(f"grain: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
