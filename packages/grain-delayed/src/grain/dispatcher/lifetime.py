"""The lifetime of a dispatcher that is a batch job: its successor, and its end without work."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, NamedTuple

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger("grain.dispatcher")

IDLE = 1800.0
"""Seconds without a job after which such a dispatcher ends."""

_LOOK = 10.0  # seconds between two looks
_AGAIN = 600.0  # seconds until a submission is tried again that has failed


class Lifetime(NamedTuple):
    """The time that a dispatcher has, and the command that submits the next one.

    Attributes:
        seconds: the time that is left when it starts; infinite if that is not known.
        successor: the words of the command.
    """

    seconds: float
    successor: tuple[str, ...]


async def outlive(
    lifetime: Lifetime,
    busy_at: Callable[[], float],
    submit: Callable[[tuple[str, ...]], Awaitable[str]],
) -> None:
    """Submit a successor in time, if there is work; return when there has been none for long.

    The successor is submitted after half of the time, as it may wait for as long in the batch
    system. When it begins it takes over, and this one ends.

    Args:
        busy_at: returns the last time at which there were jobs, by the clock of trio.
        submit: runs the command; returns what went wrong, or "".
    """
    due = trio.current_time() + lifetime.seconds / 2
    while (now := trio.current_time()) < busy_at() + IDLE:
        if now >= due and busy_at() > now - 2 * _LOOK:
            problem = await submit(lifetime.successor)
            if problem:
                _log.warning(
                    "no successor could be submitted, so the next command that uses the queue has "
                    "to do so: %s", problem,
                )  # fmt: skip
            due = now + _AGAIN if problem else math.inf
        await trio.sleep(_LOOK)


async def run_command(words: tuple[str, ...]) -> str:
    """Run a command; return the last line that it printed if it failed, or ""."""
    done = await trio.run_process(words, capture_stdout=True, capture_stderr=True, check=False)
    if not done.returncode:
        return ""
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"
