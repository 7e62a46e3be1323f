"""Missions that run without a scheduler that commands can ask: their event logs tell of them.

A mission that has only its local worker answers no command, and neither does a mission whose
address another scheduler has. Its process is known by the log that it writes.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from grain.cli.show import clean, typed
from grain.eventlog.errors import LogError
from grain.eventlog.names import fit_name, logs_folder, part_number
from grain.eventlog.store import LogStore

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from grain.config import Config
    from grain.eventlog.schema import LogStarted
    from grain.eventlog.store import StoredLog
    from grain.facts.rows import Mission

_NAMED = 3  # missions that a sentence names
_NEW = 10.0  # seconds in which a mission finds its scheduler, on a busy machine
_SIGN = 86400.0  # seconds without a sign of life, for which a computer may have slept


class LocalMission(NamedTuple):
    """A mission that runs, and that no scheduler has."""

    log: StoredLog
    header: LogStarted

    @property
    def here(self) -> bool:
        """True if its process runs on this host."""
        return self.header.host == socket.gethostname()

    @property
    def label(self) -> str:
        """The name, the id and the process, which tell it from others of its name."""
        header = self.header
        where = f"process {header.pid} on {_host(self)}"
        return f"{clean(header.label or header.name)} (id {clean(header.id[:8])}, {where})"

    def data(self) -> dict[str, Any]:
        """Return its name, id, process and command as plain data."""
        header = self.header
        return {
            "name": header.name, "label": header.label, "id": header.id, "host": header.host,
            "pid": header.pid,
            "began": header.time, "command": typed(header.command),
        }  # fmt: skip


def local_missions(config: Config, here: Collection[Mission] | None = None) -> list[LocalMission]:
    """Return the missions that run and that no scheduler has, the newest first.

    Args:
        here: the missions of its scheduler, as that lists them; None if no scheduler answers.
    """
    known = {one.id for one in here or ()}
    found = []
    now = time.time()
    own = (config.head.listen, config.worker.cli_dial)
    with suppress(OSError, RuntimeError):  # there are no logs, or no place for them
        for log in LogStore(logs_folder(config.head.event_log.folder)).logs():
            if log.id in known or now - log.modified() > _SIGN:
                continue
            with suppress(LogError, OSError):
                header = log.header()
                if header is None:
                    continue
                # A mission with another address may be with the scheduler there; and where no
                # scheduler answers here, it may be about to start one. Or it has only begun.
                elsewhere = header.address and (
                    here is None or header.address not in own or now - header.time < _NEW
                )
                if not elsewhere and not _lasts_there(header, here or ()) and log.runs():
                    found.append(LocalMission(log, header))
    return found


def _lasts_there(header: LogStarted, here: Collection[Mission]) -> bool:
    """Return True for a process of a lasting mission, whose log has an id of its own.

    One of another host may be gone, or has another one in its place: the scheduler knows better.
    """
    elsewhere = header.host != socket.gethostname()
    return any(
        one.id == header.lasting and (elsewhere or (one.connected and one.host == header.host))
        for one in here
    )


def named(missions: Sequence[LocalMission], word: str) -> list[LocalMission]:
    """Return the missions that a name, an id or the beginning of an id means."""
    return [
        one
        for one in missions
        if word in (one.header.name, one.header.label, one.log.id)
        or one.log.name == fit_name(word)
        or (len(word) >= 4 and one.log.id.startswith(word))
    ]


def local_missions_text(missions: Sequence[LocalMission]) -> str:
    """Return the sentence on missions that no scheduler has, and what to type; "" if none."""
    if not missions:
        return ""
    names = list(dict.fromkeys(one.header.name for one in missions))
    shown = ", ".join(map(clean, names[:_NAMED]))
    more = f" and {len(missions) - _NAMED} more" if len(missions) > _NAMED else ""
    hosts = sorted({_host(one) for one in missions})
    # What runs on another host cannot be seen: there is a sign of life from the last hours.
    here = all(one.here for one in missions)
    where = f"on {'this host' if here else ' and '.join(hosts)}"
    name = clean(names[0])
    there = "" if missions[0].here else f" on {_host(missions[0])}"
    what = (
        f"`grain history {name}` shows its tasks, `grain why {name}:1` one, "
        f"`grain cancel {name}`{there} ends it"
    )
    if len(missions) == 1:
        own = "only its local worker" if not missions[0].header.address else "only its own worker"
        return f"mission {shown} {'runs' if here else 'may still run'} {where} with {own}: {what}"
    run = "run" if here else "may still run"
    return f"missions {shown}{more} {run} {where} with only their own workers: for example, {what}"


def _host(mission: LocalMission) -> str:
    return clean(mission.header.host) or "an unknown host"


def end(mission: LocalMission) -> None:
    """Send SIGTERM to the process of a mission, which ends its tasks and then itself.

    Raises:
        click.ClickException: it runs on another host, or does not write its log any more.
    """
    pid = mission.header.pid
    if not mission.here:
        raise click.ClickException(
            f"{mission.label} has no scheduler that could reach it: log in on "
            f"{clean(mission.header.host)} and repeat: grain cancel {clean(mission.header.id[:8])}"
        )
    process = None
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        raise click.ClickException(f"{mission.label} does not run any more") from None
    except (AttributeError, OSError):  # before Linux 5.3, as on Enterprise Linux 8
        pass
    try:
        # The kernel uses ids again, and a container may have the name of this host: who has the log
        # open is the mission. The descriptor stays that of the process which was looked at.
        if not _writes(pid, mission.log.folder):
            raise click.ClickException(
                f"{mission.label} does not write its event log any more, so it cannot be told "
                f"whether that process is the mission; if it is, `kill {pid}` ends it"
            )
        if process is None:
            os.kill(pid, signal.SIGTERM)
        else:
            signal.pidfd_send_signal(process, signal.SIGTERM)
    except OSError as error:
        raise click.ClickException(f"{mission.label} cannot be told to end: {error}") from None
    finally:
        if process is not None:
            os.close(process)


def _writes(pid: int, folder: Path) -> bool:
    """Return True if a process has a file of a log open.

    Only plain files of this user count: in a folder that others share, a link to /dev/null would
    make a mission of most processes.
    """
    parts = set()
    with suppress(OSError):
        for file in folder.iterdir():
            if part_number(file.name) is not None:
                status = file.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    parts.add((status.st_dev, status.st_ino))
    with suppress(OSError):
        for opened in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                status = opened.stat()
                if (status.st_dev, status.st_ino) in parts:
                    return True
    return False
