"""The event log of a mission: whether there is one, its beginning and its end."""

from __future__ import annotations

import os
import secrets
import threading
import time
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from grain.delayed.errors import MissionCancelled

if TYPE_CHECKING:
    import signal
    from collections.abc import AsyncGenerator, Callable

    from grain.config import EventLog
    from grain.eventlog.writer import LogWriter, Status
    from grain.head.run_log import RunLog
    from grain.remote_exer import LastingMission

    EventLogWanted = bool | str | os.PathLike[str] | None

_SHORT = 8  # characters of an id, which are enough to find its log
_PATIENCE = 5.0  # seconds for which the end of a mission waits for a disk that does not answer


@asynccontextmanager
async def recording(
    wanted: EventLogWanted,
    settings: EventLog,
    *,
    name: str,
    number: int,
    address: str,
    report: Callable[[str], object],
    cause: Callable[[], signal.Signals | MissionCancelled | None],
    lasting: LastingMission | None = None,
    on_closed: Callable[[str], object] = lambda _: None,
) -> AsyncGenerator[RunLog | None]:
    """Write the log of a mission during the block.

    Args:
        number: that of its label; 0 if it has none.
        address: where workers join it; empty if they cannot.
        lasting: the lasting mission that this process serves, if it serves one.
        on_closed: called in the end, if there is a log then, with the word by which commands of
            this user know it, from whatever directory.

    Yields:
        The log of its tasks; None if there is to be none.
    """
    log = None
    if wanted is not False:
        if wanted is None and not address:
            # A small program whose author has not heard of logs runs without one as well.
            report = _be_silent
        folder = settings.folder if isinstance(wanted, bool | None) else os.fspath(wanted)
        log = _begin(folder, settings, name, number, address, lasting, report)
    if log is None:
        yield None
        return
    from grain.head.run_log import RunLog

    run_log = RunLog(log, log.id)
    status: Status = "done"
    message = ""
    try:
        yield run_log
    except BaseException as error:
        status, message = _ending(error)
        raise
    finally:
        why = cause()
        if why is not None:
            status, message = "interrupted", _words(why)
        run_log.close()
        with trio.CancelScope(shield=True):
            close = partial(log.close, status, message, patience=_PATIENCE)
            await trio.to_thread.run_sync(close)
        if log.written:
            on_closed(_word(log))


def _word(log: LogWriter) -> str:
    """Return what `grain report` takes for a log: the id of its mission, or its folder.

    A name means the last mission of that name, and is another's before long.
    """
    import shlex

    from grain.eventlog.names import logs_folder

    usual = log.folder.parent == logs_folder()
    return log.id[:_SHORT] if usual else shlex.quote(str(log.folder))


def from_any_thread(take: Callable[..., object]) -> Callable[..., object]:
    """Return a function that calls another one in the thread of this event loop.

    The watch over the loop reports blocking code from a thread of its own, while the loop is
    blocked. What is said there is taken when the loop goes on, and not at all once it has ended.
    """
    token = trio.lowlevel.current_trio_token()
    here = threading.get_ident()

    def call(*what: object) -> None:
        if threading.get_ident() == here:
            take(*what)
        else:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(take, *what)

    return call


def wanted_log(
    wanted: EventLogWanted, settings: EventLog, *, inside: bool, elsewhere: bool
) -> EventLogWanted:
    """Return False if a mission is to have no log; else what the user wants.

    Args:
        wanted: as of `mission`; None leaves it to the configuration.

    Raises:
        TypeError: wanted is neither a bool nor a path.
    """
    if wanted is None:
        return None if settings.enabled and (elsewhere or not inside) else False
    if isinstance(wanted, bool):
        return wanted
    if not isinstance(wanted, str | os.PathLike) or not isinstance(os.fspath(wanted), str):
        raise TypeError(
            f"event_log={wanted!r}: give True, False, or the directory of the logs, as in "
            'event_log="/scratch/me/logs"'
        )
    return wanted


def _be_silent(_: str) -> None:
    """Report nothing."""


def _begin(
    folder: str,
    settings: EventLog,
    name: str,
    number: int,
    address: str,
    lasting: LastingMission | None,
    report: Callable[[str], object],
) -> LogWriter | None:
    # Imported where a log begins, for the start-up time of missions without one.
    from grain.edge.version import own_versions
    from grain.eventlog.names import label_of, logs_folder
    from grain.eventlog.store import LogStore
    from grain.eventlog.writer import LogWriter, first_line

    try:
        store = LogStore(logs_folder(folder))
    except RuntimeError as error:
        report(f"warning: there is no event log, as there is no place for it: {error}")
        return None
    token = trio.lowlevel.current_trio_token()

    def on_trouble(text: str) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(report, f"warning: {text}")

    def call_soon(flush: Callable[[], None]) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(flush, idempotent=True)

    id_ = secrets.token_hex(8)
    return LogWriter(
        store,
        first_line(
            id_,
            name,
            grain=own_versions().grain,
            address=address,
            label=label_of(name, number) if number else "",
            lasting="" if lasting is None else lasting.id,
            generation=0 if lasting is None else lasting.generation,
        ),
        on_trouble=on_trouble,
        call_soon=call_soon,
        keep=settings.keep,
        gigabytes=settings.keep_size,
        clocks=(time.time, trio.lowlevel.current_clock().current_time),
    )


def _ending(error: BaseException) -> tuple[Status, str]:
    """Return how a mission has ended that was left by an exception."""
    from grain.head.log_words import one_line

    text = str(error)
    words = one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)
    if isinstance(error, SystemExit):  # of the program itself
        return ("done", "") if error.code in (None, 0) else ("failed", words)
    if isinstance(error, Exception) and not isinstance(error, MissionCancelled):
        return "failed", words
    return "interrupted", words


def _words(cause: signal.Signals | MissionCancelled) -> str:
    return str(cause) if isinstance(cause, MissionCancelled) else cause.name
