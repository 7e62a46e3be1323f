"""An attempt of a job whose process has died is noted as lost by the agent beside it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from grain.queue.folder import Queue
from grain.queue.records import Begun, Ended, Job
from grain.worker.jobs.lost import note_lost
from grain.worker.jobs.run import AttemptCall, JobFunction
from grain.worker.messages import JobBegins
from grain_testkit.local_processes import alive, read_pid
from grain_testkit.runner_station import station

if TYPE_CHECKING:
    from pathlib import Path

    from grain.worker.agent.listener import RunnerDeath

RUN = 7, 3


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue.open(tmp_path / "queue", make=True)


def job(folder: Path, *command: str) -> Job:
    return Job(
        name="opt", at=0.0, host="login1", user="ann", directory=str(folder), command=command,
        environment={"PATH": os.environ["PATH"]},
    )  # fmt: skip


def begins(queue: Queue, number: int) -> JobBegins:
    return JobBegins(RUN, str(queue.folder), number, None, 1)


async def test_the_receipt_is_there_before_the_death_is_told(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is there whatever becomes of scheduler and dispatcher."""
    program = tmp_path / "pid"
    number = queue.submit(job(tmp_path, "sh", "-c", f"echo $$ > {program}; exec sleep 1000"))
    at_death: list[Ended | None] = []
    async with station() as s:
        died = s.witness.died

        def on_death(death: RunnerDeath) -> None:
            at_death.append(queue.ended(number, None, 1))
            died(death)

        monkeypatch.setattr(s.witness, "died", on_death)
        what = AttemptCall(str(queue.folder), number, None, 1, 17, 1, queue.mission)
        s.start(JobFunction("opt"), what)
        pid = await read_pid(program)
        begun = queue.begun(number, None, 1)
        assert begun is not None
        os.kill(begun.pid, signal.SIGKILL)
        await s.witness.until(lambda: s.witness.deaths)
        assert not alive(pid)
        # A job that has ended is not lost by the death of the runner that had it.
        done = queue.submit(job(tmp_path, "true"))
        ended = s.start(JobFunction("opt"), what._replace(number=done))
        await s.witness.until(lambda: ended in s.witness.outcomes)
        begun = queue.begun(done, None, 1)
        assert begun is not None
        waits = s.start(trio.sleep_forever)
        os.kill(begun.pid, signal.SIGKILL)
        await s.witness.until(lambda: len(s.witness.deaths) == 2)
        assert ((1, waits),) == s.witness.deaths[1].runs
        assert () == s.witness.deaths[1].jobs
    [lost, _] = at_death
    assert lost is not None
    assert ("lost", True) == (lost.how, "was ended by SIGKILL" in lost.message)


@pytest.mark.parametrize(
    ("run", "ended", "how", "others"),
    [
        (RUN, False, "lost", ()),
        ((7, 2), False, None, ()),
        (None, False, None, ()),
        (RUN, True, "exit", ()),
        (RUN, False, None, ("n2",)),
    ],
    ids=["its own", "of another run", "not begun", "ended", "on several workers"],
)
async def test_only_an_attempt_that_the_run_has_begun_and_not_ended_is_lost(
    queue: Queue,
    tmp_path: Path,
    run: tuple[int, int] | None,
    ended: bool,
    how: str | None,
    others: tuple[str, ...],
) -> None:
    number = queue.submit(job(tmp_path, "true"))
    if run is not None:
        queue.begin(number, None, 1, Begun(at=1.0, host="n1", run=run, others=others))
    if ended:
        queue.end(number, None, 1, Ended(how="exit", at=2.0))
    await note_lost([begins(queue, number)], "the runner on n1 was ended by SIGSEGV")
    noted = queue.ended(number, None, 1)
    assert how == (None if noted is None else noted.how)
    if how == "lost":
        assert "the runner on n1 was ended by SIGSEGV" == noted.message  # type: ignore[union-attr]


async def test_a_queue_that_is_gone_is_named_and_keeps_no_other_from_its_receipt(
    queue: Queue, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    number = queue.submit(job(tmp_path, "true"))
    queue.begin(number, None, 1, Begun(at=1.0, host="n1", run=RUN))
    gone = msgspec.structs.replace(begins(queue, 12), queue=str(tmp_path / "gone"))
    await note_lost([gone, begins(queue, number)], "killed")
    noted = queue.ended(number, None, 1)
    assert noted is not None
    assert "lost" == noted.how
    assert "job 12 was lost with its process, and that cannot be noted: " in caplog.text
