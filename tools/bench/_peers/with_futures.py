"""Executors of `concurrent.futures`: the process pool of Python, and executorlib."""

from __future__ import annotations

import asyncio
import importlib
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

from tools.bench._peers import work
from tools.bench._peers.measures import Peer

if TYPE_CHECKING:
    from tools.bench._peers.measures import Measure, Quantities


class Futures(Peer):
    """An executor with so many processes."""

    def __init__(self, executor: Executor, workers: int) -> None:
        self.workers = workers
        self._executor = executor

    def begin(self, name: str, *args: Any, count: int = 1) -> list[Future[Any]]:
        """Submit calls."""
        fn = getattr(work, name)
        return [self._executor.submit(fn, *args) for _ in range(count)]

    async def end(self, begun: list[Future[Any]]) -> None:
        """Wait for all results."""
        for future in begun:
            future.result()

    async def sleep(self, seconds: float) -> None:
        """Sleep: the executor has threads of its own."""
        time.sleep(seconds)  # noqa: ASYNC251 - nothing else runs in this loop


def run(tool: str, workers: int, measure: Measure) -> Quantities:
    """Measure with an executor, and end it."""
    executor: Executor
    if tool == "processes":
        executor = ProcessPoolExecutor(workers)
    else:
        executorlib = importlib.import_module("executorlib")
        # Its fastest way: otherwise each call starts a process, or waits up to 10 ms for the thread
        # that resolves arguments. The name of this host need not have an address.
        executor = executorlib.SingleNodeExecutor(
            max_workers=workers,
            block_allocation=True,
            disable_dependencies=True,
            hostname_localhost=True,
        )
    try:
        return asyncio.run(measure(Futures(executor, workers)))
    finally:
        executor.shutdown(cancel_futures=True)
