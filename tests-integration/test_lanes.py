"""Lanes: calls that come one by one, past scheduler and agent, while processes die and freeze."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import outcome
import pytest
import trio

from grain import GVAR
from grain.edge import dial
from grain.edge.questions import StateAnswer, unpack
from grain.head import TaskCancelled
from grain.head.errors import TaskCrashed
from grain.head.events import TasksPrinted
from grain.head.messages import Ask
from grain.head.service import CODEC
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from grain.worker import Call
from grain.worker.external import run_external
from grain_testkit.kept import Kept, Served, served
from grain_testkit.local_processes import alive, stop
from grain_testkit.programs import start, terminated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from grain.head.events import Event
    from grain_testkit.programs import Process

ONE = Cores(1)


class Refused(Exception):
    """The exception of a call."""


async def nothing() -> None:
    pass


async def refuse(number: int) -> None:
    raise Refused(number)


async def reverse(data: bytes) -> bytes:
    return data[::-1]


async def say(word: str) -> None:
    print("says", word)


async def mark(path: str, number: int) -> int:
    """Add a number to a file."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{number}\n".encode())
    os.close(fd)
    return number


async def held(folder: str) -> int:
    """Note the process, wait for a file, return the process."""
    import trio

    await mark(f"{folder}/pids", os.getpid())
    while not os.path.exists(f"{folder}/go"):  # noqa: PTH110
        await trio.sleep(0.02)
    return os.getpid()


async def programmed(folder: str) -> None:
    """Run a program that notes its process and does not end."""
    await run_external(["sh", "-c", f"echo $$ >> {folder}/programs; exec sleep 1000.5"])


async def surroundings() -> tuple[int, str, str, str]:
    done = await run_external(["sh", "-c", "echo $OF_MISSION"])
    return len(GVAR.res.c), GVAR.instance, os.getcwd(), done.stdout_text  # noqa: PTH109


@pytest.fixture
def address(tmp_path: Path) -> str:
    folder = tmp_path / "edge"
    folder.mkdir(mode=0o700)
    return f"edge://{folder}/meeting"


# Not that of `command_site`: the workers import this module, and find none beside it.
def running(*words: str) -> AbstractContextManager[Process]:
    return terminated(start("-m", *words, stderr=subprocess.DEVNULL))


def worker(address: str, cores: int = 2, name: str = "w", more: str = "") -> Any:
    res = f'{{"Cores": {cores}{more}}}'
    return running("grain.worker", "--url", address, "--res", res, "--name", name)


def gnaw(address: str, grace: float = 600.0) -> Any:
    return running("grain.head", "--address", address, "--grace", str(grace))


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept[Served]]:
    def new() -> AbstractContextManager[Served]:
        return served(tmp_path_factory.mktemp("edge"), gnaw, worker)

    with closing(Kept(new, lambda cluster: cluster.is_whole)) as kept:
        yield kept


@pytest.fixture
def shared(clusters: Kept[Served]) -> str:
    """The address of a scheduler with a worker of two cores, for tests that harm neither."""
    return clusters.get().address


def mission(address: str, name: str | None = None, **options: Any) -> RemoteExecutor:
    connect = GnawConnector(address, start=False).connect
    return RemoteExecutor(address, name=name, connect=connect, **options)


async def until(address: str, true: Callable[[StateAnswer], object]) -> StateAnswer:
    """Ask the scheduler for its state until it is so, and return it."""
    async with dial(address, role="cli", codec=CODEC, patience=60) as peer:
        while True:
            await peer.channel.send([(Ask("state"), None)])
            [(_, payload)] = await peer.channel.receive()
            if true(state := unpack(payload, StateAnswer)):
                return state
            await trio.sleep(0.05)


async def until_lines(path: Path, count: int) -> list[int]:
    while not path.exists() or len(path.read_text().split()) < count:
        await trio.sleep(0.02)
    return [int(word) for word in path.read_text().split()]


class Begun:
    """A call of a mission, from its beginning on.

    Attributes:
        in_lane: True if it went into a lane at once.
    """

    def __init__(self, executor: RemoteExecutor, fn: Any, *arguments: Any, cores: int = 1) -> None:
        self._over = trio.Event()
        self._outcome: Any = None
        res = ONE if cores == 1 else Cores(cores)
        self.task = executor.submit_call(res, Call(fn, arguments, {}), self._take)
        self.in_lane = self.task in executor._session.aboard

    def _take(self, ended: Any) -> None:
        self._outcome = ended
        self._over.set()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    async def outcome(self) -> Any:
        """Wait for its end."""
        await self._over.wait()
        return self._outcome


