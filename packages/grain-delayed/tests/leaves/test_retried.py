"""Retries in a mission: waits, requests, the last exception, and the warnings meanwhile."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain import GVAR
from grain.delayed import delayed, each, mission, run
from grain.head import TaskCancelled
from grain.resource import Cores, GPUs, Infeasible, Memory
from grain.worker.errors import TaskletAborted

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock


def failing(errors: list[Exception], **options: Any) -> Any:
    """A delayed function that raises these, one each time, and then returns what it may use."""

    async def task() -> str:
        if errors:
            raise errors.pop(0)
        return str(GVAR.res)

    return delayed(task, **{"retry_wait": 8.0, **options})


@pytest.mark.parametrize("leaf", [True, False])
async def test_until_it_goes_well(leaf: bool, autojump_clock: MockClock) -> None:
    """Leaves and branches are tried again, after a while."""
    task = failing([ValueError(1), ValueError(2)], retries=2)
    async with mission(Cores(1), config_file=False, cache=False) as under_way:
        began = trio.current_time()
        await (task @ Cores(1) if leaf else task)()
        assert 4 + 8 <= trio.current_time() - began <= 8 + 16
        if leaf:
            now = under_way.statistics()
            assert (1, 0) == (now.done, now.failed)


@pytest.mark.parametrize("isolated", [False, True])
async def test_a_further_attempt_sees_how_the_last_one_failed(isolated: bool) -> None:
    """In this process, and in another one."""

    async def attempt() -> list[object]:
        if GVAR.attempt == 1:
            raise ValueError("odd")
        if GVAR.attempt == 2:
            raise MemoryError(str([GVAR.last.end, GVAR.last.text] if GVAR.last else None))
        return [GVAR.attempt, GVAR.last and (GVAR.last.end, GVAR.last.text)]

    task = delayed(attempt, retries=2, retry_wait=0.0) @ Cores(1)
    async with mission(Cores(1), config_file=False, cache=False, isolated=isolated):
        seen = await task()
    assert [3, ("memory", "MemoryError: ['failed', 'ValueError: odd']")] == seen


async def test_a_further_attempt_keeps_its_place(autojump_clock: MockClock) -> None:
    """Before what waits for the same, behind what is urgent; with another request it queues."""
    begun: list[str] = []

    async def work(name: str, seconds: float = 10.0) -> None:
        begun.append(name)
        if name.startswith("fails") and begun.count(name) == 1:
            raise ValueError(name)
        await trio.sleep(seconds)

    again = delayed(work, retries=1, retry_wait=0.0)
    larger = delayed(work, retries=1, retry_wait=0.0, retry_with=lambda *_: Cores(1) & Memory(1))
    plain = delayed(work)
    async with mission(Cores(1) & Memory(1), config_file=False, cache=False):
        await each(
            [
                (again @ Cores(1))("fails"),
                (plain @ Cores(1))("second"),
                (larger @ Cores(1))("fails, and asks for more"),
                (plain @ (Cores(1) & Memory(1)))("fourth"),
                (plain.with_urgency(1.0) @ Cores(1))("urgent"),
                (plain @ Cores(1))("last"),
            ]
        )

    waited = [name for name in begun if name in {"fails", "second", "last"}]
    # The second had begun when the first was submitted again.
    assert ["fails", "second", "fails", "last"] == waited
    assert "urgent" == begun[0]
    more = begun.index("fails, and asks for more")
    assert begun.index("fourth") < begun.index("fails, and asks for more", more + 1)


async def test_calls_survive_that_one_of_four_devices_is_broken(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """What fails on it at once goes elsewhere first, and later nothing begins there."""
    ran: list[list[int]] = []

    async def work() -> None:
        ran.append(GVAR.res.g)
        if 0 in GVAR.res.g:
            raise OSError("no CUDA device")
        await trio.sleep(10.0)

    task = delayed(work, retries=3) @ (Cores(1) & GPUs(1))
    async with mission(Cores(8) & GPUs(4), config_file=False, cache=False) as under_way:
        # The first ones fail there before any has succeeded elsewhere, which says nothing yet.
        await each([task() for _ in range(8)])
        await each([task() for _ in range(40)])

    assert (48, 0) == (under_way.statistics().done, under_way.statistics().failed)
    assert ran.count([0]) <= 24
    assert 1 == capsys.readouterr().err.count("warning: GPU 0 is set aside for 1 min: ")


async def test_calls_on_workers_have_another_device_for_their_next_attempt() -> None:
    async def work() -> list[int]:
        if 0 in GVAR.res.g:
            raise OSError("no CUDA device")
        return [*GVAR.res.g]

    task = delayed(work, retries=1, retry_wait=0.0) @ (Cores(1) & GPUs(1))
    with trio.fail_after(120):
        async with mission(Cores(2) & GPUs(2), config_file=False, cache=False, isolated=True):
            assert [1] == await task()


async def test_the_most_urgent_call_is_tried_again() -> None:
    """No number is larger than its urgency: a scheduler refuses what is infinite."""
    task = failing([ValueError(1)], retries=1, retry_wait=0.0)
    urgent = task.with_urgency(sys.float_info.max) @ Cores(1)
    with trio.fail_after(120):
        async with mission(Cores(1), config_file=False, cache=False, isolated=True):
            assert "Cores" in await urgent()


async def test_the_executor_is_informed_of_each_failure_that_is_tried_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a scheduler does not count it as a task that has failed."""
    numbers: list[int] = []
    task = failing([ValueError(1), ValueError(2), ValueError(3)], retries=2)
    async with mission(Cores(1), config_file=False, cache=False) as under_way:
        monkeypatch.setattr(under_way.executor, "note_retry", numbers.append)
        with pytest.raises(ValueError, match="3"):
            await (task @ Cores(1))()

    first, second = numbers
    assert second == first + 1


