"""The runner in a process of its own: what it runs, how it dies, what is left of it."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import outcome
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from grain import GVAR
from grain.resource import Cores, to_data
from grain.worker._wire import BLOCKED, PACE
from grain.worker.errors import PayloadError, RunnerUnusable
from grain.worker.messages import Run
from grain.worker.payload import Payloads, failure_in
from grain.worker.process import RunnerProcess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from grain.edge.messages import Payload
    from grain.worker.messages import Ended
    from grain.worker.reports import Crash


class Witness:
    """Remembers what was reported; `changed` wakes who waits for more."""

    def __init__(self) -> None:
        self.outcomes: dict[int, tuple[Ended, Payload]] = {}
        self.crashes: list[Crash] = []
        self.silences: list[tuple[str, float]] = []
        self.lost = ""
        self.changed = trio.Event()

    def ended(self, runs: Sequence[tuple[Ended, Payload]]) -> None:
        for ended, payload in runs:
            assert ended.task not in self.outcomes
            self.outcomes[ended.task] = ended, payload
        self._tell()

    def crashed(self, crash: Crash) -> None:
        self.crashes.append(crash)
        self._tell()

    def blocked(self, seconds: float, runs: tuple[tuple[int, int], ...]) -> None:
        self.silences.append((f"blocked {runs}", seconds))
        self._tell()

    def unblocked(self, seconds: float) -> None:
        self.silences.append(("unblocked", seconds))
        self._tell()

    def unusable(self, why: str) -> None:
        self.lost = why
        self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def until(self, true: Callable[[], object]) -> None:
        with trio.fail_after(120):
            while not true():
                await self.changed.wait()


class Station:
    """A runner process with the mission's side of the payloads."""

    def __init__(self, runner: RunnerProcess, witness: Witness) -> None:
        self.runner = runner
        self.witness = witness
        self.payloads = Payloads("mission")
        self.last = 0

    def start(self, fn: Callable[..., Awaitable[Any]], *args: Any, **more: Any) -> int:
        """Start a run; its number."""
        self.last += 1
        function = self.payloads.dump_function(fn)
        arguments = self.payloads.dump_arguments(args, {})
        res = to_data(more.get("res", Cores(0)))
        run = Run(self.last, 1, res, more.get("limit"), function.digest, more.get("line", 0))
        self.runner.start(run, (function.payload, arguments))
        return self.last

    async def outcome(self, number: int) -> outcome.Value[Any] | outcome.Error:
        await self.witness.until(lambda: number in self.witness.outcomes)
        return self.payloads.load_outcome(self.witness.outcomes[number][1])

    async def result(self, fn: Callable[..., Awaitable[Any]], *args: Any, **more: Any) -> Any:
        return (await self.outcome(self.start(fn, *args, **more))).unwrap()


@asynccontextmanager
async def station(context: str = "", grace: float = 60.0) -> AsyncGenerator[Station]:
    """A runner process, and proof at the end that nothing of it is left."""
    witness = Witness()
    before = set(descendants())
    with trio.fail_after(300):
        async with RunnerProcess("w1", witness, context, grace) as runner:
            yield Station(runner, witness)
    assert set(descendants()) <= before


def descendants() -> list[int]:
    """All processes below this one."""
    found, waiting = [], [os.getpid()]
    while waiting:
        for path in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            try:
                pids = list(map(int, path.read_text().split()))
            except OSError:
                continue  # gone meanwhile
            waiting += pids
            found += pids
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_run_has_its_resources_and_a_result() -> None:
    """As on the local worker, in another process."""

    async def where(x: int) -> tuple[int, str, str, int]:
        import os

        return x + 1, repr(GVAR.res), GVAR.instance, os.getpid()

    async with station() as s:
        y, res, instance, pid = await s.result(where, 41, res=Cores([3, 5]))

    assert 42 == y
    assert "CPU_Cores([3,5])" == res
    assert "w1" == instance
    assert os.getpid() != pid


async def test_a_tasklets_exception_arrives() -> None:
    """Type, arguments, and the traceback of there; without loading it one knows what it was."""

    async def fails() -> None:
        raise KeyError("nothing here")

    async with station() as s:
        number = s.start(fails)
        ended = await s.outcome(number)

    told = failure_in(s.witness.outcomes[number][1])
    assert isinstance(ended, outcome.Error)
    assert isinstance(ended.error, KeyError)
    assert ("nothing here",) == ended.error.args
    assert told is not None
    assert "KeyError: 'nothing here'" == str(told)
    assert told.where.startswith("w1 (host ")
    assert s.witness.outcomes[number][0].failed


