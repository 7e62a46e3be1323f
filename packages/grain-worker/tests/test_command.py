"""The worker as a process: what its command line takes, how it serves a head, how it leaves."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from grain.edge import serve
from grain.worker._agent import DONE, FAILED, GAVE_UP, USAGE
from grain.worker._command import main, parser, stated_resources
from grain.worker._command import serve as work
from grain.worker._surroundings import read_surroundings
from grain.worker.auto import find_resources
from grain.worker.messages import (
    CODEC,
    Draining,
    Enlisted,
    Function,
    Holding,
    Lease,
    Leaving,
    Register,
    Release,
    Reported,
    Retire,
    Revoke,
    Settled,
)
from grain.worker.payload import Payloads

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from grain.edge import Peer
    from grain.edge.messages import Message, Payload

M = TypeVar("M", bound="Message")


class Head:
    """The other side, by hand."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.peer: Peer | None = None
        self.mail: list[tuple[Message, Payload]] = []
        self.changed = trio.Event()
        self.payloads = Payloads("mission")
        self.last = 0

    async def handle(self, peer: Peer) -> None:
        self.peer = peer
        await peer.channel.send([(Enlisted(1), None)])
        while True:
            try:
                self.mail += await peer.channel.receive()
            except (trio.EndOfChannel, trio.ClosedResourceError):
                return
            finally:
                self.changed.set()
                self.changed = trio.Event()

    async def get(self, kind: type[M], number: int | None = None) -> tuple[M, Payload]:
        """The next message of a kind, and of an attempt, that has come or comes."""
        with trio.fail_after(120):
            while True:
                for pair in self.mail:
                    if isinstance(pair[0], kind) and number in (
                        None,
                        getattr(pair[0], "attempt", (0, None))[1],
                    ):
                        self.mail.remove(pair)
                        return pair  # type: ignore[return-value]
                await self.changed.wait()

    async def send(self, *messages: tuple[Message, Payload]) -> None:
        assert self.peer is not None
        await self.peer.channel.send(messages)

    async def lease(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> int:
        """Have a run begin; its number."""
        self.last += 1
        function = self.payloads.dump_function(fn)
        lease = Lease("m", self.last, (1, self.last), function.digest, {"Cores": [0]})
        arguments = self.payloads.dump_arguments(args, {})
        await self.send((Function(function.digest), function.payload), (lease, arguments))
        return self.last

    async def settled(self, number: int) -> tuple[str, Any]:
        """How a run ended: status and result; released at once."""
        message, payload = await self.get(Settled, number)
        await self.send((Release((message.attempt,)), None))
        ended = None if payload is None else self.payloads.load_outcome(payload)
        return message.status, ended


@asynccontextmanager
async def head(folder: Path) -> AsyncGenerator[Head]:
    """A head that serves at a Unix socket in a directory."""
    address = f"unix://{folder}/socket"
    playing = Head(address)
    async with trio.open_nursery() as nursery:
        await nursery.start(_serve, playing)
        yield playing
        nursery.cancel_scope.cancel()


async def _serve(playing: Head, task_status: trio.TaskStatus[object]) -> None:
    await serve(playing.handle, playing.address, codec=CODEC, task_status=task_status)


@asynccontextmanager
async def worker(*words: str, env: dict[str, str] | None = None) -> AsyncGenerator[trio.Process]:
    """A worker's process; killed at the end if it has not left."""
    command = [sys.executable, "-m", "grain.worker", "--name", "w1", *words]
    process = await trio.lowlevel.open_process(
        command, env={**os.environ, **(env or {})}, stderr=-1, start_new_session=True
    )
    try:
        with trio.fail_after(300):
            yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            assert process.stderr is not None
            await process.stderr.aclose()


@asynccontextmanager
async def worker_of_this_process(*words: str) -> AsyncGenerator[list[int]]:
    """A worker whose clock is the test's; its exit code, as soon as it has left."""
    codes: list[int] = []

    async def live() -> None:
        options, around = parser().parse_args(["--name", "w1", *words]), read_surroundings()
        codes.append(
            await work(options, find_resources(stated_resources(options.res), around), around)
        )

    over = threading.Event()

    async def have_patience() -> None:
        """Of real seconds, as the others may not pass."""
        assert await trio.to_thread.run_sync(over.wait, 120, abandon_on_cancel=True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(have_patience)
        try:
            async with trio.open_nursery() as alive:
                alive.start_soon(live)
                yield codes
        finally:
            over.set()


async def code(process: trio.Process) -> int:
    with trio.fail_after(120):
        return await process.wait()


async def test_it_registers_runs_and_leaves_on_sigterm(tmp_path: Path) -> None:
    """With what it was told to offer; the exit code of a worker that did as it was asked is 0."""

    async def double(x: int) -> int:
        return 2 * x

    res = '{"Cores": [0], "Memory": 3}'
    async with head(tmp_path) as h, worker("--url", h.address, "--res", res) as process:
        registered, _ = await h.get(Register)
        await h.get(Reported)
        status, ended = await h.settled(await h.lease(double, 21))
        process.send_signal(signal.SIGTERM)
        await h.get(Draining)
        await h.get(Leaving)
        assert 0 == await code(process)

    assert ("w1", {"Cores": [0], "Memory": 3}) == (registered.name, dict(registered.total)) or (
        registered.total == {"Cores": 1, "Memory": 3}
    )
    assert ("value", 42) == (status, ended.unwrap())


async def test_a_signal_lets_runs_end_then_hands_them_back(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Those that end before the deadline count; what is left is returned, its program gone."""

    async def soon(path: str) -> str:
        from pathlib import Path

        while not Path(path).exists():
            await trio.sleep(0.02)
        return "in time"

    async def late(path: str) -> None:
        from grain.worker.external import run_external

        await run_external(["sh", "-c", f"echo $$ > {path}; exec sleep 1000"])

    async with head(tmp_path) as h:
        words = ("--url", h.address, "--res", '{"Cores": 2}', "--term-grace", "6")
        go = str(tmp_path / "go")
        async with worker_of_this_process(*words) as codes:
            await h.get(Reported)
            first, second = await h.lease(soon, go), await h.lease(late, str(tmp_path / "pid"))
            pid = await written(tmp_path / "pid")
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


async def test_what_fails_while_the_job_is_ended_is_handed_back(tmp_path: Path) -> None:
    """The batch system signals the programs, too: a task has not failed by that."""

    async def program(path: str) -> None:
        from grain.worker.external import run_external

        await run_external(["sh", "-c", f"echo $$ > {path}; exec sleep 1000"])

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(Reported)
        number = await h.lease(program, str(tmp_path / "pid"))
        pid = await written(tmp_path / "pid")
        process.send_signal(signal.SIGTERM)
        await h.get(Draining)
        os.kill(pid, signal.SIGTERM)
        assert ("returned", None) == await h.settled(number)
        assert 0 == await code(process)


async def test_a_crash_is_told_and_the_worker_serves_on(tmp_path: Path) -> None:
    """With the signal and the host."""

    async def dies() -> None:
        import os

        os.kill(os.getpid(), 9)

    async def fine() -> int:
        return 1

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(Reported)
        number = await h.lease(dies)
        crashed, _ = await h.get(Settled, number)
        await h.send((Release((crashed.attempt,)), None))
        status, ended = await h.settled(await h.lease(fine))
        await h.send((Retire(), None))
        assert 0 == await code(process)

    assert "crashed" == crashed.status
    assert "SIGKILL" in crashed.detail
    assert ("value", 1) == (status, ended.unwrap())


async def test_runs_go_on_while_there_is_no_head(tmp_path: Path) -> None:
    """The next one is told of what runs and of what has ended, and gets the results."""

    async def slow(path: str) -> str:
        from pathlib import Path

        while not Path(path).exists():
            await trio.sleep(0.02)
        return "done"

    async def quick() -> int:
        return 3

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 2}') as process:
        await h.get(Reported)
        first = await h.lease(slow, str(tmp_path / "go"))
        second = await h.lease(quick)
        await h.get(Settled, second)  # and never release it
        assert h.peer is not None
        await h.peer.channel.aclose()
        held, _ = await h.get(Holding)
        await h.get(Reported)
        (tmp_path / "go").touch()
        status, ended = await h.settled(first)
        again, _ = await h.get(Settled, second)
        await h.send((Release((again.attempt,)), None), (Retire(), None))
        assert 0 == await code(process)

    assert {first: False, second: True} == {run.attempt[1]: run.ended for run in held.runs}
    assert ("value", "done") == (status, ended.unwrap())


async def test_a_run_is_revoked(tmp_path: Path) -> None:
    """By the head; the end of it is confirmed."""

    async def sleeps() -> None:
        await trio.sleep_forever()

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(Reported)
        number = await h.lease(sleeps)
        await h.send((Revoke((1, number)), None))
        assert ("cancelled", None) == await h.settled(number)
        await h.send((Retire(at_once=True), None))
        assert 0 == await code(process)


async def test_the_end_of_the_job_is_known(tmp_path: Path, mock_clock: MockClock) -> None:
    """Nothing is begun near it, and what still runs is handed back."""

    async def sleeps() -> None:
        await trio.sleep_forever()

    async with head(tmp_path) as h:
        words = ("--url", h.address, "--res", '{"Cores": 1, "WTime": 11}', "--drain", "1")
        async with worker_of_this_process(*words) as codes:
            await h.get(Reported)
            number = await h.lease(sleeps)
            await wait_all_tasks_blocked()
            assert not [message for message, _ in h.mail if isinstance(message, Draining)]
            mock_clock.jump(10)
            await h.get(Draining)
            mock_clock.jump(1)
            assert ("returned", None) == await h.settled(number)
        assert [0] == codes


async def test_an_idle_worker_sleeps(tmp_path: Path) -> None:
    """Agent and runner together take a hundredth of a CPU at most."""

    async def fine() -> None: ...

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(Reported)
        await h.settled(await h.lease(fine))
        cpu = seconds = 1.0
        with trio.fail_after(120):
            while cpu > 0.05 * seconds:  # what comes after a run may take a while
                began, before = trio.current_time(), used(process.pid)
                await trio.sleep(3)
                seconds = trio.current_time() - began
                cpu = sum(now - before.get(pid, 0) for pid, now in used(process.pid).items())
        await h.send((Retire(), None))
        assert 0 == await code(process)


def used(pid: int) -> dict[int, float]:
    """Seconds of CPU time of a process and its children, by pid, see proc(5)."""
    found = {}
    for one in (pid, *children(pid)):
        with suppress(OSError):  # it has ended meanwhile
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            found[one] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def children(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for path in Path(f"/proc/{one}/task").glob("*/children"):
            with suppress(OSError):  # a thread that has ended meanwhile has none
                found += map(int, path.read_text().split())
    return found[1:]


async def test_it_gives_up_without_a_scheduler(tmp_path: Path) -> None:
    """And says so by its exit code."""
    async with worker("--url", f"unix://{tmp_path}/none", "--give-up", "0.5") as process:
        assert 3 == await code(process)


async def test_nothing_is_left_when_the_worker_is_killed(tmp_path: Path) -> None:
    """No runner, no program."""

    async def program(path: str) -> None:
        from grain.worker.external import run_external

        await run_external(["sh", "-c", f"echo $$ > {path}; exec sleep 1000"])

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(Reported)
        await h.lease(program, str(tmp_path / "pid"))
        pid = await written(tmp_path / "pid")
        process.kill()
        with trio.fail_after(120):
            while Path(f"/proc/{pid}").exists():
                await trio.sleep(0.02)


async def written(path: Path) -> int:
    """The pid that a program has written. Trio's clock may be a test's own."""
    with trio.fail_after(120):
        while not (path.exists() and path.read_text().strip()):
            await trio.to_thread.run_sync(time.sleep, 0.01)
    return int(path.read_text())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--res", "{"], "not JSON"),
        (["--res", '{"Tape": 1}'], "unknown kind of resource 'Tape'"),
        (["--url", "nowhere"], "nowhere"),
        (["--give-up", "-3"], "not a number of 0 or more"),
        (["--res"], "expected one argument"),
        (["--nonsense"], "unrecognized arguments"),
    ],
)
def test_mistakes_are_named(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In one sentence, with exit code 2."""
    try:
        status = main(words)
    except SystemExit as leaving:
        status = leaving.code  # type: ignore[assignment]

    told = capsys.readouterr().err + caplog.text
    assert 2 == status
    assert said in told
    assert "Traceback" not in told


def test_a_context_that_fails_ends_the_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 1, and why."""
    status = main(["--url", f"unix://{tmp_path}/none", "--context", f"{tmp_path}/none.py"])

    assert 1 == status
    assert "none.py is not a file" in capsys.readouterr().err


def test_the_manual_names_every_option_and_exit_code() -> None:
    """docs/worker.md has a line for each."""
    manual = Path(__file__).parents[3] / "docs" / "worker.md"
    if not manual.exists():
        pytest.skip("the documents are not with this package")
    text = manual.read_text()

    options = [word for action in parser()._actions for word in action.option_strings]
    assert [] == [
        word for word in options if word not in ("-h", "--help") and f"| `{word}" not in text
    ]
    assert all(f"\n| {number} | " in text for number in (DONE, FAILED, USAGE, GAVE_UP))


def test_it_says_what_it_would_offer(caplog: pytest.LogCaptureFixture) -> None:
    """Without starting anything."""
    with caplog.at_level("INFO"):
        assert 0 == main(["--dry", "--name", "w7", "--res", '{"Cores": 3}'])

    assert re.search(r"w7, offers CPU_Cores\(\[0-2\]\)", caplog.text)
