"""Steps of a job that really runs: numbers, notes, and a wish that ends one."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest
import trio

from grain.queue.folder import Queue
from grain.queue.notes.steps import steps_of
from grain.queue.records import Job, Wish
from grain.worker.jobs import run
from grain.worker.jobs.run import AttemptCall, run_job

if TYPE_CHECKING:
    from pathlib import Path

# What srun does, without its words.
SRUN = """
import json, os, socket, subprocess, sys
desk = socket.socket(socket.AF_UNIX)
desk.connect("\\0" + os.environ["GRAIN_STEPS"])
lines = desk.makefile("r")
def tell(**content):
    desk.sendall(json.dumps(content).encode() + b"\\n")
tell(name=sys.argv[1], tasks=1)
json.loads(lines.readline())
program = subprocess.Popen(sys.argv[1:])
tell(started=[program.pid])
program.wait()
tell(ended=[program.returncode])
for line in lines:
    if "noted" in json.loads(line):
        break
"""


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue.open(tmp_path / "queue", make=True)


async def ran(queue: Queue, folder: Path, script: str) -> int:
    (folder / "srun.py").write_text(SRUN)
    job = Job(
        name="x", at=0.0, host="h", user="me", directory=str(folder),
        command=("sh", "-c", script.replace("srun", f"{sys.executable} -S srun.py")),
        environment={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    number = queue.submit(job)
    call = AttemptCall(
        str(queue.folder), number, None, 1, ticket=1, wishes=1, mission=queue.mission
    )
    await run_job(call)
    return number


async def test_steps_are_noted(queue: Queue, tmp_path: Path) -> None:
    number = await ran(queue, tmp_path, "srun true; srun false")
    found = [(one.step, one.name, one.statuses) for one in steps_of(queue, number, None, 1)]
    assert [(0, "true", (0,)), (1, "false", (1,))] == found


async def test_a_step_is_ended_and_its_job_goes_on(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_LOOK", 0.05)

    async def end_it() -> None:
        while not steps_of(queue, 1, None, 1):
            await trio.sleep(0.02)
        wish = Wish(
            what="signal", jobs=((1, 1),), by="me", at=time.time(), signal=signal.SIGKILL, step=0
        )
        queue.wish(wish)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_it)
        number = await ran(queue, tmp_path, "srun sleep 600; exit 5")
    (step,) = steps_of(queue, number, None, 1)
    assert ("CANCELLED", (-15,)) == (step.state, step.statuses)
    ended = queue.ended(number, None, 1)
    assert ended is not None
    assert ("exit", 5) == (ended.how, ended.status)
