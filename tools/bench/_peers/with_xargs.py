"""xargs, which runs programs and nothing else."""

from __future__ import annotations

import asyncio
import subprocess
import time
from typing import TYPE_CHECKING, Any

from tools.bench._peers import work
from tools.bench._peers.measures import Peer

if TYPE_CHECKING:
    from tools.bench._peers.measures import Measure, Quantities


class Xargs(Peer):
    """xargs with so many programs at a time."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def begin(self, name: str, *args: Any, count: int = 1) -> None:
        """Run programs."""
        if name != "true" or args:
            raise ValueError(f"xargs cannot run {name}")
        words = ["xargs", "-P", str(self.workers), "-n", "1", work.TRUE]
        subprocess.run(words, input=b"x\n" * count, check=True)

    async def end(self, begun: None) -> None:
        """Return: they have ended."""

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)  # noqa: ASYNC251 - nothing else runs in this loop


def run(_: str, workers: int, measure: Measure) -> Quantities:
    """Measure."""
    return asyncio.run(measure(Xargs(workers)))
