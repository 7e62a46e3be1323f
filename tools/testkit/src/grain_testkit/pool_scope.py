"""A pool of interpreter processes for tests, and the pid of one of them."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from grain.subproc import subprocess_pool_scope, subprocify

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@asynccontextmanager
async def pool(**arguments: Any) -> AsyncGenerator[None]:
    """A scope; no test waits for ever."""
    with trio.fail_after(300):
        async with subprocess_pool_scope(**arguments):
            yield


@subprocify
def where() -> int:
    return os.getpid()
