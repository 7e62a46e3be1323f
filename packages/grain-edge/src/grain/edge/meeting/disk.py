"""Threads with deadlines, in which every call on the shared filesystem runs.

A call on a hard mount whose server is away blocks, in the kernel, for as long as it is away. Then
its thread is abandoned: it does whatever it was about to do when the server is back, which every
caller here must be able to bear. The threads are limited in number and of their own, so that a
hung mount takes none from the rest of the program.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

import trio

from grain.edge.errors import FilesystemHung
from grain.edge.meeting import files
from grain.edge.meeting.files import translate

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

T = TypeVar("T")

_LATE = 0.5  # seconds after a deadline from which on this process was stopped itself
_LOOK = 0.01  # seconds between two looks at an answer then
_log = logging.getLogger("grain.edge")


class Disk:
    """Threads for one meeting.

    Args:
        deadline: seconds that one call may take, the wait for a thread included.
    """

    def __init__(self, threads: int = 4, deadline: float = 10.0) -> None:
        self._limiter = trio.CapacityLimiter(threads)
        self.deadline = deadline

    async def run(self, path: str, function: Callable[[Unpack[Ts]], T], *args: Unpack[Ts]) -> T:
        """Call a function in a thread.

        Cancellation abandons the thread. Time for which this process was stopped does not count.

        Raises:
            FilesystemHung: no answer in time.
            MeetingError: an `OSError` of the function, translated.
        """
        answer: list[T] = []

        def call() -> None:
            answer.append(function(*args))

        begun = trio.current_time()
        try:
            with trio.move_on_after(self.deadline):
                await trio.to_thread.run_sync(call, limiter=self._limiter, abandon_on_cancel=True)
        except OSError as e:
            raise translate(e, path) from e
        if not answer and trio.current_time() > begun + self.deadline + _LATE:
            # When a stopped process goes on, its deadlines are over before what has come meanwhile
            # is read, and the thread may not have had the time that the call takes.
            with trio.move_on_after(self.deadline):
                while not answer:  # noqa: ASYNC110 - an abandoned thread sets no event
                    await trio.sleep(_LOOK)
        if answer:
            return answer[0]
        raise FilesystemHung(
            f"{path}: the filesystem has not answered for {self.deadline:.0f} s. Its server may "
            "be down; Grain goes on trying"
        )

    async def patiently(
        self, path: str, function: Callable[[Unpack[Ts]], T], *args: Unpack[Ts]
    ) -> T:
        """Call a function as `run` does, but log a warning at the deadline, and go on waiting.

        Raises:
            Exception: of the function, as it is.
        """
        failed: Exception | None = None
        async with trio.open_nursery() as nursery:

            async def report() -> None:
                await trio.sleep(self.deadline)
                _log.warning("%s: no answer from the filesystem for %g s", path, self.deadline)

            nursery.start_soon(report)
            try:
                value = await trio.to_thread.run_sync(
                    function, *args, limiter=self._limiter, abandon_on_cancel=True
                )
            except Exception as e:  # raised below, outside the nursery's group
                failed = e
            nursery.cancel_scope.cancel()
        if failed is not None:
            raise failed
        return value


async def check_writable(directory: str) -> None:
    """Check that something can be stored in a directory.

    Raises:
        MeetingError: it cannot; the class says why.
    """
    await Disk(1).run(directory, files.check_writable, directory)
