"""What an attempt needs only if it lasts, or has steps."""

from __future__ import annotations

import socket
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import trio
from trio.testing import wait_all_tasks_blocked

from grain.worker.gang.control import bound, new_name
from grain.worker.jobs.standby import standing_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trio.testing import MockClock

NAME = ContextVar("the name of an attempt", default="")


class Attempts:
    """Attempts that last from 5 s on, and what they have begun."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, str, float]] = []

    @contextmanager
    def attempt(self, name: str, at: float = 5.0) -> Iterator[str]:
        """Yield the name at which an attempt listens; it ends with the block."""
        began = trio.current_time()

        def begin(what: str) -> None:
            self.begun.append((NAME.get(), what, trio.current_time() - began))

        place = new_name()
        NAME.set(name)
        with (
            bound(place) as listening,
            standing_by(listening, lambda: begin("steps"), lambda: begin("looks"), began + at),
        ):
            NAME.set("")
            yield place


def call(place: str) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX)
    caller.connect("\0" + place)
    return caller


async def test_a_brief_attempt_begins_nothing(autojump_clock: MockClock) -> None:
    attempts = Attempts()
    for _ in range(2):
        with attempts.attempt("a"):
            await trio.sleep(4)
    await trio.sleep(60)
    assert [] == attempts.begun


async def test_looks_begin_once_in_time_whatever_others_do(autojump_clock: MockClock) -> None:
    attempts = Attempts()
    with attempts.attempt("a", at=7):
        with attempts.attempt("b", at=3), attempts.attempt("c"):
            await trio.sleep(4)
        await trio.sleep(60)
    assert [("b", "looks", 3.0), ("a", "looks", 7.0)] == attempts.begun


async def test_the_first_call_begins_the_steps_of_its_attempt(autojump_clock: MockClock) -> None:
    attempts = Attempts()
    with attempts.attempt("a") as place, attempts.attempt("b"), call(place), call(place):
        await wait_all_tasks_blocked()
        assert [("a", "steps", 0.0)] == attempts.begun
    await trio.sleep(60)
    assert [("a", "steps", 0.0)] == attempts.begun


async def test_a_descriptor_that_another_attempt_has_by_now_is_its_own(
    autojump_clock: MockClock,
) -> None:
    attempts, place = Attempts(), new_name()
    closed = bound(place)
    with ExitStack() as first:
        first.enter_context(standing_by(closed, closed.close, lambda: None, 9.0))
        with call(place):
            await wait_all_tasks_blocked()
        assert -1 == closed.fileno()
        with ExitStack() as others:
            places = [others.enter_context(attempts.attempt(name)) for name in "abc"]
            first.close()
            for number, other in enumerate(places, 1):
                others.enter_context(call(other))
                await wait_all_tasks_blocked()
                assert number == len(attempts.begun)