async def test_what_cannot_travel_fails_its_own_task_alone() -> None:
    """A result, an argument, a resource, a function that never came: the runner lives on."""

    async def generator() -> Any:
        return (i for i in range(3))

    async def fine() -> int:
        return 1

    async with station() as s:
        first = s.start(generator)
        s.runner.start(Run(100, 1, {}, None, b"unknown"), (None, b"A\0)."))
        function = s.payloads.dump_function(fine).payload
        s.runner.start(Run(101, 1, {}, None, b"x"), (function, b"garbage"))
        s.runner.start(Run(102, 1, {"Tape": 1}, None, b"x"), (function, b"A\0)."))
        s.runner.start(Run(103, 1, {}, None, b"y"), (b"no function", b"A\0)."))
        errors = [await s.outcome(n) for n in (first, 100, 101, 102, 103)]
        again = await s.result(fine)

    assert all(isinstance(e, outcome.Error) and isinstance(e.error, PayloadError) for e in errors)
    assert "generator" in str(errors[0])
    assert "never came" in str(errors[1])
    assert "Tape" in str(errors[3])
    assert 1 == again
    assert [] == s.witness.crashes


async def test_a_function_travels_once() -> None:
    """To each process; afterwards its digest is enough, until it is dropped."""

    async def count(calls: list[int] = []) -> int:  # noqa: B006 - what it is about
        calls.append(1)
        return len(calls)

    async with station() as s:
        function = s.payloads.dump_function(count)
        for number in (1, 2, 3):
            # The very same object: loaded once, it counts.
            code = function.payload if number == 1 else b"not needed"
            s.runner.start(Run(number, 1, {}, None, function.digest), (code, b"A\0)."))
        counts = [(await s.outcome(number)).unwrap() for number in (1, 2, 3)]
        s.runner.drop((function.digest,))
        s.runner.start(Run(4, 1, {}, None, function.digest), (function.payload, b"A\0)."))
        afresh = (await s.outcome(4)).unwrap()

    assert [1, 2, 3] == sorted(counts)
    assert 1 == afresh


async def test_a_run_is_cancelled() -> None:
    """And reported when nothing of it is left, here a program."""

    async def program(path: str) -> None:
        from grain.worker.external import run_external

        await run_external(["sh", "-c", f"echo $$ > {path}; exec sleep 1000"])

    async with station() as s:
        path = Path(f"/proc/{os.getpid()}/cwd").resolve() / f".pid-{os.getpid()}"
        try:
            number = s.start(program, str(path))
            pid = await written(path)
            s.runner.cancel(number, 1)
            await s.witness.until(lambda: number in s.witness.outcomes)
            assert not alive(pid)
            assert "cancelled" == s.witness.outcomes[number][0].status
        finally:
            path.unlink(missing_ok=True)


async def gone(runner: RunnerProcess) -> None:
    """Until the handle has seen that its process is dead."""
    with trio.fail_after(120):
        while runner.ready:
            await trio.sleep(0.001)


async def there(path: Path) -> None:
    """Until there is such a file. Trio's clock may be a test's own."""
    with trio.fail_after(120):
        while not path.exists():
            await trio.to_thread.run_sync(time.sleep, 0.01)


async def written(path: Path) -> int:
    """The pid that a program has written."""
    with trio.fail_after(120):
        while not (path.exists() and path.read_text().strip()):
            await trio.sleep(0.01)
    return int(path.read_text())


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
            mock_clock.jump(PACE.heartbeat)
            await wait_all_tasks_blocked()
        mock_clock.jump(3 * PACE.heartbeat)
        await wait_all_tasks_blocked()
        (tmp_path / "go").touch()
        result = (await s.outcome(number)).unwrap()
        mock_clock.jump(PACE.heartbeat)
        await s.witness.until(lambda: len(s.witness.silences) == 2)

    assert "done" == result
    assert [f"blocked (({number}, 1),)", "unblocked"] == [what for what, _ in s.witness.silences]
    assert s.witness.silences[0][1] > BLOCKED
    assert [] == s.witness.crashes


async def test_leaving_ends_what_blocks(tmp_path: Path) -> None:
    """When its grace is over; the run is reported as lost with the process."""

    async def blocks(path: str) -> None:
        import pathlib
        import time

        pathlib.Path(path).touch()
        time.sleep(1000)  # noqa: ASYNC251

    async def fine() -> None: ...

    async with station(grace=1) as s:
        await s.result(fine)
        number = s.start(blocks, str(tmp_path / "begun"))
        await there(tmp_path / "begun")

    assert ((number, 1),) == s.witness.crashes[0].runs


