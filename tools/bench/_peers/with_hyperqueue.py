"""HyperQueue, by its interface for Python, which has server and workers in the calling process.

It runs programs. A function of Python costs an interpreter each time, so a call that does nothing
is a program that does nothing. The client looks once a second whether a job has ended; so the last
program of a job makes a file, for which this process looks all the time.
"""

from __future__ import annotations

import asyncio
import importlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.bench._peers import work
from tools.bench._peers.measures import Peer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.bench._peers.measures import Measure, Quantities

HOLD = f"""
mktemp -q "$0/XXXXXX" >/dev/null
until [ -e "$0/{work.OPEN}" ]; do sleep 0.05; done
touch "$1"
"""


class HyperQueue(Peer):
    """A cluster in this process, and its client."""

    def __init__(self, module: Any, client: Any, workers: int, folder: Path) -> None:
        self.workers = workers
        self._folder = folder
        self._jobs = 0
        self._module = module
        self._client = client

    def begin(self, name: str, *args: Any, count: int = 1) -> Path:
        """Submit a job of so many programs; return the file that the last one makes."""
        self._jobs += 1
        made = self._folder / str(self._jobs)
        job = self._module.Job()
        others = [self._add(job, work.TRUE) for _ in range(count - 1)]
        if name == "hold":
            self._add(job, "sh", "-c", HOLD, *args, str(made))
        else:
            self._add(job, "touch", str(made), after=others)
        self._client.submit(job)
        return made

    def enqueue(self, count: int) -> None:
        """Submit a job without a last program that waits for the others."""
        job = self._module.Job()
        for _ in range(count):
            self._add(job, work.TRUE)
        self._client.submit(job)

    def _add(self, job: Any, *command: str, after: Sequence[Any] = ()) -> Any:
        return job.program([*command], stdout=None, stderr=None, deps=after)

    async def end(self, begun: Path) -> None:
        """Wait for a job."""
        while not begun.exists():  # noqa: ASYNC240
            time.sleep(0.0002)  # noqa: ASYNC251 - nothing else runs in this loop

    async def sleep(self, seconds: float) -> None:
        """Sleep: the cluster has threads of its own."""
        time.sleep(seconds)  # noqa: ASYNC251 - nothing else runs in this loop


def run(tool: str, workers: int, measure: Measure) -> Quantities:
    """Measure with a cluster: one worker with two cores, or many with one."""
    module = importlib.import_module(tool)
    shape = module.cluster.WorkerConfig
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as made,
        module.LocalCluster(folder) as cluster,
    ):
        if workers == 2:
            cluster.start_worker(shape(cores=2))
        else:
            for _ in range(workers):
                cluster.start_worker(shape(cores=1))
        return asyncio.run(measure(HyperQueue(module, cluster.client(), workers, Path(made))))
