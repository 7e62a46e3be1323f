"""The end of the runner's process with its agent, and by nothing else: no process of it is left."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from grain.worker.agent.functions import FunctionStore
from grain.worker.agent.runner_instance import RunnerInstance
from grain.worker.runner.settings import RunnerSettings
from grain_testkit.local_processes import (
    alive,
    descendants,
    descendants_of,
    read_pid,
    wait_for_file,
)
from grain_testkit.runner_station import Witness, station


async def test_leaving_ends_a_blocked_runner_after_the_grace(tmp_path: Path) -> None:
    async def blocks(path: str) -> None:
        import pathlib
        import time

        pathlib.Path(path).touch()
        time.sleep(1000)  # noqa: ASYNC251

    async def fine() -> None: ...

    async with station(grace=1) as s:
        await s.result(fine)
        number = s.start(blocks, str(tmp_path / "begun"))
        await wait_for_file(tmp_path / "begun")

    assert ((1, number),) == s.witness.deaths[0].runs


async def test_leaving_cancels_and_reports_each_run() -> None:
    async def sleeps() -> None:
        await trio.sleep_forever()

    async def fine() -> None: ...

    async with station() as s:
        numbers = [s.start(sleeps) for _ in range(10)]
        await s.result(fine)

    assert {"cancelled"} == {s.witness.outcomes[n][0].status for n in numbers}
    assert [] == s.witness.deaths


async def test_one_that_is_left_before_its_process_is_there_leaves_by_itself() -> None:
    """Its grace, of minutes for a job, is not waited for."""
    instance = RunnerInstance(
        "w1", 600.0, Witness(), FunctionStore().feed(), RunnerSettings(), lambda: ""
    )
    await instance.close()
    with trio.fail_after(120):
        await instance.live(lambda: None, lambda: None)
        death = await instance.bury(leaving=True)
    assert 0 == death.end.returncode


async def test_one_that_is_killed_before_its_process_is_there_ends_at_once() -> None:
    instance = RunnerInstance(
        "w1", 600.0, Witness(), FunctionStore().feed(), RunnerSettings(), lambda: ""
    )
    instance.kill()
    with trio.fail_after(120):
        await instance.live(lambda: None, lambda: None)
        death = await instance.bury(leaving=True)
    assert (death.end.returncode or 0) < 0


async def test_a_cancelled_handle_leaves_no_process_behind() -> None:
    """A scope around it is enough; while it starts, too. The grace is not spent on ended ones."""

    async def sleeps() -> None:
        await trio.sleep_forever()

    before = set(descendants())
    for seconds in (0.0, 0.02, 0.1, 2.0):
        with trio.move_on_after(seconds):
            async with station(grace=1000) as s:
                s.start(sleeps)
                await trio.sleep_forever()
        assert set(descendants()) <= before


async def test_the_runner_prefers_to_be_killed_and_ignores_the_batch_systems_signals() -> None:
    """SIGTERM to every process of a job leaves the decision to the agent."""

    async def adjusted() -> tuple[int, int]:
        import os
        import signal
        from pathlib import Path

        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
            os.kill(os.getpid(), number)
        return int(Path("/proc/self/oom_score_adj").read_text()), os.getpid()

    async with station() as s:
        score, first = await s.result(adjusted)
        _, second = await s.result(adjusted)

    mine = int(Path("/proc/self/oom_score_adj").read_text())
    assert min(1000, mine + 300) == score
    assert first == second


AGENT = """
import trio
import grain_testkit.runner_station as t
async def program(path):
    import subprocess
    from grain.worker.external import run_external
    subprocess.Popen(["setsid", "sleep", "1000"])
    await run_external(["sh", "-c", "echo $$ > '" + path + "'; exec sleep 1000"])
async def main():
    async with t.RunnerProcess("w1", t.Witness(), functions := t.FunctionStore()) as runner:
        s = t.Station(runner, None, functions)
        s.start(program, {path!r})
        await trio.sleep_forever()
trio.run(main)
"""


async def test_everything_ends_with_the_agent(tmp_path: Path) -> None:
    """SIGKILL of the agent ends the runner, the program and processes behind its back."""
    path = tmp_path / "pid"
    script = AGENT.format(path=str(path))
    agent = await trio.lowlevel.open_process([sys.executable, "-c", script])
    try:
        await read_pid(path)
        family = [pid for pid in descendants_of(agent.pid) if pid != agent.pid]
        assert len(family) >= 6  # subreaper, runner, fork server, supervisor, two programs
    finally:
        agent.kill()
        await agent.wait()
    with trio.fail_after(120):
        while any(map(alive, family)):
            await trio.sleep(0.02)
