"""How the runner's process dies or is blocked, what is told of it, and the next runner."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import trio
from local_processes import alive, there, written
from runner_station import station
from trio.testing import MockClock, wait_all_tasks_blocked

from grain.worker.runner.wire import BLOCKED, HEARTBEAT

if TYPE_CHECKING:
    from pathlib import Path

    from grain.worker.agent.runner_process import RunnerProcess


async def gone(runner: RunnerProcess) -> None:
    """Until the handle has seen that its process is dead."""
    with trio.fail_after(120):
        while runner.ready:
            await trio.sleep(0.001)


async def test_a_crash_names_signal_and_runs_and_the_next_runner_serves(tmp_path: Path) -> None:
    """When nothing is left of its programs; what follows runs in a new process."""

    async def program(path: str) -> None:
        from grain.worker.external import run_external

        # It is there until the test ends it.
        await run_external(
            ["sh", "-c", f"trap '' TERM; echo $$ > {path}; exec sleep 1000"], grace=600
        )

    async def daemon(path: str) -> None:
        import subprocess

        # Behind Grain's back, as a library may do.
        subprocess.Popen(["setsid", "sh", "-c", f"echo $$ > {path}; exec sleep 1000"])  # noqa: ASYNC220
        await trio.sleep_forever()

    async def dies() -> None:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGSEGV)

    async def pid() -> int:
        import os

        return os.getpid()

    async with station() as s:
        first = await s.result(pid)
        running = s.start(program, str(tmp_path / "a")), s.start(daemon, str(tmp_path / "b"))
        pids = [await written(tmp_path / "a"), await written(tmp_path / "b")]
        fatal = s.start(dies)
        await gone(s.runner)
        second = await s.result(pid)
        assert alive(pids[0])  # nobody has waited for its end
        assert [] == s.witness.crashes
        os.kill(pids[0], signal.SIGKILL)
        await s.witness.until(lambda: s.witness.crashes)
        left = [alive(p) for p in pids]

    (crash,) = s.witness.crashes
    assert first != second
    assert -signal.SIGSEGV == crash.returncode
    assert {*((n, 1) for n in running), (fatal, 1)} == set(crash.runs)
    assert [False, False] == left
    assert "SIGSEGV" in str(crash)


async def test_exits_are_crashes_too() -> None:
    """os._exit leaves no word, but its code; runs that had ended are not blamed."""

    async def leaves() -> None:
        import os

        os._exit(7)

    async def fine() -> int:
        return 1

    async with station() as s:
        await s.result(fine)
        fatal = s.start(leaves)
        await s.witness.until(lambda: s.witness.crashes)
        assert 1 == await s.result(fine)

    assert 7 == s.witness.crashes[0].returncode
    assert ((fatal, 1),) == s.witness.crashes[0].runs
    assert "exited with code 7" in str(s.witness.crashes[0])


async def test_runs_wait_for_the_next_runner() -> None:
    """What comes while there is none is neither lost nor blamed; it can be cancelled meanwhile."""

    async def leaves() -> None:
        import os

        os._exit(1)

    async def fine() -> int:
        return 1

    async with station() as s:
        s.start(leaves)
        await gone(s.runner)
        waiting, unwanted = s.start(fine), s.start(fine)
        assert (waiting, 1) in s.runner.runs
        s.runner.cancel(unwanted, 1)
        assert 1 == (await s.outcome(waiting)).unwrap()
        await s.witness.until(lambda: unwanted in s.witness.outcomes)

    assert "cancelled" == s.witness.outcomes[unwanted][0].status
    assert 1 == len(s.witness.crashes)


async def test_a_blocked_loop_is_told_and_is_no_death(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Nor does it stop the reports of what comes afterwards."""

    async def blocks(path: str) -> str:
        import os
        import pathlib
        import time

        pathlib.Path(path + "-begun").touch()
        while not os.path.exists(path):  # noqa: PTH110
            time.sleep(0.01)  # noqa: ASYNC251
        return "done"

    async with station() as s:
        number = s.start(blocks, str(tmp_path / "go"))
        await there(tmp_path / "go-begun")
        while not s.witness.silences:
            mock_clock.jump(HEARTBEAT.interval)
            await wait_all_tasks_blocked()
        mock_clock.jump(3 * HEARTBEAT.interval)
        await wait_all_tasks_blocked()
        (tmp_path / "go").touch()
        result = (await s.outcome(number)).unwrap()
        mock_clock.jump(HEARTBEAT.interval)
        await s.witness.until(lambda: len(s.witness.silences) == 2)

    assert "done" == result
    assert [f"blocked (({number}, 1),)", "unblocked"] == [what for what, _ in s.witness.silences]
    assert s.witness.silences[0][1] > BLOCKED
    assert [] == s.witness.crashes


async def test_nothing_follows_a_run_that_died_with_its_process() -> None:
    """Its line has ended with it: what comes for it later is returned, other runs begin."""

    async def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def three() -> int:
        return 3

    async with station() as the:
        first = the.start(kill)
        await the.witness.until(lambda: the.witness.crashes)
        late = the.start(three, chain=first)
        assert 3 == await the.result(three)
        assert "returned" == the.witness.outcomes[late][0].status
