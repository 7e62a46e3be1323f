"""The file that keeps what groups have learned, so that the next scheduler knows it.

It is ``needs.json`` in the directory beside the meeting file; at an address without one, a file of
the user's state directory. A scheduler reads it as it starts, and writes it again when something
was learned, whole or not at all. One that cannot be read, or that has what no scheduler writes, is
put aside and named; nothing else depends on it.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from functools import partial
from hashlib import sha256
from pathlib import Path
from sys import float_info
from typing import TYPE_CHECKING, Annotated

import msgspec
import trio

from grain.edge.address import parse_address
from grain.eventlog.files import open_plain
from grain.eventlog.names import state_folder
from grain.facts.rows import LAST_RUNS
from grain.files.trust import mistrust, private_folder
from grain.files.whole import write_whole
from grain.head.needs.group import FinishedRun, LearningGroup, NotNegative
from grain.resource import Memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.head.needs.groups import Needs

NAME = "needs.json"
VERSION = 1
EACH = 10.0
"""Seconds between two looks whether something was learned."""

_log = logging.getLogger("grain.head")


class Unreadable(Exception):
    """A file of needs cannot be used; the text says why, and what to do."""


class StoredGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group, as `LearningGroup` has it; of its runs the last ones."""

    name: str
    runs: tuple[FinishedRun, ...]
    finished: Annotated[int, msgspec.Meta(ge=0)]
    exceeded: Annotated[int, msgspec.Meta(ge=0)]
    spent: NotNegative
    fixed: NotNegative
    obeys: bool


class StoredNeeds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All groups, with the version of this form."""

    version: int
    groups: tuple[StoredGroup, ...]


class _Version(msgspec.Struct, frozen=True):
    version: int


def path_of(address: str, env: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the file for the scheduler at an address.

    Without a meeting file its name has the digest of the address, without the key of a bridge.

    Returns:
        None if the user has no directory for it.
    """
    where = parse_address(address)
    if where.edge is not None:
        return Path(f"{where.edge}.d", NAME)
    try:
        folder = state_folder(env) / "needs"
    except RuntimeError:
        return None
    return folder / f"{sha256(str(where).encode()).hexdigest()[:16]}.json"


def encode(needs: Needs) -> bytes:
    """Return the groups as the content of the file."""
    stored = tuple(
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
    return msgspec.json.format(msgspec.json.encode(StoredNeeds(VERSION, stored)), indent=1)


def decode(data: bytes) -> list[LearningGroup]:
    """Return the groups in the content of a file.

    Raises:
        Unreadable: it is torn, of another version, or has what no scheduler writes.
    """
    try:
        version = msgspec.json.decode(data, type=_Version).version
    except msgspec.MsgspecError as error:
        raise Unreadable(f"it is damaged ({error})") from None
    if version != VERSION:
        raise Unreadable(f"it is of version {version}, and this Grain reads version {VERSION}")
    try:
        stored = msgspec.json.decode(data, type=StoredNeeds)
    except msgspec.MsgspecError as error:
        raise Unreadable(f"it is damaged ({error})") from None
    names: set[str] = set()
    for one in stored.groups:
        try:
            Memory(group=one.name)
        except ValueError as error:
            raise Unreadable(f"it is damaged ({error})") from None
        if one.name in names:
            raise Unreadable(f"it is damaged (two groups are named {one.name!r})")
        names.add(one.name)
        if len(one.runs) != min(one.finished, LAST_RUNS):
            raise Unreadable(
                f"it is damaged ({one.name!r} has {len(one.runs)} runs of {one.finished})"
            )
    return [
        LearningGroup(
            one.name,
            deque(one.runs, maxlen=LAST_RUNS),
            one.finished,
            one.exceeded,
            one.spent,
            one.fixed,
            one.obeys,
        )
        for one in stored.groups
    ]


def load(path: Path, needs: Needs) -> str:
    """Let groups know what a file has of them.

    Returns:
        Why the file was put aside, and where; "" if it was read, or there is none.
    """
    try:
        with open_plain(path) as file:  # whatever a link leads to is judged, and not the link
            why = mistrust(path, os.fstat(file.fileno()))
            if not why:
                needs.groups.update((group.name, group) for group in decode(file.read()))
    except FileNotFoundError:
        return ""
    except OSError as error:
        why = f"{path}: {error.strerror}"
    except Unreadable as error:
        why = f"{path}: {error}"
    if not why:
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
