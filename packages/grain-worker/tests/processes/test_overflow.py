"""Captured output that is too large for memory: in files, which the result or the error names."""

from __future__ import annotations

import errno
import os
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from grain import GVAR
from grain.resource import Token
from grain.worker.external import (
    CAPTURE,
    STDOUT,
    ExternalError,
    ExternalTimeoutError,
    ProgramCall,
    run_external,
    run_program_call,
)
from grain.worker.guards.program import IN_MEMORY, PIECE, Spill
from grain_testkit.small_disk import small_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from grain.worker.errors import OutputFile

MUCH = f"head -c {3 * IN_MEMORY} /dev/zero"


@pytest.fixture(autouse=True)
def no_allocation() -> Iterator[None]:
    with GVAR.scope(Token("own")):
        yield


def content(file: OutputFile | None) -> bytes:
    assert file is not None
    with open(file.path, "rb") as opened:  # noqa: PTH123 - its path is a string
        data = opened.read()
    assert file.size == len(data)
    return data


async def test_what_fits_is_captured_and_makes_no_file(tmp_path: Path) -> None:
    words = ["sh", "-c", f"head -c {IN_MEMORY} /dev/zero; echo err >&2"]
    done = await run_external(words, overflow=tmp_path / "of")

    assert (bytes(IN_MEMORY), b"err\n") == (done.stdout, done.stderr)
    assert (None, None) == done.overflows
    assert not (tmp_path / "of").exists()


async def test_a_large_stream_is_in_a_private_file_and_the_other_one_captured(
    tmp_path: Path,
) -> None:
    """The next program of the same supervisor finds nothing of it."""
    folder = tmp_path / "deep" / "of"
    words = ["sh", "-c", f"echo first; {MUCH}; echo last; echo err >&2"]
    done = await run_external(words, overflow=folder)
    after = await run_external(["echo", "after"], overflow=folder)

    assert (None, b"err\n") == (done.stdout, done.stderr)
    assert b"first\n" + bytes(3 * IN_MEMORY) + b"last\n" == content(done.overflows[0])
    assert done.overflows[1] is None
    (file,) = folder.iterdir()
    assert (0o600, 0o700) == (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777)
    assert (b"after\n", b"") == (after.stdout, after.stderr)


async def test_both_streams_in_one_are_in_one_file(tmp_path: Path) -> None:
    words = ["sh", "-c", f"echo out; echo err >&2; {MUCH}"]
    done = await run_external(words, stderr=STDOUT, overflow=tmp_path)

    assert b"out\nerr\n" + bytes(3 * IN_MEMORY) == content(done.overflows[0])
    assert (None, None, None) == (done.stdout, done.stderr, done.overflows[1])


async def test_a_file_of_the_users_is_written_as_without(tmp_path: Path) -> None:
    done = await run_external(["sh", "-c", MUCH], stdout=tmp_path / "out", overflow=tmp_path / "of")

    assert (None, None) == done.overflows
    assert 3 * IN_MEMORY == (tmp_path / "out").stat().st_size


async def test_an_error_names_the_files_and_has_the_last_lines(tmp_path: Path) -> None:
    with pytest.raises(ExternalError) as raised:
        await run_external(
            ["sh", "-c", f"{MUCH}; echo; echo why; {MUCH} >&2; echo >&2; echo reason >&2; exit 3"],
            overflow=tmp_path,
        )

    error = raised.value
    assert (3, "reason") == (error.returncode, error.stderr_tail.splitlines()[-1])
    assert "why" == error.stdout_tail.splitlines()[-1]
    assert content(error.overflows[0]).endswith(b"\nwhy\n")
    assert content(error.overflows[1]).endswith(b"\nreason\n")


async def wait_for_bytes(folder: Path, size: int) -> None:
    with trio.fail_after(120):
        while size > sum(file.stat().st_size for file in folder.glob("*")):
            await trio.sleep(0.02)


async def test_what_was_written_until_the_time_limit_is_there(tmp_path: Path) -> None:
    argv = ["sh", "-c", f"{MUCH}; exec sleep 1000.25"]
    call = ProgramCall(
        argv, tmp_path, {}, None, CAPTURE, CAPTURE, 1.0, False, None, False, overflow=tmp_path
    )
    scope = trio.CancelScope()

    async def time_passes() -> None:
        await wait_for_bytes(tmp_path, 3 * IN_MEMORY)
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(time_passes)
        with pytest.raises(ExternalTimeoutError) as raised:
            await run_program_call(call, None, check=True, scope=scope)

    assert bytes(3 * IN_MEMORY) == content(raised.value.overflows[0])


async def test_a_cancelled_call_leaves_no_file(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        argv = ["sh", "-c", f"{MUCH}; exec sleep 1000.25"]
        nursery.start_soon(partial(run_external, argv, overflow=tmp_path))
        await wait_for_bytes(tmp_path, 3 * IN_MEMORY)
        nursery.cancel_scope.cancel()

    assert not list(tmp_path.iterdir())


async def test_a_full_disk_ends_the_program_and_is_an_error_that_names_the_place() -> None:
    with small_disk("2m") as disk:
        with pytest.raises(ExternalError) as raised, trio.fail_after(120):
            await run_external(["sh", "-c", "echo err >&2; yes"], overflow=disk / "of", check=False)
        left = list((disk / "of").iterdir())

    reason = f"its output could not be stored in {disk}/of: {os.strerror(errno.ENOSPC)}"
    assert (reason, errno.ENOSPC) == (raised.value.reason, raised.value.failure.errno)
    assert (b"", b"err\n") == (raised.value.stdout, raised.value.stderr)
    assert not left


async def test_a_program_that_is_faster_than_the_file_waits() -> None:
    """So no more is in memory than the pipe has room for, and what is kept there."""
    memory = os.memfd_create("stdout")
    spill = Spill(memory, b"/dev/full/of")
    os.set_blocking(spill.theirs, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(spill.theirs, bytes(4096))
    while spill.read():
        pass

    assert 0 < os.fstat(memory).st_size == spill.size <= IN_MEMORY
    spill.close()
    os.close(memory)


def test_the_pipe_of_a_stream_that_cannot_be_stored_has_no_reader(
    tmp_path: Path,
) -> None:
    memory = os.memfd_create("stdout")
    (tmp_path / "file").touch()
    spill = Spill(memory, os.fsencode(tmp_path / "file" / "deep" / "of"))
    writer = os.dup(spill.theirs)
    for _ in range(IN_MEMORY // PIECE):
        os.write(writer, bytes(PIECE))
        assert spill.read()
    os.write(writer, b"more")

    assert not spill.read()
    with pytest.raises(BrokenPipeError):
        os.write(writer, b"more")
    assert errno.ENOTDIR == spill.error
    spill.close()
    assert 0 == os.fstat(memory).st_size
    for fd in (writer, memory):
        os.close(fd)
