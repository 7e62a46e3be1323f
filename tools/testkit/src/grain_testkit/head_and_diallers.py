"""A head that echoes, and diallers, in one process."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from grain.edge import Peer, Serving, dial, serve
from grain_testkit.faulty_links import CODEC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


TRANSPORTS = ["unix", "tcp", "reverse", "files"]


async def echo(peer: Peer) -> None:
    while True:
        await peer.channel.send(await peer.channel.receive())


@asynccontextmanager
async def head(
    address: str, handler: Callable[[Peer], Any] = echo, **options: Any
) -> AsyncIterator[Serving]:
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[Serving]) -> None:
            await serve(handler, address, codec=CODEC, task_status=task_status, **options)

        yield await nursery.start(run)
        nursery.cancel_scope.cancel()


def dialling(address: str, transport: str = "unix", **options: Any) -> Any:
    options = {"role": "worker", "codec": CODEC, "patience": 60.0, **options}
    return dial(address, transports=frozenset({transport}), **options)


async def receive(peer: Peer, count: int) -> list[Any]:
    got: list[Any] = []
    while len(got) < count:
        got += await peer.channel.receive()
    return [(m, None if p is None else bytes(p)) for m, p in got]
