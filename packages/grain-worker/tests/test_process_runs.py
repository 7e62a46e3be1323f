"""The runner in a process of its own: what it runs, and what travels there and back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import outcome

from grain import GVAR
from grain.resource import Cores
from grain.worker.errors import PayloadError
from grain.worker.messages import Run
from grain.worker.payload import failure_in
from grain_testkit.local_processes import alive, read_pid
from grain_testkit.runner_station import station


async def test_a_run_has_its_resources_and_a_result() -> None:
    """As on the local worker, in another process."""

    async def where(x: int) -> tuple[int, str, str, int]:
        import os

        return x + 1, repr(GVAR.res), GVAR.instance, os.getpid()

    async with station() as s:
        y, res, instance, pid = await s.result(where, 41, res=Cores([3, 5]))

    assert 42 == y
    assert "CPU_Cores([3,5])" == res
    assert "w1" == instance
    assert os.getpid() != pid


async def test_a_tasklets_exception_arrives() -> None:
    """Type, arguments, and the traceback of there; without loading it one knows what it was."""

    async def fails() -> None:
        raise KeyError("nothing here")

    async with station() as s:
        number = s.start(fails)
        ended = await s.outcome(number)

    told = failure_in(s.witness.outcomes[number][1])
    assert isinstance(ended, outcome.Error)
    assert isinstance(ended.error, KeyError)
    assert ("nothing here",) == ended.error.args
    assert told is not None
    assert "KeyError: 'nothing here'" == str(told)
    assert told.where.startswith("w1 (host ")
    assert s.witness.outcomes[number][0].failed


async def test_what_cannot_travel_fails_its_own_task_alone() -> None:
    """A result, an argument, a resource, a function that never came: the runner lives on."""

    async def generator() -> Any:
        return (i for i in range(3))

    async def fine() -> int:
        return 1

    async with station() as s:
        first = s.start(generator)
        s.runner.start(Run(100, 1, {}, None, b"unknown"), (None, b"A\0)."))
        function = s.payloads.dump_function(fine).payload
        s.runner.start(Run(101, 1, {}, None, b"x"), (function, b"garbage"))
        s.runner.start(Run(102, 1, {"Tape": 1}, None, b"x"), (function, b"A\0)."))
        s.runner.start(Run(103, 1, {}, None, b"y"), (b"no function", b"A\0)."))
        errors = [await s.outcome(n) for n in (first, 100, 101, 102, 103)]
        again = await s.result(fine)

    assert all(isinstance(e, outcome.Error) and isinstance(e.error, PayloadError) for e in errors)
    assert "generator" in str(errors[0])
    assert "never came" in str(errors[1])
    assert "Tape" in str(errors[3])
    assert 1 == again
    assert [] == s.witness.crashes


async def test_a_function_travels_once() -> None:
    """To each process; afterwards its digest is enough, until it is dropped."""

    async def count(calls: list[int] = []) -> int:  # noqa: B006 - what it is about
        calls.append(1)
        return len(calls)

    async with station() as s:
        function = s.payloads.dump_function(count)
        for number in (1, 2, 3):
            # The very same object: loaded once, it counts.
            code = function.payload if number == 1 else b"not needed"
            s.runner.start(Run(number, 1, {}, None, function.digest), (code, b"A\0)."))
        counts = [(await s.outcome(number)).unwrap() for number in (1, 2, 3)]
        s.runner.drop((function.digest,))
        s.runner.start(Run(4, 1, {}, None, function.digest), (function.payload, b"A\0)."))
        afresh = (await s.outcome(4)).unwrap()

    assert [1, 2, 3] == sorted(counts)
    assert 1 == afresh


async def test_a_run_is_cancelled() -> None:
    """And reported when nothing of it is left, here a program."""

    async def program(path: str) -> None:
        from grain.worker.external import run_external

        await run_external(["sh", "-c", f"echo $$ > {path}; exec sleep 1000"])

    async with station() as s:
        path = Path(f"/proc/{os.getpid()}/cwd").resolve() / f".pid-{os.getpid()}"
        try:
            number = s.start(program, str(path))
            pid = await read_pid(path)
            s.runner.cancel(number, 1)
            await s.witness.until(lambda: number in s.witness.outcomes)
            assert not alive(pid)
            assert "cancelled" == s.witness.outcomes[number][0].status
        finally:
            path.unlink(missing_ok=True)
