"""Jobs of ``grain map`` that were started: how many wait, in which slots, how far apart."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
import trio

from grain.delayed import mission
from grain.inputs.splitting import Columns
from grain.map.halting import Tally, parse_halt
from grain.map.jobs import WAITING, JobEnd, Jobs, MapJob, _end_of
from grain.map.output import OutputPrinter, tagged
from grain.map.plan import MapOptions
from grain.resource import Capacity
from grain.worker.errors import ExternalMemoryError, ExternalTimeoutError, Failure, add_note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.delayed.value import Delayed
    from grain.map.overflow import Output
    from grain.worker.external import Completed


class Leaving(Exception):
    """Ends a mission whose jobs would not end."""


async def started(
    halt: str, at_once: int | None, most: int, least: int, *, slots: bool = False
) -> int:
    """Return the number of endless jobs that are started where two run at a time.

    It waits until at least ``least`` have started, then looks whether more follow, up to ``most``.
    """
    policy = parse_halt(halt)
    plan = MapOptions((), (), Columns(), Capacity(1), at_once=at_once, halt=policy)
    count = 0
    try:
        async with mission(Capacity(2), config_file=False, progress=False) as active:
            async with trio.open_nursery() as nursery:
                with OutputPrinter() as output:
                    jobs = Jobs(plan, active, nursery, Tally(policy), None, output, slots=slots)

                    async def feed() -> None:
                        nonlocal count
                        while count < most:
                            await jobs.wait_for_room()
                            count += 1
                            jobs.start(MapJob(count, ["sleep", "1000.25"], "", Path.cwd(), None))

                    nursery.start_soon(feed)
                    with trio.fail_after(300):
                        while count < least or active.executor.statistics().running < 2:
                            await trio.sleep(0.01)
                    # Many sleeps rather than a long one: however slow all is, `room` has its turn
                    # between them, and looks again.
                    for _ in range(50):
                        await trio.sleep(0.02)
                    nursery.cancel_scope.cancel()
            raise Leaving
    except Leaving:
        return count


async def test_few_jobs_wait() -> None:
    """However long the input is, few jobs wait, so memory stays flat."""
    assert WAITING <= await started("never", None, 3 * WAITING, WAITING) <= WAITING + 2


async def test_fewer_wait_if_a_policy_says_soon() -> None:
    """Jobs that the worker has already would run all the same."""
    assert 3 == await started("soon,fail=1", None, 50, 3)
    assert 2 == await started("soon,fail=1", 2, 50, 2)


async def test_no_more_jobs_are_made_than_there_are_slots() -> None:
    """A job gets its slot before it runs, so one that waits would have one, too."""
    assert 2 == await started("never", 2, 50, 2, slots=True)


async def test_a_slot_is_of_one_job_at_a_time_and_the_lowest_that_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = MapOptions((), (), Columns(), Capacity(1), at_once=2)
    monkeypatch.chdir(tmp_path)
    slots = []
    # The first one ends when the others have had the second slot in turn.
    first = ["sh", "-c", "while ! [ -e go ]; do sleep 0.02; done"]
    async with (
        mission(Capacity(2), config_file=False, progress=False) as active,
        trio.open_nursery() as nursery,
    ):
        output = OutputPrinter()
        jobs = Jobs(plan, active, nursery, Tally(plan.halt), None, output, slots=True)
        for seq, argv in enumerate([first, ["true"], ["true"], ["touch", "go"]], 1):
            await jobs.wait_for_room()
            slots.append(jobs.take_slot())
            jobs.start(MapJob(seq, argv, "", Path.cwd(), None, slot=slots[-1]))

    assert [1, 2, 2, 2] == slots


async def test_a_job_that_fails_is_not_tried_again_when_all_is_halted(tmp_path: Path) -> None:
    policy = parse_halt("soon,fail=1")
    plan = MapOptions((), (), Columns(), Capacity(1), halt=policy, tries=3)
    tally = Tally(policy)
    waits = ["sh", "-c", "echo >> tries; while ! [ -e go ]; do sleep 0.02; done; exit 1"]
    async with (
        mission(Capacity(2), config_file=False, progress=False) as active,
        trio.open_nursery() as nursery,
    ):
        jobs = Jobs(plan, active, nursery, tally, None, OutputPrinter())
        jobs.start(MapJob(1, ["false"], "", tmp_path, None))
        jobs.start(MapJob(2, waits, "", tmp_path, None))
        with trio.fail_after(120):
            while not (tally.halted and (tmp_path / "tries").exists()):
                await trio.sleep(0.01)
        (tmp_path / "go").touch()

    assert "\n" == (tmp_path / "tries").read_text()
    assert 2 == tally.failed


@pytest.mark.parametrize("tries", [1, 3])
async def test_a_job_that_fails_is_tried_so_often_and_counts_once(
    tmp_path: Path, tries: int
) -> None:
    plan = MapOptions((), (), Columns(), Capacity(1), tries=tries)
    tally = Tally(plan.halt)
    async with (
        mission(Capacity(1), config_file=False, progress=False) as active,
        trio.open_nursery() as nursery,
    ):
        jobs = Jobs(plan, active, nursery, tally, None, OutputPrinter())
        jobs.start(
            MapJob(1, ["sh", "-c", "echo $GRAIN_ATTEMPT >> tries; exit 3"], "", tmp_path, None)
        )

    attempts = ["", *map(str, range(2, tries + 1))]
    assert attempts == (tmp_path / "tries").read_text().splitlines()
    assert (0, 1) == (tally.succeeded, tally.failed)


async def test_a_job_that_is_ended_at_its_time_limit_is_counted_as_such(tmp_path: Path) -> None:
    plan = MapOptions((), (), Columns(), Capacity(1), timeout=0.1)
    tally = Tally(plan.halt)
    async with (
        mission(Capacity(1), config_file=False, progress=False) as active,
        trio.open_nursery() as nursery,
    ):
        jobs = Jobs(plan, active, nursery, tally, None, OutputPrinter())
        jobs.start(MapJob(1, ["sleep", "1000.25"], "", tmp_path, None))

    assert "time limit" in tally.summary()


async def test_what_became_of_a_warning_is_told_at_the_time_limit() -> None:
    async def limited() -> Completed:
        reason = "ended at once by the warning SIGTERM"
        raise ExternalTimeoutError(Failure(("sleep",), "n1", reason=reason, warned="time"))

    job = MapJob(1, ["sleep", "9"], "sleep 9", Path.cwd(), None)
    end = await _end_of(job, cast("Delayed[Completed]", limited()), 0.0)
    assert ("ended at once by the warning SIGTERM: sleep 9", True) == (end.remark, end.timed_out)


async def test_a_job_that_had_too_little_memory_says_why_it_is_not_tried_again() -> None:
    async def ended() -> Completed:
        failure = Failure(("eat",), "n1", returncode=-15, elapsed=2.0, exceeded=True,
                          memory_request=0.9)  # fmt: skip
        error = ExternalMemoryError(failure)
        note = "It could not be tried again, with Memory(32): never here: ask for less, or run(...)"
        add_note(error, f"{note}\nThe attempts:\n  attempt 1")
        raise error

    job = MapJob(1, ["eat"], "eat", Path.cwd(), None)
    end = await _end_of(job, cast("Delayed[Completed]", ended()), 0.0)
    assert end.remark == (
        "eat: used 0.00 GB of 0.9 and was ended after 2 s. It could not be tried again, with "
        "Memory(32): never here: ask for less by -r, or give more by --local"
    )
    assert ("too little memory", 15) == (end.kind, end.signal)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "kill -KILL $$"], 137),
        (["/no/such/program"], 127),
        (["/etc/passwd"], 126),
    ],
)
async def test_the_end_of_a_job_is_that_of_a_shell_and_now_ends_all_others(
    tmp_path: Path, words: list[str], status: int
) -> None:
    policy = parse_halt("now,fail=1")
    plan, tally = MapOptions((), (), Columns(), Capacity(1), halt=policy), Tally(policy)
    with pytest.raises(Leaving):
        async with mission(Capacity(2), config_file=False, progress=False) as active:
            with trio.fail_after(120):
                async with trio.open_nursery() as nursery:
                    jobs = Jobs(plan, active, nursery, tally, None, OutputPrinter())
                    jobs.start(MapJob(1, ["sleep", "1000.25"], "", tmp_path, None))
                    jobs.start(MapJob(2, words, "", tmp_path, None))
            raise Leaving
    assert status == tally.exit_status()


class FullOutput(OutputPrinter):
    """An output on a disk that is full."""

    async def put(self, seq: int, out: Sequence[Output], err: Sequence[Output]) -> None:
        del seq, out, err
        raise OSError(errno.ENOSPC, "No space left on device")


async def test_an_output_that_cannot_be_written_ends_all(tmp_path: Path) -> None:
    plan = MapOptions((), (), Columns(), Capacity(1))
    with pytest.raises(Leaving):
        async with mission(Capacity(2), config_file=False, progress=False) as active:
            with trio.fail_after(120):
                async with trio.open_nursery() as nursery:
                    jobs = Jobs(plan, active, nursery, Tally(plan.halt), None, FullOutput())
                    jobs.start(MapJob(1, ["sleep", "1000.25"], "", tmp_path, None))
                    jobs.start(MapJob(2, ["true"], "", tmp_path, None))
            assert jobs.error is not None
            assert errno.ENOSPC == jobs.error.errno
            raise Leaving


async def test_jobs_start_no_closer_than_the_delay() -> None:
    """The delay counts from the start of a job, which may wait for resources before."""
    plan = MapOptions((), (), Columns(), Capacity(1), delay=0.1)
    starts = []
    async with (
        mission(Capacity(3), config_file=False, progress=False) as active,
        trio.open_nursery() as nursery,
    ):
        jobs = Jobs(plan, active, nursery, Tally(plan.halt), None, OutputPrinter())
        for seq in (1, 2, 3):
            await jobs.wait_for_room()
            starts.append(trio.current_time())
            jobs.start(MapJob(seq, ["true"], "", Path.cwd(), None))

    assert all(later - earlier >= 0.1 for earlier, later in pairwise(starts))


def test_every_line_of_an_output_is_tagged() -> None:
    assert b"" == tagged(b"", b"t\t")
    assert b"t\ta\n" == tagged(b"a\n", b"t\t")
    assert b"t\ta\nt\t\nt\tb" == tagged(b"a\n\nb", b"t\t")


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        (JobEnd("h", 1.0, 0), "succeeded"),
        (JobEnd("h", 1.0, 7), "failed with exit status 7"),
        (JobEnd("h", 1.0, 0, 9), "was ended by SIGKILL"),
        (JobEnd("h", 1.0, 0, 40), "was ended by signal 40"),
        (JobEnd("h", 1.0, -1), "failed without an exit status"),
        (JobEnd("h", 1.0, -1, 15, timed_out=True), "was ended at its time limit"),
        (JobEnd("h", 1.0, 0, 15, out_of_memory=True), "had too little memory"),
    ],
)
def test_the_end_of_a_job_reads_as_part_of_a_sentence(end: JobEnd, verdict: str) -> None:
    assert verdict == end.verdict
