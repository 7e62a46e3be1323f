"""The worker as a process: how it leaves, and what becomes of the runs that it has."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from grain.worker.agent.command import parser, stated_resources
from grain.worker.agent.command import serve as work
from grain.worker.auto import detect_resources
from grain.worker.messages import Draining, InventoryEnd, RunEnded
from grain.worker.node.host_info import read_host_info
from grain_testkit.head_by_hand import code, head, worker
from grain_testkit.local_processes import descendants_of, read_pid

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@asynccontextmanager
async def worker_of_this_process(*words: str) -> AsyncGenerator[list[int]]:
    """A worker whose clock is the test's; its exit code, as soon as it has left."""
    codes: list[int] = []

    async def live() -> None:
        options, info = parser().parse_args(["--name", "w1", *words]), read_host_info()
        codes.append(
            await work(options, detect_resources(stated_resources(options.res), info), info)
        )

    over = threading.Event()

    async def have_patience() -> None:
        """Wait in real seconds, as virtual time may not pass."""
        assert await trio.to_thread.run_sync(over.wait, 120, abandon_on_cancel=True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(have_patience)
        try:
            async with trio.open_nursery() as alive:
                alive.start_soon(live)
                yield codes
        finally:
            over.set()


async def test_after_a_signal_runs_may_end_until_the_deadline_and_are_then_handed_back(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async def soon(path: str) -> str:
        from pathlib import Path

        while not Path(path).exists():
            await trio.sleep(0.02)
        return "in time"

    async def late(path: str) -> None:
        from grain.worker.external import run_external

        await run_external(["sh", "-c", f"echo $$ > '{path}'; exec sleep 1000"])

    async with head(tmp_path) as h:
        words = ("--url", h.address, "--res", '{"Cores": 2}', "--term-grace", "6")
        go = str(tmp_path / "go")
        async with worker_of_this_process(*words) as codes:
            await h.get(InventoryEnd)
            first, second = await h.lease(soon, go), await h.lease(late, str(tmp_path / "pid"))
            pid = await read_pid(tmp_path / "pid")
            signal.raise_signal(signal.SIGTERM)
            await h.get(Draining)
            refused = await h.lease(soon, go)
            assert ("returned", None) == await h.settled(refused)
            Path(go).touch()
            status, ended = await h.settled(first)
            assert ("value", "in time") == (status, ended.unwrap())
            mock_clock.jump(4.4)
            await wait_all_tasks_blocked()
            assert Path(f"/proc/{pid}").exists()
            mock_clock.jump(0.2)
            assert ("returned", None) == await h.settled(second)
            assert not Path(f"/proc/{pid}").exists()
        assert [0] == codes


async def test_a_run_that_ignores_its_cancellation_is_killed_in_time_and_handed_back(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async def stubborn(path: str) -> None:
        from pathlib import Path

        with trio.CancelScope(shield=True):
            Path(path).write_text("1")
            await trio.sleep_forever()

    async with head(tmp_path) as h:
        words = ("--url", h.address, "--res", '{"Cores": 1}', "--term-grace", "6")
        async with worker_of_this_process(*words) as codes:
            await h.get(InventoryEnd)
            number = await h.lease(stubborn, str(tmp_path / "begun"))
            await read_pid(tmp_path / "begun")
            signal.raise_signal(signal.SIGTERM)
            await h.get(Draining)
            mock_clock.jump(5.7)
            await wait_all_tasks_blocked()
            assert not [message for message, _ in h.mail if isinstance(message, RunEnded)]
            mock_clock.jump(0.2)
            assert ("returned", None) == await h.settled(number)
        assert [0] == codes


async def test_a_run_that_fails_while_the_job_is_ended_is_handed_back(tmp_path: Path) -> None:
    """The batch system signals the programs, too: a task has not failed by that."""

    async def program(path: str) -> None:
        from grain.worker.external import run_external

        await run_external(["sh", "-c", f"echo $$ > '{path}'; exec sleep 1000"])

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(InventoryEnd)
        number = await h.lease(program, str(tmp_path / "pid"))
        pid = await read_pid(tmp_path / "pid")
        process.send_signal(signal.SIGTERM)
        await h.get(Draining)
        os.kill(pid, signal.SIGTERM)
        assert ("returned", None) == await h.settled(number)
        assert 0 == await code(process)


async def test_a_program_that_writes_a_checkpoint_at_the_end_of_its_worker_has_not_ended(
    tmp_path: Path,
) -> None:
    """As GROMACS does: it ends well when it is told to, and so a batch job would run again."""

    async def program(path: str) -> str:
        from grain.worker.external import run_external

        script = f"trap 'exit 0' TERM; echo $$ > '{path}'; while :; do sleep 0.02; done"
        await run_external(["sh", "-c", script])
        return "all steps"

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(InventoryEnd)
        number = await h.lease(program, str(tmp_path / "pid"))
        await read_pid(tmp_path / "pid")
        for pid in descendants_of(process.pid):
            with suppress(ProcessLookupError):  # one of the sleeps
                os.kill(pid, signal.SIGTERM)
        assert ("returned", None) == await h.settled(number)
        assert 0 == await code(process)


async def test_a_program_that_ends_well_while_only_its_worker_was_told_to_end_has_its_result(
    tmp_path: Path,
) -> None:
    async def program(path: str) -> str:
        from grain.worker.external import run_external

        script = f"echo $$ > '{path}'; until [ -e '{path}.go' ]; do sleep 0.02; done"
        await run_external(["sh", "-c", script])
        return "all steps"

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(InventoryEnd)
        number = await h.lease(program, str(tmp_path / "pid"))
        await read_pid(tmp_path / "pid")
        process.send_signal(signal.SIGTERM)
        await h.get(Draining)
        (tmp_path / "pid.go").touch()
        status, ended = await h.settled(number)
        assert ("value", "all steps") == (status, ended.unwrap())
        assert 0 == await code(process)


async def test_no_run_begins_near_the_end_of_the_job_and_what_still_runs_is_handed_back(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async def sleeps() -> None:
        await trio.sleep_forever()

    async with head(tmp_path) as h:
        words = ("--url", h.address, "--res", '{"Cores": 1, "WTime": 11}', "--drain", "1")
        async with worker_of_this_process(*words) as codes:
            await h.get(InventoryEnd)
            number = await h.lease(sleeps)
            await wait_all_tasks_blocked()
            assert not [message for message, _ in h.mail if isinstance(message, Draining)]
            mock_clock.jump(10)
            await h.get(Draining)
            mock_clock.jump(1)
            assert ("returned", None) == await h.settled(number)
        assert [0] == codes


async def test_no_runner_and_no_program_is_left_when_the_worker_is_killed(tmp_path: Path) -> None:
    async def program(path: str) -> None:
        from grain.worker.external import run_external

        await run_external(["sh", "-c", f"echo $$ > '{path}'; exec sleep 1000"])

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(InventoryEnd)
        await h.lease(program, str(tmp_path / "pid"))
        pid = await read_pid(tmp_path / "pid")
        process.kill()
        with trio.fail_after(120):
            while Path(f"/proc/{pid}").exists():
                await trio.sleep(0.02)


async def test_a_warning_to_every_process_of_a_job_ends_no_task(tmp_path: Path) -> None:
    """As Grid Engine sends SIGUSR2, and SIGUSR1 before it suspends a job."""

    async def program(pid: str, go: str) -> str:
        from grain.worker.external import run_external

        text = f"echo $$ > '{pid}'; until [ -e '{go}' ]; do sleep 0.05; done; echo through"
        return (await run_external(["sh", "-c", text])).stdout_text

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(InventoryEnd)
        run = await h.lease(program, str(tmp_path / "pid"), str(tmp_path / "go"))
        await read_pid(tmp_path / "pid")
        agent, *others = descendants_of(process.pid)
        os.kill(agent, signal.SIGUSR2)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            for pid in others:
                with suppress(ProcessLookupError):  # one of the shell's sleeps
                    os.kill(pid, number)
        (tmp_path / "go").touch()

        assert len(others) >= 4  # subreaper, runner, fork server, supervisor, program
        status, ended = await h.settled(run)
        assert ("value", "through\n") == (status, ended.unwrap())
        assert process.poll() is None
