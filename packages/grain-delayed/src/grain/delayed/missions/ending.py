"""The end of a mission from outside, as by Ctrl-C: SIGTERM, SIGHUP, and `grain cancel`.

Batch systems send SIGTERM, terminals that are closed SIGHUP.

By default either signal ends the process on the spot: no ``finally`` runs, no buffered file is
written, and no process ends the programs of its tasks. While a mission runs, they cancel it
instead; then the program ends by `SystemExit` with the status that a shell has for the signal, 143
or 129, so that whatever is around the mission ends in good order, too.

Rules:

1. Only a disposition that is the default one is replaced, and only in the main thread, where Python
   allows it. A program's own handler stays; so does SIGHUP that is ignored, as under nohup.
2. User code that computes is interrupted by `KeyboardInterrupt`, as trio does for Ctrl-C; all else
   is cancelled. So it works also where Ctrl-C is ignored, as in the background of a shell script.
3. Missions inside of one another, or beside, each put their handler before that of the other, and
   each handler calls the next one. They may end in any order.
4. IPython survives `SystemExit`. There the signal is raised again when no mission is left.
5. A child that user code forks, as multiprocessing does, has no mission: there the signals do what
   they do by default.
6. The mission of an executor runs in a thread. In the ``with`` block of the executor, in the main
   thread, a signal raises `SystemExit` at once, as Ctrl-C does `KeyboardInterrupt`.
7. Ctrl-C itself is trio's, or asyncio's: it cancels the mission, and programs have their grace to
   end by SIGTERM. `InterruptHandler` passes it on, and says which programs are waited for when a
   moment has gone. Another Ctrl-C kills the programs that were told to end.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import trio

from grain.delayed.errors import MissionCancelled
from grain.head import TaskCancelled, flattened
from grain.resource.figures import counted
from grain.worker import DefaultInChildren

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""The signals that end a mission."""

_SHELL = 128  # added to the number of a signal, it is the exit status of a shell
_MOMENT = 0.3  # seconds in which most programs have ended
_LOOK = 0.1  # seconds between two looks at how many are told to end
_TWICE = 1.0  # seconds between two Ctrl-C that are meant as one order, though nothing ends yet
_LONGEST = 30.0  # seconds for which programs that are told to end late are killed as well


class EndingHandler:
    """The handler of one signal for one mission.

    Args:
        end: called with it, in the mission's trio run.
    """

    def __init__(
        self,
        number: signal.Signals,
        end: Callable[[signal.Signals], object],
        token: trio.lowlevel.TrioToken,
    ) -> None:
        self._number = number
        self._end = end
        self._token = token
        # The handler of the mission around or beside; None for the signal's default.
        self._next: EndingHandler | None = None
        self._active = False

    def __call__(self, *_: object) -> None:
        """Have the mission cancelled, and user code that computes interrupted."""
        self._pass_on()
        # Without trio, an asyncio program is in its loop: there is nothing to interrupt.
        if trio.lowlevel.in_trio_task() and not trio.lowlevel.currently_ki_protected():
            raise KeyboardInterrupt(f"{self._number.name} received")

    def _pass_on(self) -> None:
        if self._active:
            try:
                self._token.run_sync_soon(self._end, self._number)
            except trio.RunFinishedError:
                pass  # the mission is ending anyway
        if self._next is not None:
            self._next._pass_on()

    def install(self) -> None:
        """Replace the default disposition, or go before another mission's handler."""
        before = signal.getsignal(self._number)
        if before is signal.SIG_DFL or isinstance(before, EndingHandler):
            self._next = before if isinstance(before, EndingHandler) else None
            self._active = True
            signal.signal(self._number, self)

    def remove(self) -> None:
        """Restore the handler before this one, or leave that to missions which are still there."""
        self._active = False
        first = signal.getsignal(self._number)
        while isinstance(first, EndingHandler) and not first._active:
            first = first._next
        if isinstance(signal.getsignal(self._number), EndingHandler):
            signal.signal(self._number, signal.SIG_DFL if first is None else first)


class ExitHandler(EndingHandler):
    """The handler of one signal for the ``with`` block of an executor: it raises `SystemExit`.

    A mission in the block puts its own handler before this one. Then `SystemExit` comes from that
    mission when it has ended.

    Args:
        interrupt: called in the handler, to cancel the calls. The end of the block could miss a
            signal that arrives as it begins.
    """

    def __init__(self, number: signal.Signals, interrupt: Callable[[], object]) -> None:
        self._number = number
        self._interrupt = interrupt
        self._next = None
        self._active = False
        self._received = False

    def __call__(self, *_: object) -> None:
        """Raise `SystemExit`, once: a second signal does not disturb the clean-up."""
        if self._active and not self._received:
            self._pass_on()
            if trio.lowlevel.in_trio_run():
                # Between trio's own lines no exception may be raised; Ctrl-C has its place there.
                signal.raise_signal(signal.SIGINT)
            else:
                raise SystemExit(_SHELL + self._number)

    def _pass_on(self) -> None:
        self._received = True
        self._interrupt()

    def install(self) -> None:
        """Replace the default disposition, and no other."""
        if signal.getsignal(self._number) is signal.SIG_DFL:
            super().install()


DefaultInChildren(SIGNALS, lambda handler: isinstance(handler, EndingHandler)).register()


