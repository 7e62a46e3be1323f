"""Exceptions of functions in processes fail their own calls, and end no process."""

from __future__ import annotations

import os
import sys

import pytest

from grain.subproc import subprocify
from grain.worker.errors import PayloadError, TaskletAborted
from grain_testkit.pool_scope import pool, process_id

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup


async def test_an_exception_comes_back_with_its_traceback_as_a_note() -> None:
    """It keeps type and arguments, and is in no group."""

    def faulty() -> None:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise OSError(28, "no space") from error

    async with pool():
        pid = await process_id()
        with pytest.raises(OSError, match="no space") as caught:
            await subprocify(faulty)()
        assert pid == await process_id()
    assert 28 == caught.value.errno
    note = caught.value.__notes__[-1]  # type: ignore[attr-defined,unused-ignore]
    assert f"pid {pid}" in note
    assert "in faulty" in note
    assert "inner" in note


async def test_sys_exit_fails_the_call_and_not_the_process() -> None:
    async with pool():
        pid = await process_id()
        with pytest.raises(TaskletAborted, match="SystemExit"):
            await subprocify(sys.exit)(3)
        assert pid == await process_id()


async def test_an_interrupt_of_the_functions_own_fails_the_call_only() -> None:
    """Ctrl-C does not reach the process, so a KeyboardInterrupt is never meant for it."""

    def interrupt(in_group: bool) -> None:
        error = KeyboardInterrupt()
        raise BaseExceptionGroup("several", [error]) if in_group else error

    class Interrupts:
        def __reduce__(self) -> str:
            raise KeyboardInterrupt

    async with pool():
        pid = await process_id()
        for in_group in (False, True):
            with pytest.raises(TaskletAborted, match="KeyboardInterrupt"):
                await subprocify(interrupt)(in_group)
        with pytest.raises(PayloadError, match="KeyboardInterrupt"):
            await subprocify(lambda: Interrupts())()
        assert pid == await process_id()


@pytest.mark.parametrize(("how", "status"), [("return", 0), ("raise", 1), ("exit", 7), ("say", 1)])
async def test_a_forked_process_does_not_answer(how: str, status: int) -> None:
    """It ends when it returns from the function, or it would answer the next call."""

    def fork() -> tuple[int, int]:
        pid = os.fork()
        if pid == 0:
            match how:
                case "raise":
                    raise ValueError("in the fork")
                case "exit":
                    sys.exit(7)
                case "say":
                    sys.exit("a reason")
            return 0, 0
        return pid, os.waitpid(pid, 0)[1]

    async with pool():
        pid = await process_id()
        forked, ended = await subprocify(fork)()
        assert forked not in (0, pid)
        assert status == os.waitstatus_to_exitcode(ended)
        assert pid == await process_id()


async def test_an_exception_of_the_block_is_in_no_group() -> None:
    with pytest.raises(ZeroDivisionError):
        async with pool():
            await process_id()
            raise ZeroDivisionError
