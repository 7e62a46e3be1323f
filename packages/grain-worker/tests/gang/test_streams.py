"""What a program of a launcher writes on a member, and what it finds there."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from grain.worker.errors import (
    ExternalError,
    ExternalMemoryError,
    ExternalStartError,
    ExternalTimeoutError,
)
from grain.worker.external import Completed, ProgramCall
from grain.worker.gang.messages import OUTPUT, ProgramOrder
from grain.worker.gang.programs import NO_BOUND, MemberPrograms, MemoryBound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from grain.worker.gang.programs import Outcome


class Member:
    """The programs of a member, and all that they report."""

    def __init__(self, nursery: trio.Nursery, bound: MemoryBound = NO_BOUND) -> None:
        self.written: list[bytes] = []
        self.ended: list[Outcome] = []
        self.programs = MemberPrograms(
            nursery,
            lambda _, stream, data: self.written.append(b"%d:" % stream + data),
            lambda _, outcome: self.ended.append(outcome),
            bound,
        )


@asynccontextmanager
async def started(bound: MemoryBound = NO_BOUND) -> AsyncIterator[Member]:
    """Have a member; at the end wait for its programs."""
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            yield Member(nursery, bound)


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def order(script: str, streams: bool, reads: bool = False, **sent: str) -> ProgramOrder:
    environment = {"PATH": os.environ["PATH"], **sent}
    variables = tuple((os.fsencode(k), os.fsencode(v)) for k, v in environment.items())
    return ProgramOrder(
        (b"/bin/sh", b"-c", script.encode()), variables, b"/", streams=streams, reads=reads
    )


async def test_output_waits_until_what_came_before_has_been_taken(tmp_path: Path) -> None:
    more, written = tmp_path / "more", tmp_path / "written"
    for place in (more, written):
        os.mkfifo(place)
    script = f"echo one; read x < {more}; echo two; echo x > {written}; read x < {more}"
    async with started() as member:
        member.programs.start(1, order(script, streams=True))
        while not member.written:
            await trio.lowlevel.checkpoint()

        await trio.to_thread.run_sync(more.write_text, "go\n")
        await trio.to_thread.run_sync(written.read_text)  # it is in the pipe by now
        await wait_all_tasks_blocked()
        assert [b"1:one\n"] == member.written

        member.programs.take(1, 1)
        while len(member.written) < 2:
            await trio.lowlevel.checkpoint()
        await trio.to_thread.run_sync(more.write_text, "end\n")

    assert [b"1:one\n", b"1:two\n"] == member.written


async def test_a_program_reads_what_it_is_given_to_the_end() -> None:
    async with started() as member:
        member.programs.start(1, order("exec cat", streams=True, reads=True))
        for data in (b"one\n", b"two\n"):
            member.programs.give(1, data)
        member.programs.give(1, b"")

    (done,) = member.ended
    assert isinstance(done, Completed)
    assert [b"0:1", b"0:1", b"0:"] == [one for one in member.written if one.startswith(b"0:")]
    read = b"".join(one[2:] for one in member.written if one.startswith(b"1:"))
    assert b"one\ntwo\n" == read


async def test_input_that_a_program_does_not_read_yet_is_not_taken(tmp_path: Path) -> None:
    more = tmp_path / "more"
    os.mkfifo(more)
    async with started() as member:
        script = f"read x < {more}; exec wc -c"
        member.programs.start(1, order(script, streams=True, reads=True))
        member.programs.give(1, b"a")
        while not member.written:
            await trio.lowlevel.checkpoint()
        member.programs.give(1, b"b" * 2_000_000)  # more than fits in a pipe
        await wait_all_tasks_blocked()
        assert [b"0:1"] == member.written
        await trio.to_thread.run_sync(more.write_text, "go\n")
        member.programs.give(1, b"")

    assert b"1:2000001\n" in member.written


async def test_a_program_that_reads_no_more_holds_up_no_one(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    os.mkfifo(closed)
    async with started() as member:
        script = f"exec <&-; echo x > {closed}; read x < {closed}"
        member.programs.start(1, order(script, streams=True, reads=True))
        await trio.to_thread.run_sync(closed.read_text)
        member.programs.give(1, b"late")
        while not member.written:
            await trio.lowlevel.checkpoint()
        member.programs.give(1, b"later still")
        assert [b"0:"] == member.written
        await trio.to_thread.run_sync(closed.write_text, "end\n")


@pytest.mark.parametrize("script", ["exit 3", "true", "exec no-such-program"])
async def test_a_program_that_ends_before_it_is_given_anything_ends_as_any(script: str) -> None:
    async with started() as member:
        member.programs.start(1, order(script, streams=True, reads=True))

    assert 1 == len(member.ended)
    member.programs.give(1, b"late")


@pytest.mark.parametrize(("streams", "threads"), [(True, "7"), (False, "")])
async def test_only_ranks_of_a_launcher_have_the_threads_that_are_passed_on(
    streams: bool, threads: str
) -> None:
    async with started() as member:
        script = 'echo "${OMP_NUM_THREADS#none}"'
        member.programs.start(1, order(script, streams, OMP_NUM_THREADS="7"))

    (done,) = member.ended
    assert isinstance(done, Completed)
    said = b"".join(member.written)[2:] if streams else done.stdout
    assert (threads == "7") == (said == b"7\n")


async def test_a_program_that_its_call_has_ended_reports_what_it_has_used(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    async with started() as member:
        script = f"echo here > {begun}; exec sleep 600"
        member.programs.start(1, order(script, streams=False))
        await trio.to_thread.run_sync(begun.read_text)
        member.programs.end(1)

    (ended,) = member.ended
    assert isinstance(ended, ExternalError)
    assert ended.usage is not None
    assert (True, 1) == (ended.usage.peak_memory > 0, ended.usage.programs)


async def test_a_program_is_held_to_the_memory_of_its_task() -> None:
    """Long enough for two looks; the bound is what the task has, and not what the process sees."""
    script = f"exec {sys.executable} -c 'import time; kept = b\"x\" * 200_000_000; time.sleep(600)'"
    async with started(MemoryBound(0.1, enforced=True)) as member:
        member.programs.start(1, order(script, streams=True))

    (ended,) = member.ended
    assert isinstance(ended, ExternalMemoryError)
    assert (0.1, True) == (ended.failure.memory_request, ended.failure.exceeded)


@pytest.mark.parametrize("by_default", [True, False])
@pytest.mark.parametrize("stated", [True, False, None])
async def test_what_a_call_says_of_memory_goes_before_what_holds_on_the_member(
    monkeypatch: pytest.MonkeyPatch, by_default: bool, stated: bool | None
) -> None:
    most: list[float | None] = []

    async def run(call: ProgramCall, *_: object, **__: object) -> Completed:
        most.append(call.request["most"])
        return Completed(call.argv, 0, b"", b"", 0.0, 0.0, 0.0, 0.0, "n1")

    monkeypatch.setattr("grain.worker.gang.programs.run_program_call", run)
    async with started(MemoryBound(0.1, enforced=by_default)) as member:
        member.programs.start(1, replace(order("true", streams=False), enforce=stated))

    assert (by_default if stated is None else stated) == (most != [None])


BY_FILE = "until [ -s EXIT ]; do sleep 0.02; done; cat EXIT; exit 2"
BY_SIGNAL = "trap 'echo now; exit 2' TERM; touch ready; while :; do sleep 0.02; done"


@pytest.mark.parametrize("worker", [True, False])
@pytest.mark.parametrize("way", ["file", "signal"])
async def test_a_program_is_warned_on_its_member_and_stops_softly(
    tmp_path: Path, way: str, worker: bool
) -> None:
    exit_file, ready = tmp_path / "EXIT", tmp_path / "ready"
    if way == "file":
        exit_file.write_text("of an earlier attempt")
    async with started() as member:
        told: tuple[bytes, str] | int = int(signal.SIGTERM)
        if way == "file":
            told = (os.fsencode(exit_file), "now\n")
        script = BY_FILE if way == "file" else BY_SIGNAL
        folder = os.fsencode(tmp_path)
        member.programs.start(
            1, replace(order(script, streams=False), cwd=folder, warn=(told, 30.0))
        )
        while way == "signal" and not ready.exists():
            await trio.sleep(0.01)
        member.programs.warn(1, worker=worker)
        member.programs.warn(2, worker=worker)  # has ended

    (ended,) = member.ended
    assert isinstance(ended, ExternalTimeoutError)
    assert ("worker" if worker else "time", True) == (ended.warned, ended.stopped_softly)
    assert (2, b"now\n") == (ended.returncode, ended.stdout)
    assert exit_file.exists() == (
        way == "file"
    )  # the root removes it when the programs of all members have ended


async def test_a_member_without_the_directory_of_the_warning_starts_nothing(tmp_path: Path) -> None:
    async with started() as member:
        told = os.fsencode(tmp_path / "gone" / "EXIT"), ""
        script = f"touch {tmp_path}/ran"
        member.programs.start(1, replace(order(script, streams=False), warn=(told, 30.0)))

    (ended,) = member.ended
    assert isinstance(ended, ExternalStartError)
    assert "the directory of the file EXIT, is not there" in str(ended)
    assert not (tmp_path / "ran").exists()


async def test_what_a_program_says_of_memory_counts_on_its_member() -> None:
    async with started() as member:
        said = replace(
            order("echo no room for that >&2; exit 1", streams=False),
            memory_signs=("out of luck", "no room"),
        )
        member.programs.start(1, said)

    (ended,) = member.ended
    assert isinstance(ended, ExternalMemoryError)
    assert "no room" in ended.evidence


@pytest.mark.parametrize("bound", [NO_BOUND, MemoryBound(8), MemoryBound(0.1, enforced=True)])
def test_a_bound_of_memory_travels_as_a_word(bound: MemoryBound) -> None:
    assert bound == MemoryBound.parse(str(bound))


async def test_of_a_long_output_the_end_is_reported() -> None:
    async with started() as member:
        script = f"head -c {OUTPUT} /dev/zero | tr '\\0' a; echo end"
        member.programs.start(1, order(script, streams=False))

    (done,) = member.ended
    assert done.stdout is not None
    assert OUTPUT == len(done.stdout)
    assert done.stdout.endswith(b"aend\n")
