"""The groups of a scheduler, kept in their file (`grain.facts.needs`) for the next one.

A scheduler reads the file as it starts, and writes it again when something was learned. One that
cannot be read, or that has what no scheduler writes, is put aside and named; nothing else depends
on it.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from sys import float_info
from typing import TYPE_CHECKING

import trio

from grain.facts import needs as kept_needs
from grain.facts.needs import StoredGroup
from grain.facts.rows import LAST_RUNS
from grain.files.trust import private_folder
from grain.files.whole import write_whole
from grain.head.needs.group import LearningGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from grain.head.needs.groups import Needs

EACH = 10.0
"""Seconds between two looks whether something was learned."""

_log = logging.getLogger("grain.head")


def encode(needs: Needs) -> bytes:
    """Return the groups as the content of the file."""
    return kept_needs.encode(
        StoredGroup(
            one.name,
            tuple(one.runs),
            one.finished,
            one.exceeded,
            min(one.spent, float_info.max),  # JSON has nothing beyond
            min(one.fixed, float_info.max),
            one.obeys,
        )
        for one in needs.groups.values()
        if one.finished or one.exceeded
    )


def _groups(stored: Iterable[StoredGroup]) -> Iterator[LearningGroup]:
    for one in stored:
        yield LearningGroup(
            one.name,
            deque(one.runs, maxlen=LAST_RUNS),
            one.finished,
            one.exceeded,
            one.spent,
            one.fixed,
            one.obeys,
        )


def load(path: Path, needs: Needs) -> str:
    """Let groups know what a file has of them.

    Returns:
        Why the file was put aside, and where; "" if it was read, or there is none.
    """
    try:
        needs.groups.update((group.name, group) for group in _groups(kept_needs.read(path)))
    except kept_needs.Unreadable as error:
        why = str(error)
    else:
        return ""
    aside = path.with_name(f"{path.name}.unreadable")
    try:
        path.replace(aside)
    except OSError as error:
        return f"{why}; so groups learn their memory again. It cannot be put aside: {error}"
    return (
        f"{why}; so groups learn their memory again. It is kept as {aside.name}: remove it when "
        "you do not need it"
    )


def _write(path: Path, data: bytes) -> None:
    if not path.parent.is_dir():
        private_folder(path.parent)
    write_whole(path, data)


async def keep(path: Path, needs: Needs) -> None:
    """Keep a file true to what groups learn, until it is cancelled; then for the last time."""
    written = needs.changes
    failed = False
    try:
        while True:
            await trio.sleep(EACH)
            if needs.changes == written:
                continue
            now = needs.changes
            try:
                await trio.to_thread.run_sync(partial(_write, path, encode(needs)))
            except OSError as error:
                if not failed:
                    _log.warning("what groups have learned is not kept: %s", error)
                failed = True
            else:
                written, failed = now, False
    finally:
        if needs.changes != written and not failed:
            try:
                _write(path, encode(needs))
            except OSError as error:
                _log.warning("what groups have learned is not kept: %s", error)
