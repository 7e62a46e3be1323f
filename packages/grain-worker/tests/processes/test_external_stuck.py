"""The error about processes that survive SIGKILL, which a test cannot make."""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING

import pytest
import trio

from grain import GVAR
from grain.resource import Token
from grain.worker.external import ExternalLostError, run_external
from grain.worker.guards.protocol import RUN_LONGEST
from grain.worker.processes.fork_server_client import ForkServerClient
from grain.worker.processes.supervisor_client import SupervisorClient

if TYPE_CHECKING:
    import socket


async def test_processes_that_survive_sigkill_are_reported_instead_of_the_cancellation() -> None:
    """The resources are not free: the pids are named, the supervisor is not used again."""
    with GVAR.scope(Token("own")):
        await run_external(["true"])
        fork_server = ForkServerClient.of_this_run()
        fork_server.idle.pop().close()
        supervisor = SupervisorClient(1000)  # this test plays the process
        fork_server.idle.append(supervisor)

        async def stuck(theirs: socket.socket) -> None:
            await trio.lowlevel.wait_readable(theirs)
            assert theirs.recv(RUN_LONGEST)[:1] == b"r"
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.lowlevel.wait_readable(theirs)
            assert theirs.recv(64) == b"e"
            theirs.send(marshal.dumps(("stuck", [17, 18])))

        theirs = supervisor.theirs.dup()
        with theirs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stuck, theirs)
                with pytest.raises(ExternalLostError, match="processes survive SIGKILL: 17, 18"):
                    await run_external(["sleep", "1000"])

        assert fork_server.idle == []
