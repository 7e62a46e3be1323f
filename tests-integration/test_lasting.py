"""A lasting mission with real processes: what kills a mission, a scheduler or both leaves its runs.

The work of its tasklet is in files, as that of a queue is: it links a file when it begins, so it
begins once, and appends to it when it ends.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import outcome
import pytest
import trio

from grain.edge import dial
from grain.edge.mission_ids import lasting_id
from grain.edge.questions import FoundAnswer, StateAnswer, unpack
from grain.head.errors import MissionReplaced
from grain.head.messages import Ask
from grain.head.service import CODEC
from grain.remote_exer import GnawConnector, LastingMission, RemoteExecutor
from grain.resource import Cores
from grain.worker import Call
from grain_testkit.programs import start, terminated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grain_testkit.programs import Process

ID = lasting_id("queue", "1a2b")
TASK = 7
GIVE_UP = 10
"""Seconds after which a worker without a scheduler leaves, where a test waits for that. Elsewhere
it never does: a busy machine takes long to let it find one."""


async def once(path: str) -> str:
    """Begin once; end when a file is there; say so in a file."""
    from pathlib import Path

    import trio

    Path(path).touch(exist_ok=False)
    while not Path(f"{path}.go").exists():
        await trio.sleep(0.05)
    Path(f"{path}.ended").touch()
    return "the outcome"


PROGRAM = """\
import sys

import trio

from grain.remote_exer import GnawConnector, LastingMission, RemoteExecutor
from grain.resource import Cores
from grain.worker import Call

sys.path.insert(0, {tests!r})
from test_lasting import once

async def main():
    connect = GnawConnector({address!r}, start=False).connect
    lasting = LastingMission({id!r}, 1)
    async with RemoteExecutor(name="queue", connect=connect, lasting=lasting) as executor:
        executor.submit_call(Cores(1), Call(once, ({path!r},), {{}}), number={task})
        print((await executor.results.receive()).outcome, file=sys.stderr)

