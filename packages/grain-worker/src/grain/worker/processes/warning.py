"""The warning of a program before it is ended, so that it can stop by itself and be continued.

A program is warned before the first of three times: the time limit of its call, that of its task,
and the end of its worker, as the agent announces it (`grain.worker.processes.account.WorkerEnd`).
If it ends by itself after that, it has *stopped softly*. The exit code says nothing of it: pw.x
has 2 then, GROMACS 1 or 0, CP2K and VASP 0.
"""

from __future__ import annotations

import inspect
import logging
import math
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import trio

from grain import GVAR
from grain.files.processes import start_time
from grain.files.whole import whole_file
from grain.inputs.warning import BEFORE as BEFORE
from grain.inputs.warning import meant_signal
from grain.resource import WTime
from grain.worker.errors import command_line
from grain.worker.guards.proc import children, send_signal
from grain.worker.processes.account import RunAccount
from grain.worker.processes.fork_server_client import ForkServerClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grain.queue.records import Receivers
    from grain.worker.guards.protocol import ProgramRequest
    from grain.worker.processes.account import WorkerEnd

Warn = str | os.PathLike[str] | tuple[str, str] | signal.Signals | int
"""A warning by a file or a signal; an async function is one, too."""

Cause = Literal["", "time", "worker"]

Way = tuple[bytes, str] | int
"""A warning by the path of a file and its text, or by a signal; 0 for one by a function."""

EARLIEST = 1.0
"""Seconds that a program has to begin: pw.x removes a file that it finds at its start, and a signal
would end a program that does not handle it yet."""
_OWNED = "grain warns "  # begins the text of a file that names its job
_LATE = 60.0  # seconds by which clocks differ at most, and programs outlive their limit
_SEND_AGAIN = 0.2  # seconds until a signal that found no program is sent again
_LONGEST = 1000  # bytes of it that are read
_SENT_FOR = 10.0  # seconds for which it is

_log = logging.getLogger("grain.worker")


class UnusableWarning(Exception):
    """The file of a warning cannot be made where it should be; the message says why."""


