"""The agent's handle on its runner: a process of its own, started again when it dies.

    async with RunnerProcess("w1", reports) as runner:
        runner.start(run, (function, arguments))    # `Reports.ended` tells how it ended
        runner.cancel(task, attempt)

Theory of operation. An *incarnation* is one process, with its channel and its runs. When the
channel ends the process is dead, or as good as that, and the next one is started at once; what it
had not taken yet is given to the next. The *crash* is reported later, when nothing is left of the
dead one and of the programs that it started, since only then are their resources free. Silence is
no death: a tasklet that blocks the event loop is reported as such, and left alone.
"""

from __future__ import annotations

from collections import deque
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import trio

from grain.worker.agent.runner_instance import Incarnation
from grain.worker.errors import RunnerUnusable
from grain.worker.messages import Cancel, Ended, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from grain.edge.messages import Payload
    from grain.worker.agent.listener import Reports

    _Order = tuple[Run, tuple[Payload, Payload]]

FAILURES = 3
"""Runners in a row that may die without having had a run."""


class RunnerProcess:
    """A runner in a process of its own; an async context manager.

    Entering waits until the first runner is ready. Leaving cancels what runs, and returns when
    nothing is left of it.

    Args:
        name: the worker's name, which tasklets see as ``GVAR.instance``.
        reports: who is told what becomes of runs.
        context: the context module, a path or a name; "" for none.
        grace: seconds that leaving waits for runs, and for the context to be left. After a crash,
            seconds between SIGTERM and SIGKILL for programs that are left.

    Raises:
        RunnerUnusable: on entering: no runner can be had, mostly since the context fails.
    """

    def __init__(self, name: str, reports: Reports, context: str = "", grace: float = 10.0) -> None:
        self.name = name
        self._reports = reports
        self._context = context
        self._grace = grace
        self._now: Incarnation | None = None
        self._waiting: deque[_Order] = deque()
        self._leaving = False
        self._changed = trio.Event()
        self._gone = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._stack: AsyncExitStack | None = None

    # ---- what the agent asks for

    @property
    def ready(self) -> bool:
        """Whether there is a runner at the moment; runs wait meanwhile."""
        return self._now is not None and self._now.ready

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """Task and attempt of what the runner has, and of what waits for the next one."""
        running = tuple(self._now.runs.items()) if self._now is not None else ()
        return running + tuple((run.task, run.attempt) for run, _ in self._waiting)

    def drop(self, digests: tuple[bytes, ...]) -> None:
        """Forget these functions; no more runs of them will come."""
        if self._now is not None:
            self._now.drop(digests)

    def start(self, run: Run, call: tuple[Payload, Payload]) -> None:
        """Start a run, now or as soon as there is a runner; `Reports` tells how it ended.

        Args:
            run: with its resources as plain data and the digest of its function.
            call: its function and its arguments, as `grain.worker.payload` makes them. The
                function is passed on once to each runner process.

        Raises:
            LocalProtocolError: the payload is none that can travel.
        """
        self.start_all([(run, call)])

    def start_all(self, runs: Sequence[_Order]) -> None:
        """As `start`, for several that come together."""
        runs = self._without_orphans(runs)
        if self._now is None or not self._now.start(runs):
            self._waiting.extend(runs)

    def _without_orphans(self, runs: Sequence[_Order]) -> Sequence[_Order]:
        """Return runs that wait in line behind one that died with its process.

        What that one held is free when nothing of it is left, and it is not known here when.
        """
        if self._now is None or not self._now.ready or not any(run.chain for run, _ in runs):
            return runs
        first = min([self._now.first, *(run.task for run, _ in runs if not run.chain)])
        for run, _ in runs:
            if 0 < run.chain < first:
                self._end_unrun(Ended(run.task, run.attempt, "returned"))
        return [order for order in runs if not 0 < order[0].chain < first]

    def cancel(self, task: int, attempt: int, *, waiting: bool = False) -> None:
        """Cancel a run; `Reports.ended` tells when nothing of it is left.

        Args:
            task: which task.
            attempt: which of its runs.
            waiting: only if it has not begun, but waits in line behind another.
        """
        for entry in self._waiting:
            if (entry[0].task, entry[0].attempt) == (task, attempt):
                self._waiting.remove(entry)
                self._end_unrun(Ended(task, attempt, "returned" if waiting else "cancelled"))
                return
        if self._now is not None and self._now.runs.get(task) == attempt:
            self._now.post([(Cancel(task, attempt, waiting), None)])

    def kill(self) -> None:
        """End the runner and all that it started, now and for good; `Reports` tells of its runs."""
        self._leaving = True
        if self._now is not None:
            self._now.kill()

    def leave_within(self, seconds: float) -> None:
        """Leave it no more time than that for what is left when it ends."""
        self._grace = min(self._grace, seconds)

    def _end_unrun(self, ended: Ended) -> None:
        """Later: a caller need not reckon with the answer before it has asked."""
        assert self._nursery is not None
        self._nursery.start_soon(self._never_ran, ended)

    async def _never_ran(self, ended: Ended) -> None:
        self._reports.ended([(ended, None)])

    # ---- life

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        try:
            why = await self._nursery.start(self._supervise)
        except BaseException:
            await self._leave()
            raise
        if why:
            await self._leave()
            raise RunnerUnusable(f"no runner for the worker {self.name}: {why}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._leave()

    async def _leave(self) -> None:
        assert self._nursery is not None
        assert self._stack is not None
        self._leaving = True
        with trio.CancelScope(shield=True):
            with trio.move_on_after(self._grace):
                for task, attempt in self.runs:
                    self.cancel(task, attempt)
                while self.runs and not self._gone.is_set():
                    await self._changed.wait()
                if self._now is not None:
                    await self._now.close()
                await self._gone.wait()
            if self._now is not None:
                self._now.kill()
            await self._gone.wait()
        # The body's exception is not given to the nursery, which would wrap it in a group.
        await self._stack.aclose()

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _supervise(self, task_status: trio.TaskStatus[str]) -> None:
        """One incarnation after the other."""
        waited_for = True

        def tell(why: str) -> None:
            nonlocal waited_for
            if waited_for:
                waited_for = False
                task_status.started(why)
            elif why:
                self._reports.unusable(why)

        def on_ready() -> None:
            waiting, self._waiting = self._waiting, deque()
            if waiting:
                self.start_all(waiting)
            tell("")

        failures = 0
        try:
            async with trio.open_nursery() as burials:
                while not self._leaving:
                    why = await self._incarnate(on_ready, burials)
                    failures = failures + 1 if why else 0
                    if why and (waited_for or failures == FAILURES):
                        tell(why)
                        break
                    if failures and not self._leaving:
                        await trio.sleep(2.0 ** (failures - 1))
        finally:
            self._gone.set()
            self._tell_change()  # who was cancelled has runs that nobody will report

    async def _incarnate(self, on_ready: Callable[[], None], burials: trio.Nursery) -> str:
        """One runner until its channel ends; why it was of no use, "" if it was."""
        now = self._now = Incarnation(self.name, self._context, self._grace, self._reports)
        try:
            await now.live(on_ready, self._tell_change)
        except OSError as error:
            return f"no process can be started: {error}"
        except BaseException:
            with trio.CancelScope(shield=True):
                now.kill()
                await now.bury(leaving=True)
            raise
        if now.served:
            burials.start_soon(self._bury, now)
            return ""
        crash = await now.bury(leaving=self._leaving or bool(now.why))
        return "" if self._leaving else now.why or f"{crash}, before it had a run"

    async def _bury(self, dead: Incarnation) -> None:
        crash = await dead.bury(leaving=self._leaving)
        if crash.runs or not self._leaving:
            self._reports.crashed(crash)
        dead.runs.clear()
        self._tell_change()
