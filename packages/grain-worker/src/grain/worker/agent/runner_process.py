"""The agent's handle on its runner: a process of its own, started again when it dies.

    async with RunnerProcess("w1", listener, functions) as runner:
        runner.post([(run, arguments)])        # `RunnerListener.ended` reports how it ended
        runner.post([(Cancel(run.attempt), None)])

Theory of operation. A *runner instance* is one process, with its channel and its runs. When the
channel ends, the process is dead or as good as that, and the next one is started at once; orders
that the dead one did not take wait for the next. The *death* is reported later, when nothing is
left of the dead process and of the programs that it started, since only then are their resources
free. Silence is not death: a tasklet that blocks the event loop is reported as such, and goes on.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import trio

from grain.edge.version import code_at_start, replaced_code
from grain.worker.agent.runner_instance import InstanceState, RunnerInstance
from grain.worker.errors import RunnerUnusable
from grain.worker.messages import Cancel, Ended, EndOfWorker, StartRun
from grain.worker.runner.settings import RunnerSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from grain.edge.messages import Payload
    from grain.worker.agent.first_runner import FirstRunner
    from grain.worker.agent.functions import FunctionStore, Order
    from grain.worker.agent.listener import RunnerListener
    from grain.worker.messages import Attempt

FAILURES = 3
"""Runners in a row that may die without having had a run."""

_NOTE = 10.0  # seconds that a death is kept back, for receipts on a disk that does not answer


class _State(enum.Enum):
    """The states of a handle, by the consequence of a runner's death."""

    SERVING = enum.auto()
    """Another runner is started after a death."""
    LEAVING = enum.auto()
    """The runner that serves is the last one."""
    OVER = enum.auto()
    """No runner is left."""


