"""Helpers of tests of functions in processes: a pool, and the pid of one of its processes."""

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
    """Open a scope for 300 s at most."""
    with trio.fail_after(300):
        async with subprocess_pool_scope(**arguments):
            yield


@subprocify
def process_id() -> int:
    return os.getpid()