async def lane(executor: RemoteExecutor) -> None:
    """Make calls one after the other until the next one goes into a lane."""
    while not any(traffic.idle for traffic in executor._lanes.traffic):
        await Begun(executor, nothing).outcome()


async def in_lane(executor: RemoteExecutor, fn: Any, *arguments: Any) -> Begun:
    """Begin a call in a lane."""
    await lane(executor)
    begun = Begun(executor, fn, *arguments)
    assert begun.in_lane
    return begun


async def result(executor: RemoteExecutor, fn: Any, *arguments: Any) -> Any:
    """Make a call in a lane, and return its result."""
    return (await (await in_lane(executor, fn, *arguments)).outcome()).unwrap()


async def test_a_call_in_a_lane_sees_and_brings_what_any_other_does(shared: str) -> None:
    events: list[Event] = []
    data = os.urandom(1000) * 100_000
    options: Any = {"env": {"OF_MISSION": "yes"}, "echo": True, "on_event": events.append}
    with trio.fail_after(240):
        async with mission(shared, "m", **options) as executor:
            assert (1, "w", os.getcwd(), "yes\n") == await result(executor, surroundings)  # noqa: PTH109
            with pytest.raises(Refused, match="3"):
                await result(executor, refuse, 3)
            for given in (data, bytearray(data), data[:1000]):
                assert given[::-1] == await result(executor, reverse, given)
            said = await in_lane(executor, say, "so")
            await said.outcome()
            while not [event for event in events if isinstance(event, TasksPrinted)]:
                await trio.sleep(0.05)

    [printed] = [event for event in events if isinstance(event, TasksPrinted)]
    assert f"m:{said.task}" in printed.text
    assert "says so\n" in printed.text


async def test_a_long_call_in_a_lane_is_timed_as_any_other(shared: str) -> None:
    with trio.fail_after(120):
        async with mission(shared) as executor:
            await lane(executor)
            # The lane is idle for longer than the call takes.
            await trio.sleep(0.5)
            await (await in_lane(executor, trio.sleep, 0.25)).outcome()
            [kind] = [kind for kind in executor.kinds() if kind.function == "sleep"]

    assert 0.25 <= kind.seconds


async def test_a_cancelled_call_in_a_lane_leaves_no_program_and_the_lane_goes_on(
    shared: str, tmp_path: Path
) -> None:
    with trio.fail_after(120):
        async with mission(shared) as executor:
            call = await in_lane(executor, programmed, str(tmp_path))
            [program] = await until_lines(tmp_path / "programs", 1)
            executor.cancel(call.task)
            with pytest.raises(TaskCancelled):
                (await call.outcome()).unwrap()
            assert not alive(program)
            assert Begun(executor, nothing).in_lane


async def test_a_block_that_raises_cancels_calls_in_lanes(shared: str, tmp_path: Path) -> None:
    """It is left when nothing of them runs."""
    with trio.fail_after(120):

        async def block() -> None:
            async with mission(shared) as executor:
                await in_lane(executor, programmed, str(tmp_path))
                programs.extend(await until_lines(tmp_path / "programs", 1))
                raise RuntimeError("enough")

        programs: list[int] = []
        with pytest.raises(RuntimeError, match="enough"):
            await block()
        assert [False] == [alive(program) for program in programs]


async def test_a_call_that_kills_its_runner_in_a_lane_is_given_up_after_five_crashes(
    shared: str, tmp_path: Path
) -> None:
    with trio.fail_after(240):
        async with mission(shared) as executor:
            call = await in_lane(executor, held, str(tmp_path))
            for crash in range(1, 6):
                pids = await until_lines(tmp_path / "pids", crash)
                os.kill(pids[-1], signal.SIGKILL)
            error = (await call.outcome()).error
            await Begun(executor, nothing).outcome()  # the worker serves

    assert isinstance(error, TaskCrashed)
    assert ["w"] * 5 == [crash.worker for crash in error.crashes]
    assert 5 == len((tmp_path / "pids").read_text().split())


