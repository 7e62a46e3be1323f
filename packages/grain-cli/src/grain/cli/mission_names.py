"""The missions that words mean: one way for all commands.

A mission has a name, which others may have, too; an id; and labels that tell it from others of its
name. A word is looked for, in this order, as

1. a label, such as ``opt@2``, or a name that `grain ls` shows, of a mission that is here now;
2. a label of `grain missions`, which counts the starts of a name;
3. a label that `grain ls` showed: of those that had it, the mission that began last;
4. a name; an id; the beginning of one of them.

A name means the mission that runs, and if none does, the one that began last. Where several of a
name run, no command chooses: it lists their labels (`LogStore.find`, and `find_peer` of the
scheduler, for the missions that it has).
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.mission_records import find as find_start
from grain.cli.mission_records import missions_folder, read
from grain.cli.show import clean, minute
from grain.eventlog.errors import AmbiguousLog, LogError, NoSuchLog, SeveralRun
from grain.eventlog.names import fit_name, logs_folder
from grain.eventlog.store import LogStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grain.cli.mission_records import StartRecord
    from grain.config import Config
    from grain.edge.questions import MissionState, StateAnswer
    from grain.eventlog.store import StoredLog

LABEL = re.compile(r"(?P<name>.+)@(?P<ordinal>[1-9][0-9]{0,8})", re.DOTALL)
"""A name that tells a mission from others of its name."""

PATIENCE = 0.5
"""Seconds to look for a scheduler that may know a label, and is not needed."""

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


def _find(store: LogStore, word: str) -> StoredLog:
    """Return the log that a user means: see `LogStore.find`; also a file or a folder by its path.

    Raises:
        LogError: none, or several; the text says what to do.
        OSError: it cannot be read.
    """
    try:
        return store.find(word)
    except SeveralRun:
        raise
    except (AmbiguousLog, NoSuchLog):
        # A path without a slash, as in the folder itself; a name goes first.
        if Path(word).exists():
            return store.find(f"./{word}")
        raise


def namesakes(store: LogStore, log: StoredLog, word: str) -> list[StoredLog]:
    """Return all logs that a word may mean just as well, newest first; none if it is the only one.

    Names of missions need not be unique: a name means the latest, and an id each of them.
    """
    if word in (log.id, log.folder.name) or "/" in word or LABEL.fullmatch(word):
        return []
    same = [one for one in store.logs() if one.name == log.name]
    return same if len(same) > 1 and not log.id.startswith(word) else []


def namesakes_text(config: Config, log: StoredLog, word: str) -> str:
    """Return the sentence on missions that a word may mean as well as that of a log; "" if none."""
    same = namesakes(store_of(config), log, word)
    if not same:
        return ""
    rest = [one for one in same if one.id != log.id]
    others = ", ".join(f"{clean(one.id)} of {minute(one.started.timestamp())}" for one in rest[:3])
    more = f" and {len(same) - 4} more" if len(same) > 4 else ""
    are = "the other is" if len(same) == 2 else "others are"
    which = "the last" if same[0].id == log.id else "the one that runs"
    return f"this is {which} of {len(same)} missions of that name; {are} {others}{more}"


def find_log(config: Config, word: str) -> StoredLog:
    """Return the log of the mission that a word means, in the order of this module.

    Raises:
        LogError: there is none, or there are several; the text says what to do.
        OSError: it cannot be read.
    """
    store = store_of(config)
    if LABEL.fullmatch(word) and (log := _labelled(config, store, word)) is not None:
        return log
    try:
        return _find(store, word)
    except SeveralRun as error:
        here = {one.id: one.label for one in missions_here(config)}
        running = (log for log in store.logs() if log.id in error.ids)
        labels = [
            f"{here[one.id]} ({_where(one)})" if one.id in here else _where(one) for one in running
        ]
        raise SeveralRun(several_text(word, labels), error.candidates, error.ids) from None
    except NoSuchLog:
        record = find_start(starts(), word)
        log = None if record is None else log_of(store, record)
        if log is not None:
            return log
        label = LABEL.fullmatch(word)
        same = [] if label is None else _of_name(store, label["name"])
        if not same:
            raise
        named = ", ".join(f"{log.id} of {log.started.astimezone():%Y-%m-%d %H:%M}" for log in same)
        raise NoSuchLog(
            f"no mission is or was called {word!r}; of that name there are {named}"
        ) from None


def several_text(word: str, labels: Sequence[str]) -> str:
    """Return the sentence on missions of one name that run, of which a command needs one."""
    return (
        f"{len(labels)} missions called {clean(word)!r} run: {clean(', '.join(labels))}; name one "
        "by its label or its id"
    )


def _where(log: StoredLog) -> str:
    try:
        header = log.header()
    except (LogError, OSError):
        header = None
    return f"id {log.id[:8]}{f', on {header.host}' if header is not None and header.host else ''}"


def meant(config: Config, word: str) -> str:
    """Return the id of the only mission of a name that runs, by its log; else the word.

    Raises:
        SeveralRun: several of that name run.
    """
    if LABEL.fullmatch(word) or not any(log.runs() for log in _of_name(store_of(config), word)):
        return word
    return find_log(config, word).id


def _labelled(config: Config, store: LogStore, label: str) -> StoredLog | None:
    """Return the log of the mission with a label; None if there is none."""
    mission = next((one for one in missions_here(config) if one.label == label), None)
    if mission is not None:
        return next((log for log in store.logs() if log.id == mission.id), None)
    record = next((one for one in starts() if one.label == label), None)
    if record is not None and (log := log_of(store, record)) is not None:
        return log
    name, _, ordinal = label.rpartition("@")
    same = _of_name(store, name)
    spans = [(log.started.timestamp(), _last(log)) for log in same]
    had = (log for log, one in zip(same, ordinals(spans), strict=True) if one == int(ordinal))
    # The only one of its name is meant: the scheduler may have counted others that left no log.
    return next(had, same[0] if len(same) == 1 else None)


def _of_name(store: LogStore, name: str) -> list[StoredLog]:
    """Return the logs of a name, the newest first."""
    return [log for log in store.logs() if log.name == fit_name(name)]


def _last(log: StoredLog) -> float:
    """Return when a mission has left its scheduler, or when this is asked if it has not."""
    return time.time() if log.is_running() else log.modified()


def ordinals(spans: Iterable[tuple[float, float]]) -> list[int]:
    """Return the ordinals that a scheduler gave to missions of one name.

    Each that came got one more than the largest of those that were there.

    >>> ordinals([(20, 30), (5, 25), (0, 10)])
    [3, 2, 1]
    >>> ordinals([(20, 30), (0, 10)])
    [1, 1]
    """
    given = list(spans)
    numbers = [0] * len(given)
    for at in sorted(range(len(given)), key=lambda at: given[at][0]):
        began = given[at][0]
        there = (
            number
            for number, (first, last) in zip(numbers, given, strict=True)
            if number and first <= began < last
        )
        numbers[at] = 1 + max(there, default=0)
    return numbers


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


class StartLabels:
    """The labels in `grain missions` of what `grain run` has started, by their processes."""

    def __init__(self) -> None:
        self._starts: dict[tuple[str, int], list[StartRecord]] = {}
        for record in starts():
            if (process := record.process) is not None:
                self._starts.setdefault((process.host, process.pid), []).append(record)

    def of(self, host: str, pid: int, began: float) -> str:
        """Return the label of a mission by the first line of its log; "" if there is none."""
        starts = self._starts.get((host, pid), ())
        before = (one.label for one in reversed(starts) if one.start.at - _EARLY <= began)
        return next(before, "")


def id_of(config: Config, word: str) -> str:
    """Return the id of a mission for a scheduler that does not know the word; "" without a log.

    It is that of the start by `grain run` that the word means, which has other labels there.
    """
    record = find_start(starts(), word)
    log = None if record is None else log_of(store_of(config), record)
    return "" if log is None else log.id


def missions_here(config: Config) -> list[MissionState]:
    """Return the missions that the scheduler has; none if it does not answer at once."""
    state = scheduler_state(config)
    return [] if state is None else state.missions


def scheduler_state(config: Config) -> StateAnswer | None:
    """Return the answer of the scheduler to `grain ls`; None if it does not answer at once."""
    from grain.cli.query import NoScheduler, ask_state

    try:
        return ask_state(config, patience=PATIENCE)
    except NoScheduler:
        return None
