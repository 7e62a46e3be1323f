"""The agent knows whether its worker is being ended, by which a run may have failed."""

from __future__ import annotations

import math
import os
import shutil
import signal
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import grain
from grain.resource import Cores
from grain.worker.agent.agent import Agent
from grain.worker.agent.lifecycle import LATE_SIGNAL, Lifecycle, Times
from grain.worker.agent.session import WorkerSession
from grain.worker.messages import ArrivedCount, Draining, InventoryEnd, Leaving
from grain.worker.node.signals import on_signals, signals_handled
from grain_testkit.head_by_hand import code, head, worker
from grain_testkit.local_processes import read_pid, stop

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock


@pytest.fixture
def agent() -> Agent:
    session = WorkerSession("id", "w", "n17", Cores(1), 0.0)
    lifecycle = Lifecycle(Times(term=10.0), math.inf, 0.0)
    return Agent(session, lifecycle, dial=lambda: None)  # type: ignore[arg-type, return-value]


async def answer(agent: Agent, number: int, *, late: int = 0) -> tuple[bool, float]:
    """Ask an agent, which gets a signal after that; return the answer, and how long it took."""
    answers: list[bool] = []

    async def ask() -> None:
        answers.append(await agent.is_ending(number))

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        if late:
            agent.on_signal(late)
    return answers[0], trio.current_time() - began


@pytest.mark.parametrize("late", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR2])
async def test_a_program_may_have_the_signal_that_ends_its_worker_before_the_agent(
    agent: Agent, autojump_clock: MockClock, number: int, late: int
) -> None:
    assert (True, 0.0) == await answer(agent, number, late=late)
    # From then on there is nothing to wait for.
    assert (True, 0.0) == await answer(agent, 0)


@pytest.mark.parametrize(
    ("number", "late", "expected"),
    [
        (signal.SIGTERM, 0, (False, LATE_SIGNAL)),
        (0, 0, (False, 0.0)),
        # A warning for all processes of a job explains its own signal only.
        (signal.SIGUSR1, signal.SIGUSR1, (True, 0.0)),
        (signal.SIGUSR2, signal.SIGUSR2, (True, 0.0)),
        (signal.SIGTERM, signal.SIGUSR1, (False, LATE_SIGNAL)),
    ],
)
async def test_a_program_that_fails_by_itself_is_known_soon(
    agent: Agent,
    autojump_clock: MockClock,
    number: int,
    late: int,
    expected: tuple[bool, float],
) -> None:
    ends, seconds = await answer(agent, number, late=late)
    assert ends == expected[0]
    assert seconds == pytest.approx(expected[1])


async def test_signals_that_have_come_are_taken_before_an_answer() -> None:
    taken: list[int] = []
    with on_signals(taken.append, signal.SIGTERM, signal.SIGUSR2):
        os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGTERM)
        await signals_handled()
        assert [signal.SIGUSR2, signal.SIGTERM] == taken


async def program(path: str) -> None:
    from grain.worker.external import run_external

    await run_external(["sh", "-c", f"echo $$ > '{path}'; exec sleep 1000"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_run_whose_program_was_ended_before_its_worker_is_handed_back(
    tmp_path: Path, number: int
) -> None:
    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(InventoryEnd)
        run = await h.lease(program, str(tmp_path / "pid"))
        pid = await read_pid(tmp_path / "pid")
        # Its signal waits, and comes before the question that has come meanwhile.
        stop(process.pid)
        os.kill(pid, number)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        assert ("returned", None) == await h.settled(run)
        assert 0 == await code(process)


async def test_a_program_that_a_user_ends_has_failed(tmp_path: Path) -> None:
    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(InventoryEnd)
        run = await h.lease(program, str(tmp_path / "pid"))
        os.kill(await read_pid(tmp_path / "pid"), signal.SIGTERM)
        status, _ = await h.settled(run)
        assert "error" == status
        process.send_signal(signal.SIGTERM)
        assert 0 == await code(process)


def copied(folder: Path) -> Path:
    """Copy the code of Grain that is installed, as in another environment; return its parent."""
    compiled = shutil.ignore_patterns("__pycache__")
    for place in grain.__path__:
        shutil.copytree(place, folder / "grain", dirs_exist_ok=True, ignore=compiled)
    return folder


@pytest.mark.parametrize("first", ["a crash", "a program", "a module"])
async def test_a_worker_whose_grain_is_replaced_lets_runs_end_and_leaves_without_a_crash(
    tmp_path: Path, first: str
) -> None:
    """Whatever it has to start next: another runner, helpers of a program, a module of Grain's."""

    async def computes(path: str) -> None:
        from pathlib import Path

        import trio

        while not Path(path).exists():
            await trio.sleep(0.01)

    async def begins(what: str) -> None:
        import os

        if what == "a crash":
            os._exit(1)
        elif what == "a module":
            raise ModuleNotFoundError("grain.subproc")  # what Python raises where it is gone
        else:
            from grain.worker.external import run_external

            await run_external(["true"])

    site = copied(tmp_path / "site") / "grain"
    words = ("--url", f"unix://{tmp_path}/socket", "--res", '{"Cores": 2}')
    env = {"PYTHONPATH": str(site.parent)}
    async with head(tmp_path) as h, worker(*words, env=env) as process:
        await h.get(InventoryEnd)
        slow = await h.lease(computes, str(tmp_path / "go"))
        await h.get(ArrivedCount)
        # As pip does: for a moment nothing can be started at all.
        for part in ("worker/agent", "worker/messages.py", "subproc"):
            (site / part).rename(site / f"{part}~")

        run = await h.lease(begins, first)
        assert ("returned", None) == await h.settled(run)
        await h.get(Draining)
        (tmp_path / "go").touch()
        # What ran in the same process went with it, and is not to blame either.
        assert ("returned" if first == "a crash" else "value") == (await h.settled(slow))[0]
        leaving, _ = await h.get(Leaving)
        assert "Grain was" in leaving.why
        assert 0 == await code(process)