async def test_a_call_whose_worker_is_killed_in_a_lane_runs_elsewhere(
    address: str, tmp_path: Path
) -> None:
    with gnaw(address, 2), worker(address, name="a") as first, trio.fail_after(180):
        async with mission(address) as executor:
            call = await in_lane(executor, held, str(tmp_path))
            await until_lines(tmp_path / "pids", 1)
            with worker(address, name="b"):
                first.kill()
                pids = await until_lines(tmp_path / "pids", 2)
                (tmp_path / "go").touch()
                assert pids[1] == (await call.outcome()).unwrap()


async def test_a_worker_that_drains_ends_the_call_of_its_lane_and_takes_no_other(
    address: str, tmp_path: Path
) -> None:
    with gnaw(address), worker(address, name="a") as first, trio.fail_after(120):
        async with mission(address) as executor:
            call = await in_lane(executor, held, str(tmp_path))
            [pid] = await until_lines(tmp_path / "pids", 1)
            with worker(address, name="b"):
                await until(address, lambda state: len(state.workers) == 2)
                first.terminate()
                await until(address, lambda s: any(w.state == "draining" for w in s.workers))
                (tmp_path / "go").touch()
                assert pid == (await call.outcome()).unwrap()
                assert pid != (await Begun(executor, held, str(tmp_path)).outcome()).unwrap()
                await trio.to_thread.run_sync(first.wait)


async def test_calls_in_a_lane_go_on_while_the_scheduler_is_killed_and_none_runs_twice(
    address: str, tmp_path: Path
) -> None:
    """A next scheduler takes over the lane; and recalls it for another mission."""
    path = tmp_path / "marks"
    with gnaw(address) as first, worker(address), trio.fail_after(180):
        async with mission(address) as executor:
            await lane(executor)
            first.kill()
            first.wait()
            for number in range(200):
                call = Begun(executor, mark, str(path), number)
                assert call.in_lane
                await call.outcome()
            with gnaw(address):
                call = Begun(executor, held, str(tmp_path))
                assert call.in_lane
                await until(address, lambda s: s.workers and s.workers[0].tasks and s.missions)
                async with mission(address) as other:
                    waiting = Begun(other, nothing, cores=2)
                    await until(address, lambda state: state.tasks.waiting == 1)
                    (tmp_path / "go").touch()
                    await waiting.outcome()
                await call.outcome()
                for number in range(200, 300):
                    await Begun(executor, mark, str(path), number).outcome()

    assert list(range(300)) == await until_lines(path, 300)


async def test_a_task_of_another_mission_has_the_core_of_a_lane_when_its_call_is_over(
    shared: str, tmp_path: Path
) -> None:
    """Whatever the mission with the lane submits meanwhile, one call after the other."""
    with trio.fail_after(120):
        async with mission(shared, "one") as executor, mission(shared, "two") as other:
            call = await in_lane(executor, held, str(tmp_path))
            await until_lines(tmp_path / "pids", 1)  # a lane is recalled before it has the call
            path = str(tmp_path / "order")
            waiting = Begun(other, mark, path, -1, cores=2)
            await until(shared, lambda state: state.tasks.waiting == 1)
            (tmp_path / "go").touch()
            await call.outcome()
            # The word to the lane goes by the agent, and may be slower than some calls.
            while not waiting.is_over:
                await Begun(executor, mark, path, 1).outcome()
    assert -1 in await until_lines(Path(path), 1)


PROGRAM = """
import os, sys, trio
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from grain.worker import Call

ONE = Cores(1)
address, path = sys.argv[1:]

async def mark(path, number):
    import os
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{number}\\n".encode())
    os.close(fd)
    return number

async def main():
    connect = GnawConnector(address, start=False).connect
    async with RemoteExecutor(address, name="program", connect=connect) as executor:
        number = 0
        told = False
        while not os.path.exists(path + ".enough"):
            over = trio.Event()
            got = []
            call = Call(mark, (path, number), {})
            task = executor.submit_call(ONE, call, lambda e: (got.append(e), over.set()))
            if task in executor._session.aboard and not told:
                told = True
                print("in lane", flush=True)
            await over.wait()
            assert got[0].unwrap() == number
            number += 1
        print(number, flush=True)

trio.run(main)
"""


