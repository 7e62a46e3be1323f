"""The caller's end of a supervisor; these tests play the supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from grain.worker.processes.supervisor_client import SupervisorClient

if TYPE_CHECKING:
    from grain.worker.guards.protocol import ProgramRequest


@pytest.mark.parametrize(
    ("read", "ordered", "never_ran"),
    [(False, False, True), (True, False, False), (True, True, False), (False, True, False)],
)
async def test_a_request_that_a_dead_supervisor_has_not_read_never_ran(
    read: bool, ordered: bool, never_ran: bool
) -> None:
    """The kernel tells that it left something unread; that may also be the order to end it."""
    supervisor = SupervisorClient(1)
    try:
        supervisor.ask(cast("ProgramRequest", {"argv": [b"true"], "env": {}, "cpus": None}), None)
        if read:
            assert supervisor.theirs.recv(65536)[:1] == b"r"
        if ordered:
            supervisor.cancel(hurry=False)
        supervisor.theirs.close()
        await supervisor.wait()

        assert supervisor.report() is None
        assert never_ran == supervisor.never_ran
    finally:
        supervisor.close()