class EarlyWarning:
    """The warning of one program.

    Args:
        warn: how it is given, as of `grain.worker.external.run_external`.
        before: how many seconds before the end.
        timeout: the time limit of the call in seconds; None without one.
        directory: the working directory of the program; None for a private one.
        earliest: seconds that the program has to begin, before which it is not warned.
        owner: the job that a file without a text names, so that no other one removes it.

    Attributes:
        before: how many seconds before the end it is given, at most. Half of a time limit that was
            estimated is the most.
        cause: before what it was given; empty if it was not.
        limit: the hard limit of the task in seconds, if that was the reason; else 0.
        signal: the number of the signal; 0 for another warning.
        trouble: why it could not be given, as a clause; empty if it could.

    Raises:
        TypeError, ValueError: for what no warning can be.
    """

    def __init__(
        self,
        warn: Warn | Callable[[], Awaitable[object]],
        before: float,
        timeout: float | None,
        directory: str | None,
        earliest: float = EARLIEST,
        *,
        owner: str = "",
    ) -> None:
        if not isinstance(before, int | float) or isinstance(before, bool):
            raise TypeError(f"warn_before={before!r}: write a number of seconds")
        if not 0 < before < math.inf:
            raise ValueError(f"warn_before={before:g}: write a number of seconds larger than 0")
        account, wtime = GVAR.account, GVAR.res.get(WTime)
        limit = account.limit if isinstance(account, RunAccount) else math.inf
        if isinstance(wtime, WTime) and wtime.group is not None:
            before = min(before, limit / 2)  # an estimate, which may be as short as it likes
        for name, seconds in ("timeout", timeout), ("the time limit of its task", limit):
            if seconds is not None and seconds <= before:
                raise ValueError(
                    f"warn_before={before:g} is not shorter than {name}, {seconds:g} s, so the "
                    "program would be warned as it begins"
                )
        self.before = before
        self._deadline = math.inf if timeout is None else trio.current_time() + timeout
        self._began = trio.current_time()
        self._earliest = earliest
        self.signal = 0
        self._path: Path | None = None
        self._text = ""
        self._function: Callable[[], Awaitable[object]] | None = None
        self.cause: Cause = ""
        self.trouble = ""
        self.limit = 0.0
        if number := _signal(warn):
            self.signal = number
        elif inspect.iscoroutinefunction(warn):
            self._function = warn
        else:
            self._path, text = _file(warn, directory)
            self._text = text or (f"{_OWNED}{owner}\n" if owner else "")

    @property
    def way(self) -> Way:
        """The way in which the warning is given."""
        return self.signal if self._path is None else (os.fsencode(self._path), self._text)

    @property
    def told(self) -> str:
        """The warning in words."""
        if self.signal:
            return f"the warning {signal.Signals(self.signal).name}"
        return f"the warning by the file {self._path}" if self._path else "the warning"

    async def prepare(self) -> None:
        """Remove the file of a warning that an earlier attempt may have left.

        Raises:
            UnusableWarning: it cannot be made there, or warns another job just now.
        """
        if self._path is not None:
            await trio.to_thread.run_sync(self._make_room)

    def _make_room(self) -> None:
        path = self._path
        assert path is not None
        if not path.parent.is_dir():
            raise UnusableWarning(
                f"it could not be warned: {path.parent}, the directory of the file {path.name}, is "
                "not there"
            )
        if other := self._other_owner(path):
            raise UnusableWarning(
                f"it could not be warned: {path} warns {other} now, and would stop this one, too; "
                "give each a file of its own, as by %j or %a in its name, or a directory"
            )
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UnusableWarning(
                f"it could not be warned: {path} is in the way: {error.strerror}"
            ) from error

    def _other_owner(self, path: Path) -> str:
        """Return the other job that a file warns; "" if it has ended, or none is known."""
        if not self._text.startswith(_OWNED):
            return ""
        try:
            text = _beginning(path, _LONGEST).decode(errors="replace")
            made = path.stat().st_mtime
        except OSError:
            return ""
        live = text.startswith(_OWNED) and time.time() < made + self.before + _LATE
        return text[len(_OWNED) :].strip() if live and text != self._text else ""

    async def watch(
        self, request: ProgramRequest, tell: Callable[[Cause], Awaitable[object]] | None = None
    ) -> None:
        """Wait until it is time for the warning, and give it.

        Args:
            request: by which the program was started.
            tell: gives a warning by a file or a signal to other programs in its place.

        Raises:
            Exception: whatever the function of the warning raises before a time limit. Before
                the end of the worker it is only noted: the program goes on, and its task runs
                again elsewhere.
        """
        account = GVAR.account
        end = account.end if isinstance(account, RunAccount) else None
        deadline = min(self._deadline, trio.current_effective_deadline())
        earliest = self._began + self._earliest
        while True:
            own, of_worker = deadline - self.before, self._worker_due(end)
            due = max(min(own, of_worker), earliest)
            if trio.current_time() >= due:
                break
            with trio.move_on_at(due):
                if end is None:
                    await trio.sleep_forever()
                else:
                    await end.changed.park()
        self._note_limit(deadline)
        await self._give(request, "worker" if of_worker < own else "time", tell)
        if self.cause == "worker" and end is not None:
            end.on_warned()

    def _worker_due(self, end: WorkerEnd | None) -> float:
        """Return when the program is to be warned of its worker's end.

        Of the time that was left when it began it has half: else a worker that lasts less than
        `warn_before` would hand back all, and do nothing.
        """
        if end is None:
            return math.inf
        if end.now:
            return -math.inf
        return end.at - min(self.before, (end.at - self._began) / 2)

    def _note_limit(self, deadline: float) -> None:
        account = GVAR.account
        if isinstance(account, RunAccount) and account.deadline == deadline:
            self.limit = account.limit

    async def _give(
        self,
        request: ProgramRequest,
        cause: Cause,
        tell: Callable[[Cause], Awaitable[object]] | None = None,
    ) -> None:
        try:
            if tell is not None:
                self.cause = cause
                await tell(cause)
            if self._function is not None:
                self.cause = cause
                await self._function()
            elif tell is None and self._path is not None:
                await trio.to_thread.run_sync(self._write, self._path)
                self.cause = cause
            elif tell is None:
                await self._send(request, cause)
        except OSError as error:
            self._note_trouble(request, str(error))
        except Exception as error:  # of the user's function
            if cause == "time":
                raise
            self._note_trouble(request, repr(error))

    def _note_trouble(self, request: ProgramRequest, why: str) -> None:
        self.cause = ""
        self.trouble = f"it could not be warned: {why}"
        _log.warning("%s: %s", _name(request), self.trouble)

    def _write(self, path: Path) -> None:
        # A program that looks just now finds all of the text, or no file.
        with whole_file(path, mode=None) as file:
            file.write(self._text.encode(errors="surrogateescape"))

    async def _send(self, request: ProgramRequest, cause: Cause) -> None:
        with trio.move_on_after(_SENT_FOR):
            while not send(request, self.signal, "script"):  # noqa: ASYNC110 - no event says so
                await trio.sleep(_SEND_AGAIN)
            self.cause = cause

    async def clear(self) -> None:
        """Remove the file, if the program has left it: another program would stop at once.

        One with another text stays: it is not of this warning.
        """
        if self.cause and self._path is not None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._remove, self._path)

    def _remove(self, path: Path) -> None:
        with suppress(OSError):
            own = self._text.encode(errors="surrogateescape")
            if _beginning(path, len(own) + 1) == own:
                path.unlink()


