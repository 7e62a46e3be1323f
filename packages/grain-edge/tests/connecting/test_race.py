"""Several routes at once, by trio's mock clock."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from grain.edge.connecting.race import Route, race
from grain.edge.errors import ChannelBroken, VersionMismatch

if TYPE_CHECKING:
    from trio.testing import MockClock

    from grain.edge.errors import Attempt


class Thing(trio.abc.AsyncResource):
    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


class Routes:
    def __init__(self) -> None:
        self.opened: list[Thing] = []
        self.started: list[tuple[str, float]] = []

    def route(
        self, name: str, seconds: float, error: Exception | None = None, **options: float
    ) -> Route[Thing]:
        return Route("tcp", name, partial(self._open, name, seconds, error), **options)

    async def _open(self, name: str, seconds: float, error: Exception | None) -> Thing:
        self.started.append((name, trio.current_time()))
        await trio.sleep(seconds)
        if error is not None:
            raise error
        self.opened.append(Thing(name))
        return self.opened[-1]


async def test_no_other_route_starts_if_the_best_is_quick(autojump_clock: MockClock) -> None:
    """The second is not even tried."""
    routes = Routes()
    tried: list[Attempt] = []
    won = await race([routes.route("a", 0.1), routes.route("b", 0)], tried)

    assert won is not None
    assert won.name == "a"
    assert [name for name, _ in routes.started] == ["a"]
    assert [(a.target, a.outcome) for a in tried] == [("a", "ok")]


async def test_the_second_route_starts_when_the_first_is_slow(autojump_clock: MockClock) -> None:
    """A route that swallows packets costs a quarter of a second."""
    routes = Routes()
    tried: list[Attempt] = []
    begin = trio.current_time()
    won = await race([routes.route("hole", 1e9), routes.route("b", 0.1)], tried)

    assert won is not None
    assert won.name == "b"
    assert trio.current_time() - begin == pytest.approx(0.35)
    assert tried[1].outcome.startswith("given up")


async def test_the_second_route_starts_when_the_first_fails(autojump_clock: MockClock) -> None:
    """At once."""
    routes = Routes()
    tried: list[Attempt] = []
    begin = trio.current_time()
    won = await race(
        [routes.route("a", 0.01, ConnectionRefusedError("refused")), routes.route("b", 0)], tried
    )

    assert won is not None
    assert trio.current_time() - begin == pytest.approx(0.01)
    assert tried[0].outcome == "refused"


async def test_every_failure_is_reported_if_no_route_works(autojump_clock: MockClock) -> None:
    routes = Routes()
    tried: list[Attempt] = []
    error = ChannelBroken("gone")

    assert (
        await race([routes.route("a", 1e9, deadline=5.0), routes.route("b", 0, error)], tried)
        is None
    )
    assert sorted(a.outcome for a in tried) == ["gone", "no answer within 5 s"]


async def test_a_final_error_ends_the_race(autojump_clock: MockClock) -> None:
    """No other route helps against another version."""
    routes = Routes()
    with pytest.raises(VersionMismatch):
        await race([routes.route("a", 0, VersionMismatch("x")), routes.route("b", 0)], [])


async def test_a_route_that_is_given_up_has_a_reason(autojump_clock: MockClock) -> None:
    """Another one was faster, or it would do no better, or time was up."""

    routes = Routes()

    async def outcome(other: Route[Thing]) -> str:
        tried: list[Attempt] = []
        with trio.move_on_after(3), suppress(VersionMismatch):
            await race([routes.route("a", 10), other], tried)
        [text] = [a.outcome for a in tried if a.target == "a"]
        return text

    assert "given up, as another route was faster" == await outcome(routes.route("b", 1))
    refusal = VersionMismatch("x")
    assert "given up, as no route would do better" == await outcome(routes.route("b", 1, refusal))
    assert "no answer so far" == await outcome(routes.route("b", 5))


async def test_of_two_winners_at_the_same_moment_one_is_closed(autojump_clock: MockClock) -> None:
    """One wins, the other one is closed."""
    routes = Routes()
    won = await race([routes.route("a", 0.5), routes.route("b", 0.25)], [])

    assert won is not None
    assert [thing.closed for thing in routes.opened if thing is not won] in ([], [True])
    assert not won.closed


async def test_all_routes_can_be_tried_to_their_ends(autojump_clock: MockClock) -> None:
    """For a report: each to its end, nothing left open."""
    routes = Routes()
    tried: list[Attempt] = []

    assert await race([routes.route("a", 0), routes.route("b", 1)], tried, all_of_them=True) is None
    assert [a.outcome for a in tried] == ["ok", "ok"]
    assert all(thing.closed for thing in routes.opened)


async def test_a_winner_is_closed_if_the_caller_is_cancelled(autojump_clock: MockClock) -> None:
    """Also while another route takes its time to end."""
    routes = Routes()

    async def stubborn() -> Thing:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(10)
        raise AssertionError

    with trio.move_on_after(5) as scope:
        await race([Route("tcp", "b", stubborn), routes.route("a", 1)], [])

    assert scope.cancelled_caught
    assert [True] == [thing.closed for thing in routes.opened]


async def test_a_route_opened_in_the_moment_of_cancellation_is_closed(
    autojump_clock: MockClock,
) -> None:
    routes = Routes()
    with trio.CancelScope() as scope:

        async def winning() -> Thing:
            thing = Thing("a")
            routes.opened.append(thing)
            scope.cancel()
            return thing

        await race([Route("tcp", "a", winning)], [])

    assert scope.cancelled_caught
    assert [thing.closed for thing in routes.opened] == [True]
