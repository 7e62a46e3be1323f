"""The ways of an exception: awaited, awaited twice, by two, not at all."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import pytest
import trio

from grain.delayed import Delayed, delayed, each, mission, run
from grain.resource import Cores, WTime
from grain.worker import TaskletAborted

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup, ExceptionGroup


class Custom(Exception):
    def __init__(self, code: int, *, text: str) -> None:
        super().__init__(code)
        self.text = text


class Fatal(BaseException):
    pass


@delayed
async def fail(error: BaseException, seconds: float = 0) -> None:
    await trio.sleep(seconds)
    raise error


@delayed
async def sleep(seconds: float) -> float:
    await trio.sleep(seconds)
    return seconds


leaf = fail @ Cores(1)


@pytest.mark.parametrize("fn", [fail, leaf])
async def test_the_taskslets_own_exception(fn: Any) -> None:
    """Awaiting raises the exception itself: type, arguments, attributes; as often as awaited."""
    error = Custom(3, text="why")

    async with mission(Cores(1), config_file=False):
        broken = fn(error)
        total = broken + 1
        for awaited in (broken, broken, total):
            with pytest.raises(Custom) as caught:
                await awaited
            assert caught.value is error


async def test_the_traceback_does_not_grow() -> None:
    """It shows the way into the tasklet, and the last await only, however many there were."""

    async def length(value: Delayed[Any]) -> int:
        try:
            await value
        except ValueError as error:
            assert "raise error" in "".join(traceback.format_tb(error.__traceback__))
            return len(traceback.extract_tb(error.__traceback__))
        raise AssertionError

    async with mission(Cores(1), config_file=False):
        broken = leaf(ValueError("broken"))

        assert 1 == len({await length(broken) for _ in range(5)})


async def test_everybody_who_awaits_a_failed_task_gets_its_exception() -> None:
    caught = []

    async def wait(value: Delayed[Any]) -> None:
        with pytest.raises(ValueError, match="broken") as info:
            await value
        caught.append(info.value)

    async with mission(Cores(1), config_file=False), trio.open_nursery() as nursery:
        value = leaf(ValueError("broken"))
        nursery.start_soon(wait, value)
        nursery.start_soon(wait, value)

    assert 2 == len(caught)
    assert caught[0] is caught[1]


@pytest.mark.parametrize("fn", [fail, leaf])
@pytest.mark.parametrize("seconds", [0, 5])
def test_a_failure_that_was_not_awaited(fn: Any, seconds: float) -> None:
    """It surfaces, as itself, when run leaves."""
    error = Custom(3, text="why")

    async def main() -> None:
        async with mission(Cores(1), config_file=False):
            fn(error, seconds)

    with pytest.raises(Custom) as caught:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert caught.value is error


def test_several_failures_that_were_not_awaited() -> None:
    """They surface together; those that were awaited do not."""
    errors = [ValueError(i) for i in range(4)]

    async def main() -> None:
        tasks = [leaf(error) for error in errors]
        for awaited in tasks[:2]:
            with pytest.raises(ValueError):
                await awaited

    with pytest.raises(ExceptionGroup, match="2 tasks failed that were not awaited") as caught:
        run(main, Cores(1), config_file=False)
    assert errors[2:] == list(caught.value.exceptions)


def test_one_that_is_awaited_after_it_failed() -> None:
    """It is not too late to await a task that failed long ago."""

    async def main() -> None:
        broken = leaf(ValueError("broken"))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ValueError):
            await broken

    run(main, Cores(1), config_file=False)


def test_one_whose_await_was_given_up() -> None:
    """A failure after a timeout of its awaiter has not been seen, so it surfaces."""

    async def main() -> None:
        async with mission(Cores(1), config_file=False):
            late = leaf(ValueError("late"), 10)
            with trio.move_on_after(1) as scope:
                await late
            assert scope.cancelled_caught

    with pytest.raises(ValueError, match="late"):
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_the_first_failure_of_tasks_awaited_together_stands_for_all() -> None:
    async def main() -> None:
        async with mission(Cores(2), config_file=False):
            with pytest.raises(ValueError, match="first"):
                await each(leaf(ValueError("second"), 2), leaf(ValueError("first"), 1))

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_the_body_counts_more() -> None:
    """If the root raises itself, that is what run raises, alone."""

    async def main() -> None:
        leaf(ValueError("of a task"))
        await trio.testing.wait_all_tasks_blocked()
        raise KeyError("of the root")

    with pytest.raises(KeyError, match="of the root"):
        run(main, Cores(1), config_file=False)


def test_an_awaited_failure_leaves_through_branches() -> None:
    """Through any number of branches and roots, the one exception arrives bare."""
    error = Custom(1, text="")

    @delayed
    async def branch(depth: int) -> None:
        await (branch(depth - 1) if depth else leaf(error))

    async def main() -> None:
        await branch(3)

    async def other() -> None:
        await trio.sleep_forever()

    with pytest.raises(Custom) as caught:
        run([other, main], Cores(1), config_file=False)
    assert caught.value is error


def test_the_context_of_an_exception_stays() -> None:
    """The exception that the author was handling is still the context after run has raised."""

    async def main() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904 - the point

    with pytest.raises(ValueError, match="second") as caught:
        run(main, Cores(1), config_file=False)

    assert "KeyError('first')" == repr(caught.value.__context__)
    assert not caught.value.__suppress_context__


def test_a_group_of_one_in_the_body() -> None:
    """A nursery of the user's own around the only failure is taken off as well."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await leaf(ValueError("only"))

    with pytest.raises(ValueError, match="only"):
        run(main, Cores(1), config_file=False)