class OrderedWarning(EarlyWarning):
    """The warning of a program on a member of a gang: it is given when its root says so.

    Args:
        way: how it is given.
        before: seconds before the end, as the root has it.
    """

    def __init__(self, way: Way, before: float) -> None:
        warn: Warn | Callable[[], Awaitable[object]] = _nothing
        if isinstance(way, tuple):
            warn = os.fsdecode(way[0]), way[1]
        elif way:
            warn = way
        super().__init__(warn, before, None, None)
        self._due = trio.Event()
        self._before_what: Cause = ""

    def order(self, cause: Cause) -> None:
        """Have it given, before a time limit or before the end of a worker."""
        self._before_what = cause
        self._due.set()

    async def watch(
        self, request: ProgramRequest, tell: Callable[[Cause], Awaitable[object]] | None = None
    ) -> None:
        """Wait for the order, and give the warning."""
        await self._due.wait()
        await self._give(request, self._before_what, tell)

    async def clear(self) -> None:
        """Leave the file: members may share the directory, and not all have looked for it yet.

        The root removes it, and its program's next attempt does on each member.
        """


async def _nothing() -> None:
    """Give a warning that the root gives by its function."""


def _beginning(path: Path, most: int) -> bytes:
    """Return the first bytes of a file, so many at most; none of what is not a plain file.

    Raises:
        OSError: it cannot be read.
    """
    if not path.is_file():  # the reader of a pipe would wait
        return b""
    with path.open("rb") as file:
        return file.read(most)


def _signal(warn: object) -> int:
    """Return the number of the signal by which a program is warned; 0 for another way."""
    if isinstance(warn, str):
        if warn in signal.Signals.__members__:
            warn = signal.Signals[warn]
        elif meant := meant_signal(warn):
            raise ValueError(
                f"warn={warn!r}: for the signal write {meant!r}, and its seconds as warn_before; "
                f"for a file of that name, {'./' + warn!r}"
            )
        elif warn.upper().startswith("SIG"):
            raise ValueError(f"warn={warn!r}: it is not the name of a signal, such as 'SIGTERM'")
    if not isinstance(warn, int) or isinstance(warn, bool):
        return 0
    if warn not in signal.valid_signals() or warn == 0:
        raise ValueError(f"warn={warn!r}: it is not the number of a signal")
    if warn in (signal.SIGKILL, signal.SIGSTOP):
        raise ValueError(f"warn={warn!r}: no program can handle that signal")
    return int(warn)


def _file(warn: object, directory: str | None) -> tuple[Path, str]:
    """Return the path and the text of a file by which a program is warned."""
    name, text = warn if isinstance(warn, tuple) and len(warn) == 2 else (warn, "")
    if not isinstance(name, str | os.PathLike) or not isinstance(text, str):
        raise TypeError(
            f'warn={warn!r}: write the name of a file, as in warn="EXIT"; a pair of its name and '
            "its text; a signal, as in warn=signal.SIGTERM; or an async function"
        )
    path = Path(name)
    if not path.name or "\0" in str(path):
        raise ValueError(f"warn={warn!r}: it is not the name of a file")
    if path.is_absolute():
        return path, text
    if directory is None:
        raise ValueError(
            f"warn={warn!r}: the program runs in a scratch directory, which is removed, so it "
            "could not go on there: state a directory, as in cwd=job"
        )
    return Path(directory, path), text


def _name(request: ProgramRequest) -> str:
    return command_line(tuple(map(os.fsdecode, request["argv"])))


def send(request: ProgramRequest, number: int, to: Receivers) -> bool:
    """Send a signal to a program of this trio run; return False if nothing was there to get it.

    Args:
        request: by which the program was started.
        to: ``"script"``: the program itself; ``"steps"``: all that it has started; ``"all"``: both.
    """
    for program in ForkServerClient.programs_of_this_run():
        pid = program.supervisor.pid
        if program.request is not request or pid is None:
            continue
        with suppress(OSError):  # it has just ended
            roots = children(pid)
            leader = _leader(roots)
            if to == "script":
                if leader is not None:
                    os.kill(leader, number)
                return leader is not None
            if to == "steps" and leader is not None:
                roots = [one for one in (*roots, *children(leader)) if one != leader]
            send_signal(roots, number)
            return bool(roots)
    return False


def _leader(roots: list[int]) -> int | None:
    """Return the program itself among the children of its supervisor, which adopts orphans, too.

    It leads the session that was made for it, and began before all that it has started.
    """
    leaders = [one for one in roots if os.getsid(one) == one]
    return min(leaders, key=lambda one: start_time(one) or 0, default=None)