class RunnerProcess:
    """A runner in a process of its own; an async context manager.

    Entering waits until the first runner is ready. Leaving cancels what runs, and returns when
    nothing is left of it.

    Args:
        name: the worker's name, which tasklets see as ``GVAR.instance``.
        grace: seconds that leaving waits for runs, and for the context to be left. After a crash,
            seconds between SIGTERM and SIGKILL for programs that are left.
        replaced: as `grain.edge.version.replaced_code`; then no other runner is started.
        first: becomes the first runner, which is faster than to start one; None to start it.

    Raises:
        RunnerUnusable: on entering: no runner can be started, mostly since the context fails.
    """

    def __init__(
        self,
        name: str,
        listener: RunnerListener,
        functions: FunctionStore,
        grace: float = 10.0,
        settings: RunnerSettings = RunnerSettings(),  # noqa: B008 - it is frozen
        replaced: Callable[[], str] = replaced_code,
        first: FirstRunner | None = None,
    ) -> None:
        code_at_start()
        self._first = first
        self.name = name
        self._replaced = replaced
        self._obsolete = False  # True if this process runs code that was replaced
        self._settings = settings
        self._listener = listener
        self._functions = functions
        self._grace = grace
        self._state = _State.SERVING
        self._instance: RunnerInstance | None = None
        self._end = math.inf, False  # when runs are cancelled, as of `announce_end`
        # Runs that wait for the next instance.
        self._waiting: deque[tuple[StartRun, Payload]] = deque()
        self._changed = trio.lowlevel.ParkingLot()  # `_leave` looks again at what is left
        self._over = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._stack: AsyncExitStack | None = None

    # ---- orders

    @property
    def ready(self) -> bool:
        """True if there is a runner at the moment; otherwise runs wait for the next."""
        return self._instance is not None and self._instance.state is InstanceState.READY

    @property
    def runs(self) -> tuple[Attempt, ...]:
        """The runs of the runner, and the runs that wait for the next."""
        running = tuple(self._instance.runs) if self._instance is not None else ()
        return running + tuple(run.attempt for run, _ in self._waiting)

    def post(self, orders: Sequence[Order]) -> None:
        """Carry out orders in sequence, now or as soon as there is a runner.

        Args:
            orders: runs, each with its arguments; cancellations; and functions to forget. The
                resources of a run are plain data.

        Raises:
            LocalProtocolError: the payload is none that can travel.
        """
        accepted: list[Order] = []
        for order in orders:
            message = order[0]
            if isinstance(message, Cancel) and self._withdraw(message):
                continue
            accepted.append(order)
        if accepted and (self._instance is None or not self._instance.post(accepted)):
            for message, payload in accepted:
                if isinstance(message, StartRun) and self._obsolete:
                    self._report_unrun(Ended(message.attempt, "returned"))
                elif isinstance(message, StartRun):
                    self._waiting.append((message, payload))
                elif isinstance(message, Cancel):
                    self._withdraw(message)
                # The next runner begins without functions, so it has none to forget.

    def announce_end(self, at: float, *, now: bool) -> None:
        """Tell the runner, and each later one, when its runs are cancelled, if that is news.

        Args:
            at: by trio's clock; inf if that is open.
            now: as of `EndOfWorker`.
        """
        if (at, now) != self._end:
            self._end = at, now
            self._tell_end()

    def _tell_end(self) -> None:
        at, now = self._end
        if self._instance is not None and (now or at < math.inf):
            left = None if at == math.inf else max(0.0, at - trio.current_time())
            self._instance.post([(EndOfWorker(left, now), None)])

    def kill(self) -> None:
        """End the runner and all that it started, now and for good; its death is reported."""
        self._leave_soon()
        if self._instance is not None:
            self._instance.kill()

    def leave_within(self, seconds: float) -> None:
        """Leave it no more time than that for what is left when it ends."""
        self._grace = min(self._grace, seconds)

    def _withdraw(self, cancel: Cancel) -> bool:
        """Take out a run that waits for the next runner; return False if it does not."""
        for waiting in self._waiting:
            if waiting[0].attempt == cancel.attempt:
                self._waiting.remove(waiting)
                status = "returned" if cancel.waiting else "cancelled"
                self._report_unrun(Ended(cancel.attempt, status))
                return True
        return False

    def _report_unrun(self, ended: Ended) -> None:
        """Report a run that has not begun; later, as no answer comes before the order is given."""
        assert self._nursery is not None
        self._nursery.start_soon(self._report_end, ended)

    async def _report_end(self, ended: Ended) -> None:
        self._listener.ended([(ended, None)])

    # ---- lifecycle

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

    def _leave_soon(self) -> None:
        if self._state is _State.SERVING:
            self._state = _State.LEAVING

    async def _leave(self) -> None:
        assert self._stack is not None
        self._leave_soon()
        with trio.CancelScope(shield=True):
            with trio.move_on_after(self._grace):
                self.post([(Cancel(attempt), None) for attempt in self.runs])
                while self.runs and self._state is not _State.OVER:
                    await self._changed.park()
                if self._instance is not None:
                    await self._instance.close()
                await self._over.wait()
            if self._instance is not None:
                self._instance.kill()
            await self._over.wait()
        # The body's exception is not given to the nursery, which would wrap it in a group.
        await self._stack.aclose()

    async def _supervise(self, task_status: trio.TaskStatus[str]) -> None:
        """Start one instance after the other, until the handle is left or none can serve.

        Its start is over when the first instance is ready, with "", or has failed, with the reason.
        """
        first = True

        def on_ready() -> None:
            nonlocal first
            if first:
                first = False
                task_status.started("")
            self._tell_end()
            waiting, self._waiting = self._waiting, deque()
            if waiting:
                self.post(waiting)

        failures = 0
        try:
            async with trio.open_nursery() as burials:
                while self._state is _State.SERVING and not self._obsolete:
                    failure = await self._serve_once(on_ready, burials)
                    failures = failures + 1 if failure else 0
                    if failure and first:
                        first = False
                        task_status.started(failure)
                        break
                    if self._obsolete:
                        break
                    if failures == FAILURES:
                        self._listener.unusable(failure)
                        break
                    if failures and self._state is _State.SERVING:
                        await trio.sleep(2.0 ** (failures - 1))
        finally:
            self._state = _State.OVER
            self._over.set()
            self._changed.unpark_all()  # runs may be left without a report, if this was cancelled

    async def _serve_once(self, on_ready: Callable[[], None], burials: trio.Nursery) -> str:
        """Serve with one instance until its channel ends; return why it was of no use, if so."""
        feed = self._functions.feed()
        first, self._first = self._first, None
        instance = RunnerInstance(
            self.name, self._grace, self._listener, feed, self._settings, self._replaced, first
        )
        self._instance = instance
        try:
            await instance.live(on_ready, self._changed.unpark_all)
        except OSError as error:
            return f"no process can be started: {error}"
        except BaseException:
            with trio.CancelScope(shield=True):
                instance.kill()
                await instance.bury(leaving=True)
            raise
        # Before its death is reported: what it ran is not to blame for code that was replaced.
        await self._look_at_code()
        if instance.served:
            burials.start_soon(self._bury, instance)
            return ""
        leaving = self._state is not _State.SERVING
        death = await instance.bury(leaving=leaving or bool(instance.failure))
        if self._state is not _State.SERVING:
            return ""
        return instance.failure or f"{death}, before it had a run"

    async def _look_at_code(self) -> None:
        """Report it if the next runner would run other code; then return the runs that wait."""
        if self._state is not _State.SERVING or self._obsolete:
            return
        if why := await trio.to_thread.run_sync(self._replaced):
            self._obsolete = True
            if not self._listener.replaced(why):
                self._listener.unusable(why)
            for run, _ in tuple(self._waiting):
                self._withdraw(Cancel(run.attempt, waiting=True))

    async def _bury(self, dead: RunnerInstance) -> None:
        death = await dead.bury(leaving=self._state is not _State.SERVING)
        if death.jobs:
            from grain.worker.jobs.lost import note_lost  # the agent needs it seldom

            with trio.move_on_after(_NOTE):
                await note_lost(death.jobs, str(death))
        if death.runs or self._state is _State.SERVING:
            self._listener.died(death)
        # After the report: leaving waits for the runs of the last process until their loss is
        # reported.
        dead.runs.clear()
        self._changed.unpark_all()