trio.run(main)
"""


class Site:
    """A scheduler, a worker and the first process of a lasting mission, with a run that goes on."""

    def __init__(self, folder: Path) -> None:
        (folder / "edge").mkdir(mode=0o700)
        self.folder = folder
        self.address = f"edge://{folder}/edge/meeting"
        self.path = str(folder / "begun")

    @contextmanager
    def gnaw(self) -> Iterator[Process]:
        """Start a scheduler; the first one serves when this returns, as a worker gives up soon."""
        with running("grain.head", "--address", self.address, "--grace", "1") as process:
            while not (self.folder / "edge" / "meeting").exists():
                assert process.poll() is None
                time.sleep(0.05)
            yield process

    def worker(self, name: str = "w", give_up: int = 600) -> Any:
        """Return a worker that gives up after so many seconds without a scheduler."""
        return running(
            *("grain.worker", "--url", self.address, "--res", '{"Cores": 1}', "--name", name),
            *("--give-up", str(give_up)),
            log=self.folder / f"{name}.log",
        )

    async def first(self) -> Process:
        """Start the first process; return it when its run has begun."""
        program = self.folder / "mission.py"
        tests = str(Path(__file__).parent)
        words = {"tests": tests, "address": self.address, "id": ID, "path": self.path}
        program.write_text(PROGRAM.format(**words, task=TASK))
        with (self.folder / "mission.log").open("w") as log:
            process = start(program, stderr=log)
        try:
            await there(self.path)
        except BaseException:
            process.kill()
            raise
        return process

    def next(self, generation: int = 2) -> RemoteExecutor:
        connect = GnawConnector(self.address, start=False).connect
        lasting = LastingMission(ID, generation, generation * 1000)
        return RemoteExecutor(name="queue", connect=connect, lasting=lasting)

    async def state(self, true: Callable[[StateAnswer], object]) -> StateAnswer:
        """Ask the scheduler for its state until it is so, and return it."""
        while True:
            state = unpack(await self.ask(Ask("state")), StateAnswer)
            if true(state):
                return state
            await trio.sleep(0.05)

    async def ask(self, ask: Ask) -> Any:
        async with dial(self.address, role="cli", codec=CODEC, patience=60) as peer:
            await peer.channel.send([(ask, None)])
            [(_, payload)] = await peer.channel.receive()
            return payload

    async def adopt(self, worker: str = "", first: Process | None = None) -> None:
        """Have the next process get the outcome of the run that the first one began.

        Args:
            first: the first process if it lives; it ends, with an error, before the run does.
        """
        async with self.next() as executor:
            got: list[Any] = []
            call = Call(once, (self.path,), {})
            executor.submit_call(Cores(1), call, got.append, number=TASK, worker=worker)
            if first is not None:
                assert 1 == await trio.to_thread.run_sync(first.wait)
            await self.state(lambda s: s.tasks.running == 1 and s.missions[0].connected)
            Path(f"{self.path}.go").touch()
            await executor.join()
            assert [outcome.Value("the outcome")] == got


@contextmanager
def running(*words: str, log: Path | None = None) -> Iterator[Process]:
    # The program of the first process is a file elsewhere, and a worker imports this module.
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with Path(log or os.devnull).open("w") as errors:
        process = start("-m", *words, stderr=errors, env=environ)
    with terminated(process):
        yield process


async def there(path: str) -> None:
    """Wait for a file."""
    while not Path(path).exists():
        await trio.sleep(0.05)


async def killed(process: Process) -> None:
    process.kill()
    await trio.to_thread.run_sync(process.wait)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def away_for_long(site: Site) -> None:
    """Wait until a mission that comes and is killed after this one is over, which is not lasting.

    Its grace period began later, and is as long.
    """
    connect = GnawConnector(site.address, start=False).connect
    with trio.CancelScope() as scope:
        async with RemoteExecutor(name="other", connect=connect) as executor:
            executor.submit(Cores(1), once, "never")
            await site.state(lambda s: len(s.missions) == 2)
            scope.cancel()
            await trio.sleep_forever()
    for _ in range(3):  # of its own seconds, in which it looks at what is away
        await trio.sleep(1.0)
        await site.state(lambda s: len(s.missions) == 1)


async def test_a_run_goes_on_when_its_mission_is_killed_and_the_next_process_has_its_outcome(
    site: Site,
) -> None:
    with site.gnaw(), site.worker(), trio.fail_after(120):
        await killed(await site.first())
        await away_for_long(site)
        state = await site.state(lambda _: True)
        assert ("queue", False) == (state.missions[0].name, state.missions[0].connected)
        assert 1 == state.tasks.running

        await site.adopt()
        await site.state(lambda s: not s.missions and s.workers[0].free == s.workers[0].total)


async def test_a_run_goes_on_when_mission_and_scheduler_are_killed(site: Site) -> None:
    """The worker finds no scheduler for longer than it waits for one, and serves the next one."""
    with site.gnaw() as gnaw, site.worker(give_up=GIVE_UP) as worker, trio.fail_after(120):
        first = await site.first()
        [of] = (await site.state(lambda s: s.workers)).workers
        await killed(gnaw)
        await killed(first)
        await trio.sleep(GIVE_UP + 2)
        assert worker.poll() is None
        with site.gnaw():
            await site.adopt(of.id)
            await site.state(lambda s: not s.missions)


async def test_a_worker_without_a_scheduler_leaves_when_its_lasting_runs_have_ended(
    site: Site,
) -> None:
    with site.gnaw() as gnaw, site.worker(give_up=GIVE_UP) as worker, trio.fail_after(120):
        first = await site.first()
        await killed(gnaw)
        await killed(first)
        await trio.sleep(GIVE_UP + 2)
        assert worker.poll() is None
        Path(f"{site.path}.go").touch()

        await there(f"{site.path}.ended")
        assert 3 == await trio.to_thread.run_sync(worker.wait)
    assert f"no scheduler for {GIVE_UP} s" in (site.folder / "w.log").read_text()


async def test_a_worker_that_drains_lets_the_run_of_a_killed_mission_end(site: Site) -> None:
    with site.gnaw(), site.worker() as worker, trio.fail_after(120):
        await killed(await site.first())
        await site.ask(Ask("drain", pattern="w"))
        await away_for_long(site)
        assert worker.poll() is None

        await site.adopt()
        assert 0 == await trio.to_thread.run_sync(worker.wait)


async def test_a_run_of_a_killed_mission_ends_with_the_time_of_its_worker(site: Site) -> None:
    """By SIGTERM, as a batch system sends it; the run never begins again."""
    with site.gnaw(), site.worker() as worker, trio.fail_after(120):
        await killed(await site.first())
        worker.terminate()
        await trio.to_thread.run_sync(worker.wait)
        await site.state(lambda s: not s.missions)
    assert not Path(f"{site.path}.ended").exists()


async def test_a_user_ends_a_lasting_mission_of_which_no_process_lives(site: Site) -> None:
    with site.gnaw(), site.worker(), trio.fail_after(120):
        await killed(await site.first())
        found = unpack(await site.ask(Ask("cancel", mission="queue", by="me@host")), FoundAnswer)
        assert not found.error
        await site.state(lambda s: not s.missions and s.workers[0].free == s.workers[0].total)
    assert not Path(f"{site.path}.ended").exists()


async def test_of_two_processes_the_later_one_is_served_and_the_other_ends(site: Site) -> None:
    with site.gnaw(), site.worker(), trio.fail_after(120):
        first = await site.first()
        try:
            await site.adopt(first=first)
        finally:
            first.kill()
    assert MissionReplaced.__name__ in (site.folder / "mission.log").read_text()
