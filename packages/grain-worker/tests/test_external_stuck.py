"""What the call says of processes that survive SIGKILL, which a test cannot make."""

from __future__ import annotations

import marshal
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
import trio

from grain import GVAR
from grain.worker.external import ExternalLostError, run_external
from grain.worker.processes.fork_server_client import Keeper, Shepherd

if TYPE_CHECKING:
    import socket

    from grain.resource import Resource


async def test_they_are_reported_instead_of_the_cancellation() -> None:
    """Nobody may take the resources for free: the pids are named, the keeper is not used again."""
    with GVAR.scope(cast("Resource", SimpleNamespace())):
        await run_external(["true"])
        shepherd = Shepherd.of_this_run()
        shepherd.idle.pop().close()
        keeper = Keeper(1000)  # this test is what answers it
        shepherd.idle.append(keeper)

        async def stuck(theirs: socket.socket) -> None:
            await trio.lowlevel.wait_readable(theirs)
            assert theirs.recv(64) == b"r"
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.lowlevel.wait_readable(theirs)
            assert theirs.recv(64) == b"c"
            theirs.send(marshal.dumps(("stuck", [17, 18])))

        theirs = keeper.theirs.dup()
        with theirs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stuck, theirs)
                with pytest.raises(ExternalLostError, match="processes survive SIGKILL: 17, 18"):
                    await run_external(["sleep", "1000"])

        assert shepherd.idle == []
