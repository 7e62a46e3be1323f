"""Calls whose functions fork, and whose children return from them as well."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import outcome
import pytest
import trio

from grain import GVAR
from grain.resource import ZERO, Cores
from grain.worker.blocking import in_thread
from grain.worker.call import Call, capture
from grain.worker.external import run_external

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_ENDED = 99
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def fork(ending: str) -> int:
    """Fork; the child returns, raises or ends by itself."""
    pid = os.fork()
    if pid:
        return pid
    if ending == "raises":
        raise ValueError("in the copy")
    if ending == "exits":
        raise SystemExit(5)
    if ending == "ends":
        os._exit(6)
    return 0


def status_of(pid: int) -> int:
    """Return the exit status of a child."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def fork_in_loop(ending: str) -> int:
    return fork(ending)


async def fork_and_wait(ending: str) -> int:
    pid = fork(ending)
    await trio.lowlevel.checkpoint()
    return pid


FUNCTIONS: list[Callable[..., Any]] = [fork_in_loop, fork_and_wait, in_thread(fork)]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=["async", "async that waits", "in a thread"])
@pytest.mark.parametrize(
    ("ending", "status"), [("returns", 0), ("raises", 1), ("exits", 5), ("ends", 6)]
)
@pytest.mark.parametrize("res", [ZERO, Cores([0])])
async def test_the_outcome_is_that_of_the_original(
    fn: Callable[..., Any], ending: str, status: int, res: Any
) -> None:
    process = os.getpid()
    with GVAR.scope(res, "w1"):
        ended = await capture(Call(fn, (ending,), {}))
    if os.getpid() != process:
        os._exit(NOT_ENDED)
    assert isinstance(ended, outcome.Value)
    assert ended.value > 0
    assert status == status_of(ended.value)


async def test_a_copy_runs_no_program_and_the_helpers_serve_the_original() -> None:
    await run_external(["true"])  # its helpers are there from now on
    process = os.getpid()
    pid = os.fork()
    if not pid:
        await run_external(["false"])
        os._exit(NOT_ENDED)
    assert process == os.getpid()
    assert 0 == status_of(pid)
    assert 0 == (await run_external(["true"])).returncode
