"""The event log of Gnaw: one for each process that has served a peer."""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from grain.edge.version import own_versions
from grain.head.hub.log import HubLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grain.eventlog.writer import LogWriter, Status

_log = logging.getLogger("grain.head")


@dataclass(frozen=True)
class EventLogOptions:
    """The place of the logs.

    Attributes:
        folder: as ``head.event_log.folder`` of the configuration.
        keep: seconds for which a log is kept after its end.
        keep_size: GB of all logs together.
    """

    folder: str
    keep: float
    keep_size: float


@contextmanager
def recording(options: EventLogOptions | None, address: str) -> Iterator[HubLog | None]:
    """Write the log of a scheduler during the block, from the first peer on.

    Args:
        options: None for no log.
        address: where it serves.
    """
    if options is None:
        yield None
        return
    begun: list[LogWriter] = []

    def begin() -> LogWriter:
        begun.append(_begin(options, address))
        return begun[0]

    hub_log = HubLog(begin)
    status: Status = "failed"
    try:
        yield hub_log
        status = "done"
    finally:
        hub_log.close()
        for log in begun:
            log.close(status)


def _begin(options: EventLogOptions, address: str) -> LogWriter:
    # Imported only by a scheduler that serves, not when it leaves at once.
    from grain.eventlog.names import logs_folder
    from grain.eventlog.store import LogStore
    from grain.eventlog.writer import LogWriter, first_line

    token = trio.lowlevel.current_trio_token()

    def call_soon(flush: Callable[[], None]) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(flush, idempotent=True)

    return LogWriter(
        LogStore(logs_folder(options.folder, "scheduler")),
        first_line(
            "scheduler", secrets.token_hex(8), "gnaw", grain=own_versions().grain, address=address
        ),
        on_trouble=lambda text: _log.warning("%s", text),
        call_soon=call_soon,
        keep=options.keep,
        gigabytes=options.keep_size,
        clocks=(time.time, trio.lowlevel.current_clock().current_time),
    )
