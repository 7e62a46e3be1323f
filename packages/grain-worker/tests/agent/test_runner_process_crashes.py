"""Crashes and blocks of the runner's process, the reports of them, and the next runner."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from grain.worker.runner.wire import BLOCKED, HEARTBEAT
from grain_testkit.local_processes import alive, read_pid, wait_for_file
from grain_testkit.runner_station import station

if TYPE_CHECKING:
    from pathlib import Path

    from grain.worker.agent.runner_process import RunnerProcess


async def until_over(runner: RunnerProcess) -> None:
    """Until the handle has seen that its process is dead."""
    with trio.fail_after(120):
        while runner.ready:
            await trio.sleep(0.001)


async def test_a_crash_names_signal_and_runs_and_the_next_runner_serves(tmp_path: Path) -> None:
    """The next runner starts when no program of the crashed one is left."""

    async def program(path: str) -> None:
        from grain.worker.external import run_external

        # It is there until the test ends it.
        await run_external(
            ["sh", "-c", f"trap '' TERM; echo $$ > '{path}'; exec sleep 1000"], grace=600
        )

    async def daemon(path: str) -> None:
        import subprocess

        # Behind Grain's back, as a library may do.
        subprocess.Popen(["setsid", "sh", "-c", f"echo $$ > '{path}'; exec sleep 1000"])  # noqa: ASYNC220
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
        pids = [await read_pid(tmp_path / "a"), await read_pid(tmp_path / "b")]
        fatal = s.start(dies)
        await until_over(s.runner)
        second = await s.result(pid)
        assert alive(pids[0])  # nobody has waited for its end
        assert [] == s.witness.deaths
        os.kill(pids[0], signal.SIGKILL)
        await s.witness.until(lambda: s.witness.deaths)
        left = [alive(p) for p in pids]

    (death,) = s.witness.deaths
    assert first != second
    assert -signal.SIGSEGV == death.end.returncode
    assert {*((1, n) for n in running), (1, fatal)} == set(death.runs)
    assert [False, False] == left
    assert "SIGSEGV" in str(death)


async def test_an_exit_is_a_crash_of_the_runs_that_have_not_ended() -> None:
    async def leaves() -> None:
        import os

        os._exit(7)

    async def fine() -> int:
        return 1

    async with station() as s:
        await s.result(fine)
        fatal = s.start(leaves)
        await s.witness.until(lambda: s.witness.deaths)
        assert 1 == await s.result(fine)

    assert 7 == s.witness.deaths[0].end.returncode
    assert ((1, fatal),) == s.witness.deaths[0].runs
    assert "exited with code 7" in str(s.witness.deaths[0])


async def test_orders_wait_for_the_next_runner_and_can_be_cancelled_meanwhile() -> None:
    async def leaves() -> None:
        import os

        os._exit(1)

    async def fine() -> int:
        return 1

    async with station() as s:
        s.start(leaves)
        await until_over(s.runner)
        waiting, unwanted = s.start(fine), s.start(fine)
        assert (1, waiting) in s.runner.runs
        s.cancel(unwanted)
        assert 1 == (await s.outcome(waiting)).unwrap()
        await s.witness.until(lambda: unwanted in s.witness.outcomes)

    assert "cancelled" == s.witness.outcomes[unwanted][0].status
    assert 1 == len(s.witness.deaths)


async def test_a_blocked_loop_is_reported_and_is_no_death(
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
        await wait_for_file(tmp_path / "go-begun")
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
    assert [f"blocked ((1, {number}),)", "unblocked"] == [what for what, _ in s.witness.silences]
    assert s.witness.silences[0][1] > BLOCKED
    assert [] == s.witness.deaths


async def test_nothing_follows_a_run_while_something_is_left_of_its_process(
    tmp_path: Path,
) -> None:
    """Its chain has ended with it: its successors are returned, and other runs begin."""

    async def program(path: str) -> None:
        from grain.worker.external import run_external

        # It is there until the test ends it.
        await run_external(
            ["sh", "-c", f"trap '' TERM; echo $$ > '{path}'; exec sleep 1000"], grace=600
        )

    async def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def three() -> int:
        return 3

    async with station() as s:
        first = s.start(program, str(tmp_path / "pid"))
        pid = await read_pid(tmp_path / "pid")
        s.start(kill)
        await until_over(s.runner)
        early = s.start(three, chain=first)
        assert 3 == await s.result(three)
        late = s.start(three, chain=first)
        await s.witness.until(lambda: {early, late} <= s.witness.outcomes.keys())
        assert [] == s.witness.deaths
        os.kill(pid, signal.SIGKILL)
        await s.witness.until(lambda: s.witness.deaths)
        assert 3 == await s.result(three, chain=first)

    assert {"returned"} == {s.witness.outcomes[number][0].status for number in (early, late)}


async def test_the_code_that_blocks_is_reported_while_it_blocks() -> None:
    """With the run, the line, and what to write instead."""

    async def relax() -> None:
        import time

        end = time.monotonic() + 60
        while time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 - what is reported

    async with station() as s:
        number = s.start(relax)
        await s.witness.until(lambda: s.witness.blocking_code)
        assert {} == s.witness.outcomes
        s.runner.kill()

    attempt, code = s.witness.blocking_code[0]
    assert (1, number) == attempt
    assert "relax" == code.function
    assert code.where.partition(":")[0].endswith("test_runner_process_crashes.py")
    assert 1 <= code.seconds < 60
    assert "write `await trio.sleep(...)`" in code.instead or "in_thread" in code.instead


@pytest.mark.parametrize("hands_back", [False, True])
async def test_no_other_runner_is_started_once_the_code_of_grain_was_replaced(
    hands_back: bool,
) -> None:
    async def dies() -> None:
        import os

        os._exit(1)

    async def nothing() -> None:
        pass

    why = ""
    async with station(replaced=lambda: why) as s:
        s.witness.hands_back = hands_back
        await s.result(nothing)
        why = "Grain was replaced"
        fatal = s.start(dies)
        await until_over(s.runner)
        late = s.start(nothing)
        await s.witness.until(lambda: s.witness.deaths and late in s.witness.outcomes)
        later = await s.outcome_status(s.start(nothing))

    assert [(why, 0)] == s.witness.why_replaced  # so the death counts for no run
    assert ((1, fatal),) == s.witness.deaths[0].runs
    assert ("" if hands_back else why) == s.witness.lost
    ended, _ = s.witness.outcomes[late]
    assert "returned" == ended.status == later


async def test_a_runner_that_has_loaded_other_code_than_its_agent_serves_nothing() -> None:
    """As files were replaced while it started."""

    async def dies() -> None:
        import os

        os._exit(1)

    async def nothing() -> None:
        pass

    answers = ["", "", "Grain was replaced"]  # the first start, the death, the second start
    async with station(replaced=lambda: answers.pop(0) if len(answers) > 1 else answers[0]) as s:
        await s.result(nothing)
        s.start(dies)
        await s.witness.until(lambda: s.witness.why_replaced)

        assert not s.runner.ready