class Ending:
    """The end of a mission from outside, while its block runs; `ended_from_outside` makes it.

    Attributes:
        cause: the signal that has ended it, or the error to raise; None as long as nothing has.
    """

    def __init__(self, report: Callable[[str], object]) -> None:
        self._report = report
        self.scope = trio.CancelScope()
        self._over = False
        self.cause: signal.Signals | MissionCancelled | None = None

    def on_signal(self, number: signal.Signals) -> None:
        """End the mission because of a signal."""
        self._end(number, f"{number.name} received: the mission ends.")

    def cancel(self, by: str) -> None:
        """End the mission for a user outside, with `MissionCancelled`."""
        text = f"the mission was cancelled by {by} with `grain cancel`"
        if not self._over:
            self._end(MissionCancelled(text), f"{text}.")

    def settle(self) -> None:
        """Note that the mission has ended well: to cancel it comes too late, and changes nothing.

        A signal still ends the program, and with it the mission counts as interrupted.
        """
        self._over = True

    def _end(self, cause: signal.Signals | MissionCancelled, line: str) -> None:
        if self.cause is None:
            self.cause = cause
            self._report(line)
        self.scope.cancel()


@contextmanager
def ended_from_outside(report: Callable[[str], object]) -> Iterator[Ending]:
    """Cancel the block on SIGTERM and SIGHUP, and end the program when the block has been left.

    Yields:
        The end, for code that receives another reason for it.

    Raises:
        SystemExit: a signal has arrived: 143 for SIGTERM, 129 for SIGHUP.
        MissionCancelled: a user has cancelled the mission.
    """
    ending = Ending(report)
    handlers: list[EndingHandler] = []
    if threading.current_thread() is threading.main_thread():
        token = trio.lowlevel.current_trio_token()
        handlers = [EndingHandler(number, ending.on_signal, token) for number in SIGNALS]
    for handler in handlers:
        handler.install()
    try:
        with ending.scope:
            yield ending
    except BaseException as error:
        # An error of the clean-up is worth more than the reason for the end. A cancellation from
        # around the mission, which mostly has the same reason, is not; nor is the outcome of a task
        # that was cancelled with its mission.
        if ending.cause is None or not all(map(_follows, flattened(error))):
            raise
    finally:
        for handler in handlers:
            handler.remove()
    if isinstance(ending.cause, MissionCancelled):
        raise ending.cause
    if ending.cause is not None:
        end_program(ending.cause)


class InterruptHandler:
    """The handler of SIGINT for one mission and all inside of it.

    Args:
        before: the handler that was there, which goes on to get each SIGINT.
    """

    def __init__(
        self,
        report: Callable[[str], object],
        before: Callable[[int, FrameType | None], object],
        token: trio.lowlevel.TrioToken,
    ) -> None:
        self.before = before
        self.active = True
        self._report = report
        self._token = token
        self._process = os.getpid()  # a child that user code forks has no mission
        self._last = -math.inf
        self._killing = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Have the loop look at the programs that end, and pass the signal on."""
        if self.active and os.getpid() == self._process:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._on_interrupt)
        self.before(number, frame)

    def _on_interrupt(self) -> None:
        from grain.worker.external import ending_programs  # for the start-up time of missions

        now = trio.current_time()
        again = now - self._last < _TWICE or bool(ending_programs())
        self._last = now
        if not again:
            trio.lowlevel.spawn_system_task(self._announce)
        elif not self._killing:
            self._killing = True
            trio.lowlevel.spawn_system_task(self._kill)

    async def _announce(self) -> None:
        from grain.worker.external import ending_programs

        # On a busy machine, the first of them is told later than this, and the last later still.
        await trio.sleep(_MOMENT)
        told, graces = -1, ending_programs()
        with trio.move_on_after(_LONGEST):
            while not graces or len(graces) != told:
                told = len(graces)
                await trio.sleep(_LOOK)
                graces = ending_programs()
        if graces and not self._killing:
            now = "it" if len(graces) == 1 else "them"
            self._report(
                f"stopping {counted(len(graces), 'program')} ({max(graces):g} s; "
                f"Ctrl-C again to kill {now} now)"
            )

    async def _kill(self) -> None:
        """Kill the programs that end, and programs that are told to a little later."""
        from grain.worker.external import ending_programs, kill_ending_programs

        with trio.move_on_after(_LONGEST):
            kill_ending_programs()
            await trio.sleep(_MOMENT)
            while ending_programs():
                kill_ending_programs()
                await trio.sleep(_MOMENT)
        self._killing = False


@contextmanager
def second_interrupt_kills(report: Callable[[str], object]) -> Iterator[None]:
    """Have a second Ctrl-C kill the programs that the first one has told to end, in the block.

    It is so in the main thread, where Python has its signals, and for the outermost of missions.
    """
    before = signal.getsignal(signal.SIGINT)
    if (
        threading.current_thread() is not threading.main_thread()
        or not callable(before)
        or isinstance(before, InterruptHandler)
    ):
        yield
        return
    handler = InterruptHandler(report, before, trio.lowlevel.current_trio_token())
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        handler.active = False
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, before)


def end_program(number: signal.Signals) -> None:
    """End this program as a signal does, after clean-up.

    Raises:
        SystemExit: with the exit status of a shell for that signal.
    """
    if in_ipython():
        signal.raise_signal(number)
    raise SystemExit(_SHELL + number)


def _follows(error: BaseException) -> bool:
    return isinstance(error, KeyboardInterrupt | SystemExit | trio.Cancelled | TaskCancelled)


def in_ipython() -> bool:
    """Return True in IPython, and in the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None