@contextmanager
def program(address: str, tmp_path: Path, path: Path) -> Iterator[Process]:
    """Run a mission that makes calls one after the other, each of which leaves its number."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    with start(file, address, path, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def said(process: Process) -> str:
    assert process.stdout is not None
    line: str = await trio.to_thread.run_sync(process.stdout.readline)
    return line.strip()


async def until_in_lane(process: Process) -> None:
    assert "in lane" == await said(process)


@pytest.mark.parametrize("frozen", ["mission", "runner", "agent", "scheduler"])
async def test_a_process_that_is_frozen_while_calls_are_in_a_lane_loses_and_repeats_none(
    address: str, tmp_path: Path, frozen: str
) -> None:
    path = tmp_path / "marks"
    (tmp_path / "go").touch()
    with gnaw(address) as head, worker(address) as agent, trio.fail_after(180):
        async with mission(address, "other") as other:
            runner = (await Begun(other, held, str(tmp_path)).outcome()).unwrap()
            with program(address, tmp_path, path) as process:
                await until_in_lane(process)
                pids = {
                    "mission": process.pid,
                    "runner": runner,
                    "agent": agent.pid,
                    "scheduler": head.pid,
                }
                for _ in range(5):
                    count = len(path.read_text().split())
                    stop(pids[frozen])
                    waiting = Begun(other, nothing, cores=2)  # the lane has to end for it
                    await trio.sleep(0.2)
                    os.kill(pids[frozen], signal.SIGCONT)
                    await waiting.outcome()
                    await until_lines(path, count + 50)
                Path(f"{path}.enough").touch()
                last = int(await said(process))

    assert list(range(last)) == await until_lines(path, last)


async def test_a_frozen_mission_keeps_its_lane_from_others_for_no_longer_than_a_call(
    shared: str, tmp_path: Path
) -> None:
    path = tmp_path / "marks"
    with trio.fail_after(120):
        async with mission(shared, "other") as other:
            with program(shared, tmp_path, path) as process:
                await until_in_lane(process)
                stop(process.pid)
                await Begun(other, nothing, cores=2).outcome()
                os.kill(process.pid, signal.SIGCONT)
                Path(f"{path}.enough").touch()
                last = int(await said(process))
                await trio.to_thread.run_sync(process.wait)

    assert list(range(last)) == await until_lines(path, last)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
async def test_a_mission_that_ends_gives_its_lanes_back_at_once(
    address: str, tmp_path: Path, by: signal.Signals
) -> None:
    """Killed or interrupted: its core is free for others, and no call of it begins any more."""
    path = tmp_path / "marks"
    with gnaw(address), worker(address), trio.fail_after(120):
        async with mission(address, "other") as other:
            with program(address, tmp_path, path) as process:
                await until_in_lane(process)
                process.send_signal(by)
                await trio.to_thread.run_sync(process.wait)
                await Begun(other, nothing, cores=2).outcome()
                numbers = await until_lines(path, 1)
                await Begun(other, nothing, cores=2).outcome()
                assert numbers == await until_lines(path, 1)
        await until(address, lambda s: s.workers[0].free == s.workers[0].total)


async def test_a_worker_whose_time_is_over_hands_the_call_of_its_lane_on(
    address: str, tmp_path: Path
) -> None:
    with gnaw(address), trio.fail_after(240):
        async with mission(address) as executor:
            began = trio.current_time()
            with worker(address, name="first"):
                await until(address, lambda state: state.workers)
                # Time to start and to get a call, however slow the machine is.
                seconds = 5 + 5 * (trio.current_time() - began)
            await until(address, lambda state: not state.workers)
            words = ("--url", address, "--drain", "0.5", "--name", "brief")
            offer = f'{{"Cores": 2, "WTime": {{"T": {seconds:.1f}}}}}'
            with running("grain.worker", *words, "--res", offer):
                call = await in_lane(executor, held, str(tmp_path))
                with worker(address, name="endless"):
                    _, second = await until_lines(tmp_path / "pids", 2)
                    (tmp_path / "go").touch()
                    assert second == (await call.outcome()).unwrap()


async def test_a_call_of_a_lane_is_cancelled_while_the_mission_cannot_reach_its_runner(
    shared: str, tmp_path: Path
) -> None:
    """By the scheduler: the runner is frozen when it would get the order, and wakes later."""
    with trio.fail_after(120):
        async with mission(shared) as executor:
            call = await in_lane(executor, held, str(tmp_path))
            [runner] = await until_lines(tmp_path / "pids", 1)
            stop(runner)
            executor.cancel(call.task)
            await trio.sleep(0.1)
            os.kill(runner, signal.SIGCONT)
            assert isinstance((await call.outcome()).error, TaskCancelled)
            assert isinstance(await Begun(executor, nothing).outcome(), outcome.Value)


DELAYED = """
import os
from grain.delayed import Executor, delayed, run
from grain.remote_exer.lanes import MissionLanes
from grain.resource import Cores

