"""The missions that words mean: one way for all commands.

A mission has a name, which others may have, too; a label, such as ``opt@2``, which no other has
(`grain.eventlog.names`); and an id. It tells them to the scheduler and writes them to its log, and
`grain run` gives the label before the mission begins. So a word is looked for in the logs
(`LogStore.find`), in the starts by `grain run`, whose program may call its mission otherwise, and
by the scheduler among the missions that it has (`find_peer`): each may have the mission only, and
where several have it they agree.

A label, an id and the beginning of an id always mean the same mission. A name means the mission
that runs, and if none does, the one that began last. Where several of a name run, no command
chooses: it lists their labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from grain.cli.mission_records import find as find_start
from grain.cli.mission_records import missions_folder, read
from grain.cli.show import clean
from grain.eventlog.errors import LogError, NoSuchLog, SeveralRun
from grain.eventlog.names import fit_name, logs_folder, parse_label
from grain.eventlog.store import LogStore
from grain.resource.figures import minute

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.cli.mission_records import StartRecord
    from grain.config import Config
    from grain.eventlog.store import StoredLog

_EARLY = 5.0  # seconds by which clocks of two hosts may differ


def starts() -> list[StartRecord]:
    """Return the starts by `grain run`; none where another user may have written them."""
    try:
        return read(missions_folder())
    except PermissionError:  # the commands that only know starts say so
        return []


def store_of(config: Config) -> LogStore:
    """Return the logs of the missions of a configuration."""
    return LogStore(logs_folder(config.head.event_log.folder))


def namesakes_text(config: Config, log: StoredLog, word: str) -> str:
    """Return the sentence on missions that a word may mean as well as that of a log; "" if none.

    Names of missions need not be unique: a name means the latest, and an id each of them.
    """
    if word == log.folder.name or "/" in word or parse_label(word) or log.id.startswith(word):
        return ""
    same = [one for one in store_of(config).logs() if one.name == log.name]
    if len(same) < 2:
        return ""
    rest = [one for one in same if one.id != log.id]
    others = ", ".join(
        f"{clean(one.label)} of {minute(one.started.timestamp())}" for one in rest[:3]
    )
    more = f" and {len(same) - 4} more" if len(same) > 4 else ""
    are = "the other is" if len(same) == 2 else "others are"
    which = "the last" if same[0].id == log.id else "the running one"
    return f"this is {which} of {len(same)} missions of that name; {are} {others}{more}"


def find_log(config: Config, word: str) -> StoredLog:
    """Return the log of the mission that a word means.

    Raises:
        LogError: there is none, or there are several; the text says what to do.
        OSError: it cannot be read.
    """
    store = store_of(config)
    try:
        return store.find(word)
    except NoSuchLog:
        record = find_start(starts(), word)
        log = None if record is None else log_of(store, record)
        if log is None:
            raise
        return log


def id_of(config: Config, word: str) -> str:
    """Return the id of the mission that a word means, for a scheduler; else the word.

    The scheduler may know the mission by another name, and others of the name that have left. It
    may have missions of the name without a log, too: where none with a log runs, it knows better.

    Raises:
        SeveralRun: several of that name run.
    """
    try:
        log = find_log(config, word)
    except SeveralRun:
        raise
    except (LogError, OSError):
        return word
    return log.id if log.runs() or log.name != fit_name(word) else word


def started(configured: Callable[[], Config], word: str) -> StartRecord:
    """Return the start by `grain run` of the mission that a word means.

    Args:
        configured: returns the configuration, which is needed if it is not the word of a start.

    Raises:
        click.ClickException: there is no such mission, or `grain run` has not started it.
    """
    records = read(missions_folder())
    record = find_start(records, word)
    if record is not None:
        return record
    try:
        log = find_log(configured(), word)
    except LogError:
        labels = list(dict.fromkeys(one.label for one in reversed(records)))[:5]
        there = f"the last ones are: {', '.join(labels)}" if labels else "none was started yet"
        raise click.ClickException(
            f"no mission {clean(word)} was started by `grain run`; {there}"
        ) from None
    record = start_of(log)
    if record is None:
        where = clean(header.host) if (header := log.header()) is not None else "another host"
        raise click.ClickException(
            f"mission {clean(word)} was not started by `grain run`: its output is where it was "
            f"started, on {where}; `grain history {clean(word)}` shows its tasks"
        )
    return record


def log_of(store: LogStore, record: StartRecord) -> StoredLog | None:
    """Return the log of a mission that `grain run` has started, by its process; None without."""
    process = record.process
    if process is None:
        return None
    for log in store.logs():
        if log.started.timestamp() < record.start.at - _EARLY:
            break  # the newest come first
        try:
            header = log.header()
        except (LogError, OSError):
            continue
        if header is not None and (header.host, header.pid) == (process.host, process.pid):
            return log
    return None


def start_of(log: StoredLog) -> StartRecord | None:
    """Return the start by `grain run` of the mission of a log; None if it was started otherwise."""
    try:
        header = log.header()
    except (LogError, OSError):
        return None
    if header is None:
        return None
    for record in reversed(starts()):
        process = record.process
        if (
            process is not None
            and (header.host, header.pid) == (process.host, process.pid)
            and header.time >= record.start.at - _EARLY
        ):
            return record
    return None