@pytest.mark.parametrize("fn", [fail, leaf])
def test_a_group_that_a_tasklet_raised(fn: Any) -> None:
    """It arrives as it is, not in groups of the nurseries around it."""
    error = ExceptionGroup("mine", [ValueError(1), KeyError(2)])

    async def main() -> None:
        await fn(error)

    with pytest.raises(ExceptionGroup, match="mine") as caught:
        run(main, Cores(1), config_file=False)
    assert repr(error) == repr(caught.value)  # trio makes a copy of a group


def test_two_roots_that_fail() -> None:
    """Two failures are a group."""

    async def main(error: Exception) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise error

    async def first() -> None:
        await trio.testing.wait_all_tasks_blocked()
        raise KeyError("1")

    async def second() -> None:
        await main(KeyError("2"))

    with pytest.raises(BaseExceptionGroup) as caught:
        run([first, second], config_file=False)
    assert 2 == len("".join(traceback.format_exception(caught.value)).split("KeyError:")) - 1


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), Fatal("bad")])
@pytest.mark.parametrize("fn", [fail, leaf])
async def test_what_would_end_the_process(fn: Any, error: BaseException) -> None:
    """A tasklet that raises a BaseException fails, and takes nothing else with it."""
    async with mission(Cores(2), config_file=False):
        other = (sleep @ Cores(1))(0)

        with pytest.raises(TaskletAborted, match="fail raised .*would end the process") as caught:
            await fn(error)
        assert caught.value.__cause__ is error
        assert 0 == await other


def test_a_base_exception_that_was_not_awaited() -> None:
    """It surfaces like others."""

    async def main() -> None:
        leaf(Fatal("bad"))

    with pytest.raises(TaskletAborted, match="Fatal"):
        run(main, Cores(1), config_file=False)


@pytest.mark.parametrize("fn", [fail, leaf])
def test_a_keyboard_interrupt(fn: Any) -> None:
    """KeyboardInterrupt in a tasklet is meant for the whole program."""
    ended = []

    async def main() -> None:
        try:
            await each(sleep(100), fn(KeyboardInterrupt()))
        finally:
            ended.append(1)

    with pytest.raises(KeyboardInterrupt):
        run(main, Cores(1), config_file=False)
    assert [1] == ended


def test_system_exit_of_the_root() -> None:
    """sys.exit() in the root function ends the program as anywhere else."""

    async def main() -> None:
        sleep(100)
        sys.exit(7)

    with pytest.raises(SystemExit) as caught:
        run(main, config_file=False)
    assert 7 == caught.value.code


async def test_the_time_limit_of_a_tasklet_with_tasks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A tasklet whose own tasks fail when its time is up exceeded its limit, nothing else."""

    async def clean_up_badly() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("bad clean-up")

    @delayed
    async def slow() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clean_up_badly)
            nursery.start_soon(trio.sleep_forever)

    async with mission(Cores(1), config_file=False):
        with pytest.raises(trio.TooSlowError, match="exceeded its hard time limit of 60 s"):
            await (slow @ (Cores(1) & WTime(T="0:01:00")))()


async def test_a_result_beats_the_time_limit(autojump_clock: trio.testing.MockClock) -> None:
    """A tasklet that returns a value in spite of its limit is not blamed for it."""

    @delayed
    async def stubborn() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(100)
        return "done"

    async with mission(Cores(1), config_file=False):
        assert "done" == await (stubborn @ (Cores(1) & WTime(T="0:01:00")))()


async def test_cancellation_of_an_awaiter_leaves_the_task() -> None:
    """Giving up an await does not cancel what is awaited."""
    release = trio.Event()

    @delayed
    async def released() -> int:
        await release.wait()
        return 3

    async with mission(Cores(1), config_file=False):
        value = (released @ Cores(1))()
        for _ in range(3):
            with trio.move_on_after(0):
                await value
        release.set()
        assert 3 == await value