async def test_leaving_cancels_what_runs() -> None:
    """And tells of each run."""

    async def sleeps() -> None:
        await trio.sleep_forever()

    async def fine() -> None: ...

    async with station() as s:
        numbers = [s.start(sleeps) for _ in range(10)]
        await s.result(fine)

    assert {"cancelled"} == {s.witness.outcomes[n][0].status for n in numbers}
    assert [] == s.witness.crashes


async def test_being_cancelled_itself_it_leaves_nothing() -> None:
    """A scope around it is enough; while it starts, too. The grace is not spent on what is gone."""

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

        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            os.kill(os.getpid(), number)
        return int(Path("/proc/self/oom_score_adj").read_text()), os.getpid()

    async with station() as s:
        score, first = await s.result(adjusted)
        _, second = await s.result(adjusted)

    mine = int(Path("/proc/self/oom_score_adj").read_text())
    assert min(1000, mine + 300) == score
    assert first == second


CONTEXT = """
import contextlib, os, pathlib
entered = 0
@contextlib.asynccontextmanager
async def grain_context():
    global entered
    entered += 1
    log = pathlib.Path({log!r})
    log.write_text("entered")
    yield
    log.write_text("left")
"""


async def test_the_context_is_around_all_runs(tmp_path: Path) -> None:
    """A tasklet sees the module that was entered; it is left when the worker leaves."""
    log = tmp_path / "log"
    module = tmp_path / "surroundings_of_runs.py"
    module.write_text(CONTEXT.format(log=str(log)))

    async def entered() -> int:
        import importlib

        return importlib.import_module("surroundings_of_runs").entered  # type: ignore[no-any-return]

    async with station(str(module)) as s:
        assert 1 == await s.result(entered)
        assert 1 == await s.result(entered)
        assert "entered" == log.read_text()

    assert "left" == log.read_text()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "is not a file"),
        ("x = 1", "defines no grain_context"),
        ("def grain_context(): return 3", "asynccontextmanager"),
        ("1/0", "ZeroDivisionError"),
        ("import no_such_module", "no_such_module"),
        ("import os; os._exit(9)", "exited with code 9"),
    ],
)
async def test_a_context_that_fails_is_said_at_once(
    tmp_path: Path, text: str | None, why: str
) -> None:
    """The worker does not begin."""
    module = tmp_path / "ctx.py"
    if text is not None:
        module.write_text(text)

    with pytest.raises(RunnerUnusable, match=why):
        async with station(str(module)):
            raise AssertionError


async def test_a_context_may_be_a_modules_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found where Python finds modules."""
    (tmp_path / "by_its_name.py").write_text(CONTEXT.format(log=str(tmp_path / "log")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    async with station("by_its_name"):
        assert "entered" == (tmp_path / "log").read_text()
    with pytest.raises(RunnerUnusable, match=r"no_such_thing is not found; give the path"):
        async with station("no_such_thing"):
            raise AssertionError


AGENT = """
import sys, trio
sys.path.insert(0, {tests!r})
import test_process as t
async def program(path):
    import subprocess
    from grain.worker.external import run_external
    subprocess.Popen(["setsid", "sleep", "1000"])
    await run_external(["sh", "-c", "echo $$ > " + path + "; exec sleep 1000"])
async def main():
    async with t.RunnerProcess("w1", t.Witness()) as runner:
        s = t.Station(runner, None)
        s.start(program, {path!r})
        await trio.sleep_forever()
trio.run(main)
"""


async def test_everything_ends_with_the_agent(tmp_path: Path) -> None:
    """Which is killed by SIGKILL: the runner, the program, and what was started behind its back."""
    path = tmp_path / "pid"
    script = AGENT.format(tests=str(Path(__file__).parent), path=str(path))
    agent = await trio.lowlevel.open_process([sys.executable, "-c", script])
    try:
        await written(path)
        family = [pid for pid in descendants_of(agent.pid) if pid != agent.pid]
        assert len(family) >= 6  # warden, runner, shepherd, keeper, two programs
    finally:
        agent.kill()
        await agent.wait()
    with trio.fail_after(120):
        while any(map(alive, family)):
            await trio.sleep(0.02)


def descendants_of(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for path in Path(f"/proc/{one}/task").glob("*/children"):
            with suppress(OSError):  # gone meanwhile
                found += map(int, path.read_text().split())
    return found


async def test_nothing_follows_a_run_that_died_with_its_process() -> None:
    """Its line has ended with it: what comes for it later is returned, other runs begin."""

    async def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def three() -> int:
        return 3

    async with station() as the:
        first = the.start(kill)
        await the.witness.until(lambda: the.witness.crashes)
        late = the.start(three, line=first)
        assert 3 == await the.result(three)
        assert "returned" == the.witness.outcomes[late][0].status
