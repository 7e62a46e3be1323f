"""Trio tasks that begin in the order in which they were started.

Trio runs the tasks that are ready at one time in a random order, so that no program relies on it.
The first step of a branch is part of the program as its author reads it, from top to bottom:
branches begin in the order of their calls.
"""

from __future__ import annotations

import trio


class Turns:
    """The order in which some trio tasks begin.

    The code that starts a task takes a number for it, and the task waits for its turn before its
    first step. A task that trio runs before its turn sleeps; the task whose turn it is wakes all
    that sleep, in order, before it goes on. Trio runs a batch of ready tasks forwards or backwards,
    so that takes two passes on average, however many tasks there are. (Waking just the next one
    would take a pass of the loop for each task.)

    A task that is cancelled while it sleeps goes on at once, out of turn: like any other trio task
    it takes its first step, and notices the cancellation where it first waits.
    """

    __slots__ = ("_ahead", "_asleep", "_last", "_next")

    def __init__(self) -> None:
        self._last = 0
        self._next = 1
        self._asleep: dict[int, trio.lowlevel.Task] = {}
        # Numbers after the next one whose tasks have begun, out of turn.
        self._ahead: set[int] = set()

    def take(self) -> int:
        """Return the number of a task that is started right now."""
        self._last += 1
        return self._last

    async def wait(self, number: int) -> None:
        """Wait for the turn of the calling task, as part of its first step."""
        if number != self._next:
            await self._sleep(number)
        if number == self._next:
            self._next += 1
            while self._next in self._ahead:
                self._ahead.remove(self._next)
                self._next += 1
        else:
            self._ahead.add(number)
        if self._asleep:
            asleep, self._asleep = self._asleep, {}
            for _, task in sorted(asleep.items()):
                trio.lowlevel.reschedule(task)

    async def _sleep(self, number: int) -> None:
        task = trio.lowlevel.current_task()
        cancelled = False

        def go_on(_: object) -> trio.lowlevel.Abort:
            nonlocal cancelled
            cancelled = True
            # The sleep ends as if by its turn, so the cancellation is delivered where the task
            # waits next.
            if self._asleep.pop(number, None) is not None:
                trio.lowlevel.reschedule(task)
            return trio.lowlevel.Abort.FAILED

        while number != self._next and not cancelled:
            self._asleep[number] = task
            await trio.lowlevel.wait_task_rescheduled(go_on)
