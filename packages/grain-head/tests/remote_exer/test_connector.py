"""The way to the scheduler that missions share, where the address is wrong."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from grain.edge import serve
from grain.edge.errors import CannotServe
from grain.edge.testing import CODEC
from grain.remote_exer import RemoteExecutor
from grain.resource import Cores
from grain_testkit.head_and_diallers import echo

if TYPE_CHECKING:
    from pathlib import Path


async def nothing() -> None:
    """A tasklet."""


async def test_a_port_of_another_host_ends_the_mission_with_an_error(tmp_path: Path) -> None:
    """A scheduler that a mission starts is on the host of the mission."""
    (tmp_path / "s").mkdir(mode=0o700)
    address = f"tcp://192.0.2.1:4000?edge={tmp_path}/s/meeting"

    with pytest.raises(CannotServe, match="no scheduler answers at tcp://192.0.2.1:4000, and none"):
        async with RemoteExecutor(address) as executor:
            executor.submit(Cores(1), nothing)


async def test_a_wrong_port_beside_another_scheduler_ends_the_mission_with_an_error(
    tmp_path: Path,
) -> None:
    """The scheduler of the Edge file is not joined instead, and the error names it."""
    (tmp_path / "s").mkdir(mode=0o700)
    edge = f"{tmp_path}/s/meeting"
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, echo, f"edge://{edge}", codec=CODEC))
        with pytest.raises(CannotServe, match="serves with the same keys"):
            async with RemoteExecutor(f"tcp://127.0.0.1:1?edge={edge}") as executor:
                executor.submit(Cores(1), nothing)
        nursery.cancel_scope.cancel()
