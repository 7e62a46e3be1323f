"""A race of several routes, the better ones with a head start; the first that works wins.

As RFC 8305 ("happy eyeballs") does for two: a route starts when its predecessor has failed, or has
not succeeded within the stagger.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from grain.edge.errors import Attempt, EdgeError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

T = TypeVar("T", bound=trio.abc.AsyncResource)


@dataclass(frozen=True)
class Route(Generic[T]):
    """A route to try.

    Attributes:
        start: opens it; when cancelled it must leave nothing behind.
        stagger: seconds after which the next route starts although this one has not failed.
        deadline: seconds after which it counts as failed.
    """

    transport: str
    target: str
    start: Callable[[], Awaitable[T]]
    stagger: float = 0.25
    deadline: float = 10.0


async def race(
    routes: Sequence[Route[T]], tried: list[Attempt], *, all_of_them: bool = False
) -> T | None:
    """Try the routes; returns what the winner opened, or None.

    Args:
        tried: gets an entry for each route that was started.
        all_of_them: try each to its end although one succeeded, and close what they opened.

    Raises:
        EdgeError: of a route whose error has a true `final` attribute: no other will do better.
    """
    won: list[T] = []
    final: list[BaseException] = []

    async with _closing(won), trio.open_nursery() as nursery:

        async def attempt(route: Route[T], over: trio.Event) -> None:
            begun = trio.current_time()
            outcome = ""
            try:
                with trio.move_on_after(route.deadline) as scope:
                    opened = await route.start()
                    outcome = "ok"
                    if won or all_of_them:
                        await trio.aclose_forcefully(opened)
                    else:
                        won.append(opened)
                        nursery.cancel_scope.cancel()
                if scope.cancelled_caught:
                    outcome = f"no answer within {route.deadline:g} s"
            except (EdgeError, OSError, trio.BrokenResourceError) as e:
                outcome = str(e) or type(e).__name__
                if getattr(e, "final", False):
                    final.append(e)
                    nursery.cancel_scope.cancel()
            finally:
                over.set()
                seconds = trio.current_time() - begun
                if not outcome:
                    outcome = _given_up(won=bool(won), final=bool(final))
                tried.append(Attempt(route.transport, route.target, outcome, seconds))

        for route in routes:
            over = trio.Event()
            nursery.start_soon(attempt, route, over)
            with trio.move_on_after(route.stagger):
                await over.wait()
    if won:
        return won[0]
    if final:
        raise final[0]
    return None


def _given_up(*, won: bool, final: bool) -> str:
    if won:
        return "given up, as another route was faster"
    return "given up, as no route would do better" if final else "no answer so far"


@asynccontextmanager
async def _closing(won: list[T]) -> AsyncGenerator[None]:
    """Close the winner if the caller was cancelled."""
    try:
        yield
    except BaseException:
        for opened in won:
            await trio.aclose_forcefully(opened)
        raise