@pytest.mark.parametrize("leaf", [True, False])
async def test_the_last_exception_is_raised_with_a_note_about_those_before(
    leaf: bool, autojump_clock: MockClock
) -> None:
    last = OSError("third")
    task = failing([ValueError("first\nmore"), RuntimeError("second"), last], retries=2)
    async with mission(Cores(1), config_file=False, cache=False) as under_way:
        with pytest.raises(OSError, match="third") as caught:
            await (task @ Cores(1) if leaf else task)()
        if leaf:
            assert 1 == under_way.statistics().failed

    assert last is caught.value
    what = ", with Cores(1)" * leaf
    assert [
        f"This was attempt 3{what}. Before:",
        f"  attempt 1: ValueError: first{what}",
        f"  attempt 2: RuntimeError: second{what}",
    ] == notes(last)[0].splitlines()


def notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))


async def test_no_note_for_one_attempt() -> None:
    """An exception that is not retried stays as it is."""
    error = TypeError("wrong")
    async with mission(Cores(1), config_file=False, cache=False):
        with pytest.raises(TypeError, match="wrong"):
            await (failing([error], retries=3) @ Cores(1))()

    assert [] == notes(error)


async def test_the_next_attempt_has_the_request_of_retry_with(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    task = failing(
        [MemoryError("small"), MemoryError("small")],
        retries=3,
        retry_on=MemoryError,
        retry_with=lambda request, _: Cores(1) & Memory(2 * request.M),
    )
    async with mission(Cores(1) & Memory(8), config_file=False, cache=False):
        assert "CPU_Cores([0]) & Memory(8GB)" == await (task @ (Cores(1) & Memory(2)))()

    lines = [line for line in capsys.readouterr().err.splitlines() if "attempt" in line]
    assert 2 == len(lines)
    assert "failed (MemoryError: small); attempt 2 of 4 in " in lines[0]
    assert lines[0].endswith(" s, with Cores(1) & Memory(4)")


async def test_an_escalation_beyond_every_worker_raises_the_tasks_own_exception(
    autojump_clock: MockClock,
) -> None:
    task = failing([MemoryError("small")], retries=3, retry_with=lambda *_: Cores(1) & Memory(64))
    async with mission(Cores(1) & Memory(8), config_file=False, cache=False) as under_way:
        with pytest.raises(MemoryError, match="small") as caught:
            await (task @ (Cores(1) & Memory(2)))()
        now = under_way.statistics()
        assert (0, 1, 0) == (now.done, now.failed, now.queued)

    (note,) = notes(caught.value)
    assert note.startswith("It could not be tried again, with Cores(1) & Memory(64): ")


async def test_retry_with_is_refused_for_a_branch() -> None:
    """A branch has no request that could change; the error comes at once."""
    task = failing([], retries=1, retry_with=lambda request, _: request)
    async with mission(config_file=False, cache=False):
        with pytest.raises(TypeError, match="no request that retry_with could change"):
            task()


async def test_infeasible_at_once() -> None:
    """A request that can never be met is an error of the call, as ever."""
    async with mission(Cores(1), config_file=False, cache=False):
        with pytest.raises(Infeasible):
            (failing([], retries=1) @ Cores(2))()


async def test_leaving_waits_for_retries(autojump_clock: MockClock) -> None:
    """A mission does not end while a task waits for its next attempt."""
    errors: list[Exception] = [ValueError(1), ValueError(2)]
    async with mission(Cores(1), config_file=False, cache=False):
        (failing(errors, retries=2) @ Cores(1))()
    assert not errors


async def test_leaving_tells_of_what_failed(autojump_clock: MockClock) -> None:
    """Nor is a failure lost that was not awaited."""
    with pytest.raises(ValueError, match="2"):
        async with mission(Cores(1), config_file=False, cache=False):
            (failing([ValueError(1), ValueError(2)], retries=1) @ Cores(1))()


@pytest.mark.parametrize("leaf", [True, False])
async def test_cancelled_while_it_waits(leaf: bool, autojump_clock: MockClock) -> None:
    """Cancelling a mission cancels its retries."""
    first = ValueError(1)
    task = failing([first, ValueError(2)], retries=2, retry_wait=1e6)
    with trio.move_on_after(100) as scope:
        async with mission(Cores(1), config_file=False, cache=False):
            waits = (task @ Cores(1) if leaf else task)()
            await waits
    assert scope.cancelled_caught
    with pytest.raises(TaskCancelled) as caught:
        await waits
    if leaf:
        assert first is caught.value.__cause__


async def test_an_exception_cancels_retries(autojump_clock: MockClock) -> None:
    """A mission whose root function fails does not wait for them."""
    task = failing([ValueError(1)], retries=2, retry_wait=1e6)
    with pytest.raises(KeyError, match="root"):
        async with mission(Cores(1), config_file=False, cache=False):
            (task @ Cores(1))()
            await trio.sleep(10)
            raise KeyError("root")
    assert trio.current_time() < 1e5


async def test_its_resources_are_free_meanwhile(autojump_clock: MockClock) -> None:
    """A task that waits for its next attempt holds nothing."""

    @delayed
    async def other() -> float:
        return trio.current_time()

    async with mission(Cores(1), config_file=False, cache=False):
        waits = (failing([ValueError(1)], retries=1, retry_wait=100) @ Cores(1))()
        began = trio.current_time()
        assert await (other @ Cores(1))() < began + 1
        await waits
        assert trio.current_time() >= began + 50


# Globals, as what a function closes over is part of the key of its results.
COUNTS: list[int] = []


@delayed(cache_hfn="args", retries=1, retry_wait=0.01)
async def sometimes() -> str:
    COUNTS.append(1)
    if len(COUNTS) == 1:
        raise ValueError("not yet")
    return "well"


def test_retried_and_kept(tmp_path: Path) -> None:
    """A result is kept, whichever attempt had it; failures are not."""
    COUNTS.clear()

    async def main() -> None:
        assert "well" == await (sometimes @ Cores(1))()

    for _ in range(2):
        run(main, Cores(1), config_file=False, cache=tmp_path / "cache")

    assert 2 == len(COUNTS)


@pytest.mark.parametrize("most", [16, None])
async def test_a_leak_ends_after_the_most_with_all_attempts_listed(most: float | None) -> None:
    """Its group asks for more each time, without any ``retries``.

    Without a number, the most is the memory of the largest worker.
    """
    had: list[float] = []

    @delayed
    async def leaks() -> None:
        had.append(GVAR.res.M)
        error = MemoryError("it leaks")
        error.memory_request = GVAR.res.M  # type: ignore[attr-defined]
        raise error

    async with mission(Cores(4) & Memory(16), config_file=False, cache=False):
        with pytest.raises(MemoryError, match="it leaks") as caught:
            await (leaks @ (Cores(1) & Memory(most, group="leak")))()

    assert sorted({*had}) == had
    assert (4, 16) == (had[0], had[-1])
    listed = "\n".join(notes(caught.value))
    assert "It had 16 GB, the most that its group may ask for." in listed
    for number, amount in enumerate(had[:-1], 1):
        assert f"attempt {number}: MemoryError: it leaks" in listed
        assert f"it needed more memory than {amount:g} GB" in listed


async def test_an_attempt_with_more_than_there_is_is_not_announced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @delayed
    async def leaks() -> None:
        error = MemoryError("it leaks")
        error.memory_request = GVAR.res.M  # type: ignore[attr-defined]
        raise error

    async with mission(Cores(4) & Memory(16), config_file=False, cache=False):
        with pytest.raises(MemoryError, match="it leaks") as caught:
            await (leaks @ (Cores(2) & Memory(99, group="leak")))()

    assert ["attempt 2 in 0.0 s, with more memory than 8 GB"] == [
        line.partition("; ")[2] for line in capsys.readouterr().err.splitlines() if "; att" in line
    ]
    (note,) = notes(caught.value)
    refused, *attempts = note.splitlines()
    asked = "Cores(2) & Memory(99, group='leak')"
    assert refused.startswith(f"It could not be tried again, with {asked}: ")
    assert attempts == [
        "The attempts:",
        f"  attempt 1: MemoryError: it leaks, with {asked}; it needed more memory than 8 GB",
        f"  attempt 2: MemoryError: it leaks, with {asked}; it needed more memory than 16 GB",
    ]


async def test_what_would_end_the_process(autojump_clock: MockClock) -> None:
    """A tasklet that called exit() is tried again if one asks for it."""
    aborted = 0

    @delayed(retries=1, retry_on=TaskletAborted)
    async def exits() -> None:
        nonlocal aborted
        aborted += 1
        raise SystemExit(3)

    async with mission(Cores(1), config_file=False, cache=False):
        with pytest.raises(TaskletAborted):
            await (exits @ Cores(1))()
    assert 2 == aborted


async def test_a_method_is_retried_and_binding_keeps_its_options(autojump_clock: MockClock) -> None:
    class Once:
        def __init__(self) -> None:
            self.calls = 0

        @delayed(retries=1)
        async def get(self) -> int:
            self.calls += 1
            if self.calls == 1:
                raise ValueError
            return self.calls

    async with mission(Cores(1), config_file=False, cache=False):
        assert 2 == await (Once().get @ Cores(1))()


async def test_many_at_once(autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]) -> None:
    """A thousand tasks that fail together are all tried again; few lines report it."""
    seen: set[int] = set()

    @delayed(retries=1, retry_wait=60)
    async def once(i: int) -> int:
        if i not in seen:
            seen.add(i)
            raise ValueError(i)
        return i

    async with mission(Cores(4), config_file=False, cache=False, progress=False):
        assert list(range(1000)) == await each((once @ Cores(1))(i) for i in range(1000))

    assert 6 == capsys.readouterr().err.count("once failed (ValueError")


