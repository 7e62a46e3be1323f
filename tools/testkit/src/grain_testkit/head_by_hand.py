"""A head that a test plays by hand, and the process of a worker that serves it."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from grain.edge import serve
from grain.worker.messages import CODEC, AckRuns, DefineFunction, Lease, RunEnded, WorkerRegistered
from grain.worker.payload import Payloads

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path

    from grain.edge import Peer
    from grain.edge.messages import Message, Payload


M = TypeVar("M", bound="Message")


class Head:
    """The head, driven by hand."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.peer: Peer | None = None
        self.mail: list[tuple[Message, Payload]] = []
        self.changed = trio.Event()
        self.payloads = Payloads("mission")
        self.last = 0

    async def handle(self, peer: Peer) -> None:
        self.peer = peer
        await peer.channel.send([(WorkerRegistered(1), None)])
        while True:
            try:
                self.mail += await peer.channel.receive()
            except (trio.EndOfChannel, trio.ClosedResourceError):
                return
            finally:
                self.changed.set()
                self.changed = trio.Event()

    async def get(self, kind: type[M], number: int | None = None) -> tuple[M, Payload]:
        """Return the next message of a kind, and of an attempt; wait for it if need be."""
        with trio.fail_after(120):
            while True:
                for pair in self.mail:
                    if isinstance(pair[0], kind) and number in (
                        None,
                        getattr(pair[0], "attempt", (0, None))[1],
                    ):
                        self.mail.remove(pair)
                        return pair  # type: ignore[return-value]
                await self.changed.wait()

    async def send(self, *messages: tuple[Message, Payload]) -> None:
        assert self.peer is not None
        await self.peer.channel.send(messages)

    async def lease(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> int:
        """Lease a run that begins, and return its number."""
        self.last += 1
        function = self.payloads.dump_function(fn)
        lease = Lease("m", self.last, (1, self.last), function.digest, {"Cores": [0]})
        arguments = self.payloads.dump_arguments(args, {})
        await self.send((DefineFunction(function.digest), function.payload), (lease, arguments))
        return self.last

    async def settled(self, number: int) -> tuple[str, Any]:
        """Wait for the end of a run, acknowledge it, and return its status and result."""
        message, payload = await self.get(RunEnded, number)
        await self.send((AckRuns((message.attempt,)), None))
        ended = None if payload is None else self.payloads.load_outcome(payload)
        return message.status, ended


@asynccontextmanager
async def head(folder: Path) -> AsyncGenerator[Head]:
    """Open a head that serves at a Unix socket in a directory."""
    address = f"unix://{folder}/socket"
    playing = Head(address)
    async with trio.open_nursery() as nursery:
        await nursery.start(_serve, playing)
        yield playing
        nursery.cancel_scope.cancel()


async def _serve(playing: Head, task_status: trio.TaskStatus[object]) -> None:
    await serve(playing.handle, playing.address, codec=CODEC, task_status=task_status)


@asynccontextmanager
async def worker(
    *words: str,
    env: dict[str, str] | None = None,
    command: tuple[str, ...] = ("-m", "grain.worker"),
) -> AsyncGenerator[trio.Process]:
    """Start a worker's process; kill it at the end if it has not left."""
    command = (sys.executable, *command, "--name", "w1", *words)
    process = await trio.lowlevel.open_process(
        command, env={**os.environ, **(env or {})}, stderr=-1, start_new_session=True
    )
    try:
        with trio.fail_after(300):
            yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            assert process.stderr is not None
            await process.stderr.aclose()


async def code(process: trio.Process) -> int:
    with trio.fail_after(120):
        return await process.wait()
