"""Jobs of the queue in a run: submitted, cancelled and listed by the commands that users type."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from tools.chaos.books import QUEUE
from tools.chaos.judge import OVER, QueuedJob

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence

    from tools.chaos.schedule import JobPlan

    Start = Callable[[Sequence[str]], subprocess.Popen[bytes]]

JOB = str(Path(__file__).with_name("job.py"))


class QueuedJobs:
    """The jobs of a run.

    Args:
        folder: of the run.
        start: starts a command line, with its standard output in a pipe.
    """

    def __init__(self, folder: Path, start: Start) -> None:
        self._folder = folder
        self._start = start
        # By number: when the job's cancellation was accepted; None if it was not cancelled.
        self._cancelled: dict[int, float | None] = {}
        self._states: dict[int, str] = {}

    async def live(self, plan: JobPlan) -> None:
        """Submit a job, and cancel it when its plan says so."""
        words = [
            *("submit", "--parsable", "-J", "chaos", "-o", "/dev/null", "-r", "Cores=1"),
            *("--nodes", str(plan.workers), "--"),
            *(sys.executable, "-I", "-S", JOB, f"{self._folder}/books", QUEUE, "0", "-", ""),
            *(str(plan.seconds), "0", "mild", "0"),
        ]
        code, printed = await self._type(words)
        if code:  # it was refused, as on a full disk: nothing was promised
            return
        number = int(printed)
        self._cancelled[number] = None
        if plan.cancel_after is not None:
            await trio.sleep(plan.cancel_after)
            code, _ = await self._type(["cancel", f"queue:{number}"])
            if not code:
                self._cancelled[number] = time.monotonic()

    async def until_over(self, on_end: Callable[[], object]) -> None:
        """Wait until all jobs are final. Whoever lists them has them taken care of.

        Args:
            on_end: called when some have become final. On a slow machine hundreds wait at the end,
                and many of them for the few pairs of workers that reach each other.
        """
        over = 0
        while self._cancelled:
            code, printed = await self._type(["jobs", "--json", "all"])
            if not code:
                self._states = {one["job"]: one["state"] for one in json.loads(printed)}
                before, over = over, sum(self._states.get(n) in OVER for n in self._cancelled)
                if over == len(self._cancelled):
                    return
                if over > before:
                    on_end()
            await trio.sleep(3.0)

    async def stop(self) -> None:
        """End the dispatcher."""
        if self._cancelled:
            await self._type(["queue", "stop"])

    def evidence(self) -> list[QueuedJob]:
        """Return the jobs whose numbers were printed, as they were listed last."""
        return [
            QueuedJob(number, cancelled, self._states.get(number, ""))
            for number, cancelled in self._cancelled.items()
        ]

    async def _type(self, words: Sequence[str]) -> tuple[int, str]:
        """Type a command; return its exit code and what it has printed."""
        command = self._start([sys.executable, "-m", "grain.cli", *words])
        try:
            printed, _ = await trio.to_thread.run_sync(command.communicate, abandon_on_cancel=True)
        finally:
            if command.poll() is None:
                command.kill()
        return command.returncode, printed.decode()