def test_ctrl_c_while_it_waits() -> None:
    """Ctrl-C ends a mission that waits for a retry at once."""
    program = """
import os, signal, threading
from grain.delayed import delayed, run
from grain.resource import Cores
@delayed(retries=1, retry_wait=1000)
async def fails():
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    raise ValueError
async def main():
    await (fails @ Cores(1))()
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    run(main, Cores(1), config_file=False)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    assert "interrupted\n" == done.stdout


@pytest.mark.parametrize("more", [False, True])
async def test_retry_with_sees_the_alternative_that_the_attempt_had(
    more: bool, autojump_clock: MockClock
) -> None:
    """If it returns that, the next attempt asks for all of them again."""
    seen: list[str] = []

    def next_request(request: Any, error: Exception) -> Any:
        seen.append(request.ask())
        return request & Memory(1) if more else request

    task = failing([ValueError(1)], retries=1, retry_with=next_request)
    async with mission(Cores(2) & GPUs(1) & Memory(1), config_file=False, cache=False) as under_way:
        busy = (failing([]) @ GPUs(1))()
        await busy
        holds_gpu = delayed(trio.sleep) @ GPUs(1)
        gpu = holds_gpu(4.0)
        got = await (task @ (GPUs(1) | Cores(2)))()
        await gpu
        assert 1 <= under_way.statistics().done

    assert ["Cores(2)"] == seen
    assert ("CPU_Cores([0-1]) & Memory(1GB)" if more else "GPUs([0])") == got
