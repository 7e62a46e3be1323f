"""The runner in a process of its own: what it runs, and what travels there and back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import outcome
import trio

from grain import GVAR
from grain.resource import Cores
from grain.worker.errors import PayloadError
from grain.worker.messages import ForgetFunctions, PastAttempts, StartRun
from grain.worker.payload import failure_in
from grain_testkit.local_processes import alive, read_pid
from grain_testkit.runner_station import station


async def test_a_run_in_another_process_has_its_resources_and_a_result() -> None:
    async def where(x: int) -> tuple[int, str, str, int]:
        import os

        return x + 1, repr(GVAR.res), GVAR.instance, os.getpid()

    async with station() as s:
        y, res, instance, pid = await s.result(where, 41, res=Cores([3, 5]))

    assert 42 == y
    assert "CPU_Cores([3,5])" == res
    assert "w1" == instance
    assert os.getpid() != pid


async def test_the_exception_of_a_tasklet_arrives_with_type_arguments_and_traceback() -> None:
    """It is known without being loaded."""

    async def fails() -> None:
        raise KeyError("nothing here")

    async with station() as s:
        number = s.start(fails)
        ended = await s.outcome(number)

    failure = failure_in(s.witness.outcomes[number][1] or b"")
    assert isinstance(ended, outcome.Error)
    assert isinstance(ended.error, KeyError)
    assert ("nothing here",) == ended.error.args
    assert failure is not None
    assert "KeyError: 'nothing here'" == str(failure)
    assert failure.where.startswith("w1 (host ")
    assert s.witness.outcomes[number][0].failed


async def test_what_cannot_travel_fails_its_own_task_and_the_runner_lives_on() -> None:
    """A result, an argument, a resource, a function that never came."""

    async def generator() -> Any:
        return "and", (i for i in range(3))

    async def fine() -> int:
        return 1

    async with station() as s:
        first = s.start(generator)
        s.functions.define(b"x", s.payloads.dump_function(fine).payload)
        s.functions.define(b"y", b"no function")
        s.runner.post([(StartRun((1, 100), {}, None, b"unknown"), b"A\0).")])
        s.runner.post([(StartRun((1, 101), {}, None, b"x"), b"garbage")])
        s.runner.post([(StartRun((1, 102), {"Tape": 1}, None, b"x"), b"A\0).")])
        s.runner.post([(StartRun((1, 103), {}, None, b"y"), b"A\0).")])
        errors = [await s.outcome(n) for n in (first, 100, 101, 102, 103)]
        again = await s.result(fine)

    assert all(isinstance(e, outcome.Error) and isinstance(e.error, PayloadError) for e in errors)
    assert "generator" in str(errors[0])
    assert "never came" in str(errors[1])
    assert "Tape" in str(errors[3])
    assert 1 == again
    assert [] == s.witness.deaths


async def test_a_result_whose_class_interrupts_fails_its_own_task_and_the_runner_lives_on() -> None:
    """Ctrl-C does not reach the process, so a KeyboardInterrupt is never meant for it."""

    class Interrupts:
        def __reduce__(self) -> str:
            raise KeyboardInterrupt

    async def interrupts() -> Interrupts:
        return Interrupts()

    async def fine() -> int:
        return 1

    async with station() as s:
        ended = await s.outcome(s.start(interrupts))
        assert 1 == await s.result(fine)
        assert [] == s.witness.deaths
    assert isinstance(ended, outcome.Error)
    assert isinstance(ended.error, PayloadError)
    assert "it raised KeyboardInterrupt()" in str(ended.error)


async def test_a_function_travels_once_to_each_process_until_it_is_forgotten() -> None:
    async def count(calls: list[int] = []) -> int:  # noqa: B006 - what it is about
        calls.append(1)
        return len(calls)

    async with station() as s:
        function = s.payloads.dump_function(count)
        for number in (1, 2, 3):
            # The very same object: loaded once, it counts.
            code = function.payload if number == 1 else b"not needed"
            s.functions.define(function.digest, code)
            s.runner.post([(StartRun((1, number), {}, None, function.digest), b"A\0).")])
        counts = [(await s.outcome(number)).unwrap() for number in (1, 2, 3)]
        s.functions.define(function.digest, function.payload)
        s.runner.post([(ForgetFunctions((function.digest,)), None)])
        s.runner.post([(StartRun((1, 4), {}, None, function.digest), b"A\0).")])
        afresh = (await s.outcome(4)).unwrap()

    assert [1, 2, 3] == sorted(counts)
    assert 1 == afresh


async def test_the_end_of_a_cancelled_run_is_reported_when_nothing_of_it_is_left() -> None:
    """Here a program."""

    async def program(path: str) -> None:
        from grain.worker.external import run_external

        await run_external(["sh", "-c", f"echo $$ > '{path}'; exec sleep 1000"])

    async with station() as s:
        path = Path(f"/proc/{os.getpid()}/cwd").resolve() / f".pid-{os.getpid()}"
        try:
            number = s.start(program, str(path))
            pid = await read_pid(path)
            s.cancel(number)
            await s.witness.until(lambda: number in s.witness.outcomes)
            assert not alive(pid)
            assert "cancelled" == s.witness.outcomes[number][0].status
        finally:
            path.unlink(missing_ok=True)


async def test_a_program_that_is_warned_of_the_workers_end_stops_and_is_handed_back(
    tmp_path: Path,
) -> None:
    async def run(folder: str) -> str:
        from grain.worker.external import run_external

        until = "touch ready; until [ -e EXIT ]; do sleep 0.02; done"
        await run_external(["sh", "-c", until], cwd=folder, warn="EXIT", warn_before=1e6)
        return "not handed back"

    async with station() as s:
        s.runner.announce_end(trio.current_time() + 1e7, now=False)
        number = s.start(run, str(tmp_path))
        while not (tmp_path / "ready").exists():
            await trio.sleep(0.02)
        s.runner.announce_end(trio.current_time() + 1e7, now=True)
        await s.witness.until(lambda: number in s.witness.outcomes)
        assert 1 == s.witness.warnings

    assert ("stopped", None) == (
        s.witness.outcomes[number][0].interruption,
        s.witness.outcomes[number][1],
    )


async def test_a_run_sees_the_attempts_before_it() -> None:
    async def which() -> tuple[int, str, str]:
        assert GVAR.last is not None
        return GVAR.attempt, GVAR.last.end, GVAR.last.text

    async with station() as s:
        past = PastAttempts(2, "memory", "8 GB")
        assert (3, "memory", "8 GB") == await s.result(which, past=past)

        async def first() -> tuple[int, object]:
            return GVAR.attempt, GVAR.last

        assert (1, None) == await s.result(first)