boarded = []
board = MissionLanes.board
MissionLanes.board = lambda self, *call: (boarded.append(1), board(self, *call))[1]

class Counter:
    def __init__(self, value):
        self.value = value

class Odd(Exception):
    pass

@delayed(retries=3)
async def count(counter, path):
    with open(path, "a") as file:
        file.write("x")
    if os.path.getsize(path) % 2:
        raise Odd
    return Counter(counter.value + 1)

@delayed(cache_hfn="args")
async def cached(number):
    return number

@delayed
async def double(number):
    return 2 * number

async def main():
    one = Cores(1)
    while not boarded:
        await (double @ one)(1)
    counter = Counter(0)
    for _ in range(3):
        counter = await (count @ one)(counter, os.path.abspath("tries"))
    assert isinstance(counter, Counter)
    values = [await (cached @ one)(number) for number in (1, 2, 1, 2)]
    print(counter.value, os.path.getsize("tries"), values, flush=True)

run(main)
boarded.clear()
with Executor(Cores(1), progress=False) as executor:
    while not boarded:
        assert 8 == executor.submit(pow, 2, 3).result()
print("futures", flush=True)
"""


async def test_delayed_functions_and_futures_use_lanes(shared: str, tmp_path: Path) -> None:
    """With classes and functions of the program, retries, and results that are kept."""
    (tmp_path / "mission.py").write_text(DELAYED)
    (tmp_path / "grain.toml").write_text(f'address = "{shared}"\n')
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with trio.fail_after(240):
        await until(shared, lambda state: state.workers)
        options: Any = {"cwd": tmp_path, "env": environ, "stdout": subprocess.PIPE, "text": True}
        with start("mission.py", **options, stderr=subprocess.DEVNULL) as process:
            assert "3 6 [1, 2, 1, 2]" == await said(process)
            assert "futures" == await said(process)


# ---- many calls at once


async def double(number: int, folder: str) -> int:
    """Return the double of a number; one call kills its runner, once."""
    if number == 700:
        once = f"{folder}/once"
        if not os.path.exists(once):  # noqa: PTH110
            os.close(os.open(once, os.O_CREAT | os.O_WRONLY))
            os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


async def test_calls_that_wait_go_by_lanes_and_a_crash_of_one_costs_no_other(
    shared: str, tmp_path: Path
) -> None:
    crashed: list[int] = []
    outcomes: dict[int, Any] = {}
    with trio.fail_after(120):
        async with mission(shared) as executor:
            executor.on_crash = lambda _, crash: crashed.append(crash.call)
            await Begun(executor, nothing).outcome()
            # On a busy machine, more of them take their time until calls count as brief.
            while not executor._lanes.traffic[0].may_hold(trio.current_time()):
                await Begun(executor, nothing).outcome()
            tasks = []
            for number in range(1500):
                call = Call(double, (number, str(tmp_path)), {})
                tasks.append(executor.submit_call(ONE, call, partial(outcomes.__setitem__, number)))
            held = sum(not lane for lane in executor._session.aboard.values())
            assert held > 1000
            last = max(executor._session.aboard)
            assert "holds" in executor.why(last).reasons[0]
            # While the answer is on its way, the call goes on: into a lane, or to the scheduler.
            asked = await executor.ask_why(last)
            assert asked.state != "unknown" or last not in executor._session.pending
    assert {n: 2 * n for n in range(1500)} == {n: one.unwrap() for n, one in outcomes.items()}
    # Ends of calls before it waited to be sent. Two lanes had one runner.
    assert tasks[700] in crashed
    assert len(crashed) <= 2
