"""A head was killed and left its Edge file: who dials meanwhile."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from grain.edge import Peer, dial, serve
from grain.edge.testing import CODEC

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
import sys, trio
from functools import partial
from grain.edge import serve
from grain.edge.testing import CODEC

async def main():
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, trio.sleep_forever, sys.argv[1], codec=CODEC))
        print("serving", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def stay(peer: Peer) -> None:
    await peer.channel.receive()


@pytest.fixture
def dead(tmp_path: Path) -> str:
    """The address of a head that was killed."""
    (tmp_path / "shared").mkdir(mode=0o700)
    address = f"edge://{tmp_path}/shared/meeting"
    words = [sys.executable, "-c", HEAD, address]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        process.kill()
    return address


async def test_successor_while_the_dead_head_is_tried(dead: str) -> None:
    """Ways to a dead head may take a minute; a successor is reached as soon as it is there."""
    reached = trio.Event()

    async def early() -> None:
        async with dial(dead, role="worker", codec=CODEC, patience=60.0):
            reached.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(early)
        await trio.sleep(1.0)  # by now the quick ways have failed
        assert not reached.is_set()
        await nursery.start(partial(serve, stay, dead, codec=CODEC))
        with trio.fail_after(10):
            await reached.wait()
        nursery.cancel_scope.cancel()
