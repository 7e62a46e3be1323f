"""Results that are kept, and retries, where tasks run on workers of a real Gnaw that are killed."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from grain.edge import dial
from grain.edge.questions import CODEC, Ask, StateAnswer, unpack
from grain_testkit.local_processes import descendants_of, stop
from grain_testkit.programs import start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from grain_testkit.programs import Process

    Running = AbstractContextManager[Process]

# Each line of a file is one write: whole, or not there. Where {free} tasks have ended, the others
# wait for a file `go`.
PROGRAM = """
import os
import sys
import trio
from grain import GVAR
from grain.delayed import delayed, each, run
from grain.resource import Cores, Memory

def note(file, text):
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{{text}}\\n".encode())
    os.close(fd)

HERE = {here!r}

def many():
    ends = f"{{HERE}}/ends"
    return (os.path.getsize(ends) if os.path.exists(ends) else 0) >= {free}

def more(request, error):
    return Cores(1) & Memory(2 * request.M)

@delayed(cache_hfn="args", retries=3, retry_on=MemoryError, retry_with=more, retry_wait=0.5)
async def energy(i):
    note(f"{{HERE}}/{{i}}", f"begun {{GVAR.res.M:g}}")
    if GVAR.res.M < 2:
        raise MemoryError(f"{{GVAR.res.M}} GB")
    await trio.sleep({seconds})
    while many() and not os.path.exists(f"{{HERE}}/go"):
        await trio.sleep(0.02)
    note(f"{{HERE}}/{{i}}", "computed")
    note(f"{{HERE}}/ends", "")
    return bytes([i]) * 1000

async def main():
    leaf = energy @ (Cores(1) & Memory(1))
    for i, got in enumerate(await each(leaf(i) for i in range({tasks}))):
        assert got == bytes([i]) * 1000

run(main, progress=False, cache=f"{{HERE}}/results")
"""


@contextmanager
def running(home: Path, *words: str) -> Iterator[Process]:
    """A process, ended at last. Of a mission, what it says is kept."""
    err = subprocess.DEVNULL if words[0] == "-m" else subprocess.PIPE
    process = start(*words, cwd=home, text=True, stdout=subprocess.DEVNULL, stderr=err)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def worker(home: Path, name: str) -> Running:
    """A worker with room for four."""
    res = '{"Cores": 4, "Memory": 8}'
    return running(home, "-m", "grain.worker", "--url", f"edge://{home}/edge/meeting",
                   "--res", res, "--name", name)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a configuration, and nothing else running."""
    (tmp_path / "edge").mkdir(mode=0o700)
    (tmp_path / "grain.toml").write_text(f'address = "edge://{tmp_path}/edge/meeting"\n')
    return tmp_path


def count(home: Path, tasks: int, what: str) -> list[int]:
    """Count the notes of each task."""
    files = [home / str(i) for i in range(tasks)]
    return [file.read_text().count(what) if file.exists() else 0 for file in files]


@contextmanager
def gnaw(home: Path) -> Iterator[None]:
    """The scheduler, which gives up soon who is lost.

    It is there from the beginning: a mission that finds none starts one that is more patient, and
    that stays.
    """
    address = f"edge://{home}/edge/meeting"
    with running(home, "-m", "grain.head", "--address", address, "--grace", "2") as process:
        while not (home / "edge" / "meeting").exists():
            assert process.poll() is None
            time.sleep(0.02)
        yield


async def forgotten(home: Path) -> None:
    """Wait until Gnaw has no mission, and nothing runs."""
    async with dial(f"edge://{home}/edge/meeting", role="cli", codec=CODEC, patience=60) as peer:
        while True:
            await peer.channel.send([(Ask("state"), None)])
            state = unpack((await peer.channel.receive())[0][1], StateAnswer)
            if not (state.missions or state.tasks.running):
                return
            await trio.sleep(0.1)


async def ended(mission: Process) -> str:
    """Wait for the end of a mission, and return its stderr."""
    err: str
    _, err = await trio.to_thread.run_sync(mission.communicate)
    assert not mission.returncode, err
    return err


async def test_a_worker_is_killed_amid_second_attempts(home: Path) -> None:
    """They run again elsewhere, which is not an attempt more, and each result is kept once."""
    tasks = 6
    (home / "program.py").write_text(
        PROGRAM.format(here=str(home), seconds=0.0, tasks=tasks, free=0)
    )
    with gnaw(home), trio.fail_after(200), worker(home, "first") as first:
        with running(home, "program.py") as mission:
            while not sum(count(home, tasks, "begun 2")):
                await trio.sleep(0.02)
            stop(first.pid)  # so that it starts nothing that is not seen here
            family = descendants_of(first.pid)[1:]
            first.send_signal(signal.SIGKILL)
            while any(Path(f"/proc/{pid}").exists() for pid in family):
                await trio.sleep(0.02)
            (home / "go").touch()
            with worker(home, "second"):
                err = await ended(mission)

        assert [1] * tasks == count(home, tasks, "computed")
        assert [0] * tasks == count(home, tasks, "begun 4")
        assert max(count(home, tasks, "begun 2")) == 2
        assert "energy failed (MemoryError: 1 GB); attempt 2 of 4" in err
        assert "attempt 3 of 4" not in err

        # No worker is there to compute, and none is needed.
        with running(home, "program.py") as mission:
            await ended(mission)
    assert [1] * tasks == count(home, tasks, "computed")


async def test_missions_share_results_one_is_killed(home: Path) -> None:
    """Two at once in one directory; what a mission that was killed had kept is found by both."""
    tasks = 40
    # When half of them have ended the rest waits, so that no mission ends before one is killed.
    program = PROGRAM.format(here=str(home), seconds=0.1, tasks=tasks, free=tasks // 2)
    (home / "program.py").write_text(program)
    with gnaw(home), trio.fail_after(200), worker(home, "only"):
        with running(home, "program.py") as mission:
            while len(kept := list((home / "results").glob("??/*"))) < tasks // 4:
                assert mission.poll() is None
                await trio.sleep(0.01)
            mission.kill()
            mission.wait()
        killed = str(mission.pid)
        before = count(home, tasks, "computed")
        assert len(kept) <= sum(before)
        (home / "go").touch()

        with running(home, "program.py") as one, running(home, "program.py") as other:
            await ended(one)
            await ended(other)
        await forgotten(home)  # with it, what the killed one left running
        after = count(home, tasks, "computed")

        with running(home, "program.py") as last:
            await ended(last)
    assert after == count(home, tasks, "computed")
    # By each mission, and by what the killed one left running.
    assert all(new - old <= 3 for new, old in zip(after, before, strict=True))
    results = sum(new == old for new, old in zip(after, before, strict=True))
    assert len(kept) <= results
    assert tasks == len(list((home / "results").glob("??/*")))
    # Only a process that was killed amid a write can leave one unfinished; it is not taken for a
    # result.
    unfinished = [file.name for file in (home / "results" / "grain-tmp").iterdir()]
    assert {name.rsplit("-", 2)[1] for name in unfinished} <= {killed}
