"""A head or a worker, for the tests on several hosts: python edge_program.py ROLE ADDRESS.

A head echoes. A successor is a head that takes the place of one on another host which has not
answered for a second. A worker sends numbers, checks the echoes, and prints a line for each event:
"joined TRANSPORT", "echo NUMBER", "lost REASON". It dials again when it lost its head.
"""

from __future__ import annotations

import logging
import sys

import trio

from grain.edge import Peer, Serving, dial, serve
from grain.edge.connecting.serve import FAR
from grain.edge.errors import ChannelBroken, EdgeError
from grain_testkit.faulty_links import CODEC, Note


def say(*words: object) -> None:
    """One line for the test."""
    print(*words, flush=True)


async def head(address: str, far: float = FAR) -> None:
    """Serve until killed or superseded."""

    async def echo(peer: Peer) -> None:
        while True:
            await peer.channel.send(await peer.channel.receive())

    async def ready(task_status: trio.TaskStatus[Serving]) -> None:
        try:
            await serve(echo, address, codec=CODEC, watch=2.0, far=far, task_status=task_status)
        except EdgeError as e:
            say("ended", type(e).__name__)

    async with trio.open_nursery() as nursery:
        serving = await nursery.start(ready)
        say("serving", serving.epoch)


async def successor(address: str) -> None:
    """Serve in the place of a head elsewhere that does not answer at once."""
    await head(address, far=1.0)


async def worker(address: str) -> None:
    """Talk without end."""
    number = 0
    while True:
        try:
            async with dial(address, role="worker", codec=CODEC) as peer:
                say("joined", peer.transport)
                while True:
                    number += 1
                    await peer.channel.send([(Note("n", number), b"p" * 100)])
                    got: list[object] = []
                    while not got:
                        got += [m.number for m, _ in await peer.channel.receive()]  # type: ignore[attr-defined]
                    say("echo", number, got == [number])
                    await trio.sleep(0.2)
        except (ChannelBroken, trio.EndOfChannel) as e:
            say("lost", str(e) or type(e).__name__)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    trio.run({"head": head, "successor": successor, "worker": worker}[sys.argv[1]], sys.argv[2])
