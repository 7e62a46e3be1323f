"""Prints of functions in processes come out where the caller's prints do."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING

import trio

from grain.subproc import subprocify
from grain.subproc.output_pipe import OutputPipe
from grain_testkit.pool_scope import pool

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


async def test_prints_come_out_in_order_before_the_call_returns(
    capfd: pytest.CaptureFixture[str],
) -> None:
    @subprocify
    def talk(n: int) -> None:
        print("out", n)
        print("err", n, file=sys.stderr)
        sys.stdout.flush()
        os.write(1, b"raw\n")

    async with pool():
        for n in range(50):
            await talk(n)
            print("then", n)
    out, err = capfd.readouterr()
    assert "".join(f"out {n}\nraw\nthen {n}\n" for n in range(50)) == out
    assert "".join(f"err {n}\n" for n in range(50)) == err


async def test_output_larger_than_a_pipe_comes_out(capsys: pytest.CaptureFixture[str]) -> None:
    """It goes through whatever `sys.stdout` is."""
    async with pool():
        await subprocify(print)("ä" * 1_000_000)
    assert "ä" * 1_000_000 + "\n" == capsys.readouterr().out


class Sink:
    """A stream that counts characters, and calls a function with each text."""

    def __init__(self, more: Callable[[str], object] = len) -> None:
        self.written = 0
        self.most = 50_000_000.0
        self._more = more

    def write(self, text: str) -> None:
        self.written += len(text)
        assert self.written < self.most
        self._more(text)

    def flush(self) -> None:
        pass


async def test_other_tasks_go_on_while_a_function_prints_without_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @subprocify
    def flood() -> None:
        while True:
            os.write(1, b"." * 4096)

    sink = Sink()
    monkeypatch.setattr(sys, "stdout", sink)
    async with pool(), trio.open_nursery() as nursery:
        nursery.start_soon(flood)
        while sink.written < 3_000_000:
            await trio.lowlevel.checkpoint()
        sink.most = math.inf  # it prints on until somebody has got round to end it
        nursery.cancel_scope.cancel()


def test_draining_ends_although_output_follows_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here each piece that is passed on makes the next one."""
    output = OutputPipe("stdout")
    sink = Sink(lambda text: os.write(output.theirs, text.encode()))
    monkeypatch.setattr(sys, "stdout", sink)
    os.write(output.theirs, b"." * 1000)
    output.drain()
    output.close()

    assert 64 * 1024 <= sink.written <= 66 * 1024
