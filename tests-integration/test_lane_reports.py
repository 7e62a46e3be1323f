"""Calls in lanes, which the scheduler does not see, as users see them: real processes."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.edge import dial
from grain.edge.questions import CODEC, Ask, FoundAnswer, StateAnswer, WhyAnswer, unpack
from grain.head import TaskCancelled
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from grain.worker import Call
from grain_testkit.programs import start, terminated

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from grain_testkit.programs import Process

CALLS = 5000  # brief calls until one is in a lane, at most


async def double(x: int) -> int:
    return 2 * x


async def fail(why: str) -> None:
    raise ValueError(why)


async def wait_for(gate: str) -> None:
    import trio

    while not os.path.exists(gate):  # noqa: PTH110
        await trio.sleep(0.02)


# Not that of `command_site`: the workers import this module, and find none beside it.
def running(*words: str) -> AbstractContextManager[Process]:
    return terminated(start("-m", *words, stderr=subprocess.DEVNULL))


async def ask(address: str, question: Ask, form: Any) -> Any:
    async with dial(address, role="cli", codec=CODEC, patience=60) as peer:
        await peer.channel.send([(question, None)])
        [(_, payload)] = await peer.channel.receive()
        return unpack(payload, form)


async def until(address: str, true: Callable[[StateAnswer], object]) -> StateAnswer:
    """Ask the scheduler for its state until it is so, and return it."""
    while True:
        state: StateAnswer = await ask(address, Ask("state"), StateAnswer)
        if true(state):
            return state
        await trio.sleep(0.05)


class LaneCaller:
    """Calls of a mission one after the other, which come into a lane after some time.

    Attributes:
        done: how many brief ones have ended.
    """

    def __init__(self, executor: RemoteExecutor) -> None:
        self._executor = executor
        self._task = 0
        self._ended = trio.Event()
        self._outcome: Any = None
        self.done = 0

    async def begin(self, function: Any, *args: Any, retry: bool = False) -> int:
        """Begin a call in a lane, after brief ones until there is a lane; return its number.

        Args:
            retry: True if it is tried again when it has failed.
        """
        for _ in range(CALLS):
            if any(traffic.idle for traffic in self._executor._traffic):
                task = self._submit(function, args, retry=retry)
                assert task in self._executor._session.aboard
                return task
            self._submit(double, (1,))
            assert 2 == (await self.end()).unwrap()
            self.done += 1
        raise AssertionError("no lane was opened")

    def _submit(self, function: Any, args: tuple[Any, ...], *, retry: bool = False) -> int:
        self._ended = trio.Event()
        call, deliver = Call(function, args, {}), partial(self._deliver, retry=retry)
        self._task = self._executor.submit_call(Cores(1), call, deliver)
        return self._task

    def _deliver(self, ended: Any, *, retry: bool) -> None:
        if retry:
            self._executor.note_retry(self._task)
        self._outcome = ended
        self._ended.set()

    async def end(self) -> Any:
        """Return the outcome of the call."""
        await self._ended.wait()
        return self._outcome


async def test_calls_in_lanes_are_shown_cancelled_and_counted_as_others_are(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "edge"
    folder.mkdir(mode=0o700)
    address, gate = f"edge://{folder}/meeting", tmp_path / "gate"
    gnaw = running("grain.head", "--address", address, "--grace", "600")
    words = ("--url", address, "--res", '{"Cores": 2}', "--name", "w")
    with gnaw, running("grain.worker", *words), trio.fail_after(300):
        connect = GnawConnector(address, start=False).connect
        async with RemoteExecutor(address, name="opt", connect=connect) as executor:
            calls = LaneCaller(executor)
            for retry in (False, True):
                await calls.begin(fail, "no", retry=retry)
                with pytest.raises(ValueError, match="no"):
                    (await calls.end()).unwrap()

            waits = await calls.begin(wait_for, str(gate))
            shown = [f"opt:{waits}"]
            state = await until(
                address,
                lambda state: shown == state.workers[0].tasks and state.tasks.retried,
            )
            assert (1, 1) == (state.workers[0].running, state.missions[0].running)
            counts = (state.tasks.done, state.tasks.failed, state.tasks.retried)
            assert (calls.done, 1, 1) == counts
            why = await ask(address, Ask("why", "opt", waits), WhyAnswer)
            assert ("running", "w") == (why.state, why.worker)
            assert why.function.endswith("wait_for")

            gate.touch()
            (await calls.end()).unwrap()
            calls.done += 1
            # It lasts for a second, with its cores.
            idle = await until(address, lambda state: not state.tasks.running)
            assert (0, [], 0) == (
                *(idle.workers[0].running, idle.workers[0].tasks),
                idle.tasks.waiting,
            )

            gate.unlink()
            waits = await calls.begin(wait_for, str(gate))
            shown = [f"opt:{waits}"]
            await until(address, lambda state: shown == state.workers[0].tasks)
            found = await ask(address, Ask("cancel", "opt", waits, by="eve"), FoundAnswer)
            assert "running" == found.state
            with pytest.raises(TaskCancelled, match="by eve"):
                (await calls.end()).unwrap()

        [left] = (await until(address, lambda state: state.ended)).ended
        assert (calls.done, 1, 1) == (left.done, left.failed, left.retried)
