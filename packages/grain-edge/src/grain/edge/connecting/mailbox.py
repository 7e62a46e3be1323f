"""The meeting's directory as a mailbox, by which diallers without a route call the head.

    P.d/<epoch>/<shard>/bell/<id>.<n>   empty: "peer <id> has something for you"; each name is new
    P.d/<epoch>/<shard>/<id>/           0700, made by the dialler:
        note                            its addresses, for TCP in reverse
        up.*, down.*                    the logs of the file transport

The head looks at the bells of each shard and at nothing else: so an idle fleet costs it one look
per shard and second, however many peers there are. Four shards keep a directory below 64 entries
for 200 peers. A new head makes a new epoch's directory and removes all others: the remains of
killed processes, and the logs of an earlier head's peers, which then look for the new head.

    P.d/door.<id>, P.d/door.<id>.d/     the same of an invitation (`grain.edge.beside`)

The meeting file of a door says only who has made it, so that it is removed after that process.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import trio

from grain.edge.errors import MeetingError
from grain.edge.meeting import files
from grain.edge.meeting.block import SIZE, decode_block, process_here
from grain.edge.transports.file_folder import Folder, remove_tree
from grain.edge.transports.file_stream import FILES_HEARTBEAT, LOST, FileStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grain.edge.connecting.accept import Acceptor
    from grain.edge.meeting.meeting import Meeting
    from grain.edge.transports.identity import Credential

SHARDS = 4
LOOK_FIRST, LOOK_LAST = 0.005, 1.0
"""Seconds between two looks at the bells: a tenth of the quiet before, within these."""

_RING = 1.0  # seconds from one ring to the next
_BELL = re.compile(r"([0-9a-f]{16})\.\d+")
_DOOR = re.compile(r"door\.[0-9a-f]{16}")
_log = logging.getLogger("grain.edge")


def new_door(directory: str) -> str:
    """Return the path of another door in a meeting's directory."""
    return f"{directory}/door.{secrets.token_hex(8)}"


def remove_door(path: str) -> None:
    """Remove a door, and what guests have left there; in a thread.

    Raises:
        OSError: something cannot be removed.
    """
    remove_tree(f"{path}.d")
    # Last, as without it the door is not known to be that of a process which is gone.
    files.remove(path)


def sweep_doors(directory: str) -> None:
    """Remove the doors in a meeting's directory whose processes are gone; in a thread.

    Those of other hosts stay: from here their processes cannot be seen.

    Raises:
        OSError: something cannot be removed.
    """
    for name in filter(_DOOR.fullmatch, files.names(directory)):
        path = f"{directory}/{name}"
        with suppress(MeetingError):  # another process removes it at this moment, or writes it
            owner = process_here(decode_block(files.read_block(path, SIZE), path))
            if owner is not None and not owner.alive:
                remove_door(path)


class MailboxEntry:
    """A dialler's directory and bell in the mailbox."""

    def __init__(self, meeting: Meeting, epoch: int) -> None:
        self._id = secrets.token_hex(8)
        shard = f"{meeting.directory}/{epoch}/{int(self._id, 16) % SHARDS}"
        self._meeting = meeting
        self._bell = f"{shard}/bell/{self._id}"
        self._rings = 0
        self._last = float("-inf")
        self.folder = Folder(f"{shard}/{self._id}")

    def make(self, contents: dict[str, bytes]) -> None:
        """Make the directory with some files; in a thread.

        Raises:
            OSError: no such epoch any more, no space, ...
        """
        files.make_private(self.folder.path)
        for name, data in contents.items():
            files.write_block(f"{self.folder.path}/{name}", data)

    async def ring(self) -> None:
        """Ring for the head, unless this side rang within the last second.

        A head that was rung for goes on looking for 2 s, so once a second suffices.
        """
        now = trio.current_time()
        if now - self._last < _RING:
            return
        self._last = now
        self._rings += 1
        self.folder.operations += 2
        try:
            await self._meeting.disk.patiently(
                self._bell, files.make_name, f"{self._bell}.{self._rings}"
            )
        except OSError as e:
            # The head looks by itself from time to time.
            _log.info("%s: %s", self._bell, e)


@asynccontextmanager
async def leave_note(
    meeting: Meeting, epoch: int, addresses: list[tuple[str, int]]
) -> AsyncIterator[None]:
    """Ask the head to connect to one of some addresses; the note is removed at the end.

    Raises:
        MeetingError: could not be written.
    """
    entry = MailboxEntry(meeting, epoch)
    try:
        note = json.dumps(addresses).encode()
        await meeting.disk.run(entry.folder.path, entry.make, {"note": note})
        await entry.ring()
        yield
    finally:
        with trio.CancelScope(shield=True), trio.move_on_after(2):
            await _quietly(meeting, entry.folder)


async def _quietly(meeting: Meeting, folder: Folder) -> None:
    try:
        await meeting.disk.run(folder.path, folder.remove_all)
    except MeetingError as e:
        _log.info("%s", e)


class Mailbox:
    """The head's side of the mailbox: it answers bells."""

    def __init__(
        self, meeting: Meeting, epoch: int, acceptor: Acceptor, credential: Credential
    ) -> None:
        self._meeting = meeting
        self._epoch = epoch
        self._acceptor = acceptor
        self._credential = credential
        self._root = f"{meeting.directory}/{epoch}"
        self._streams: dict[str, FileStream] = {}
        self.operations = 0

    async def prepare(self) -> None:
        """Make the directories of this epoch, and remove those of earlier ones.

        Raises:
            MeetingError: the filesystem is not fit.
        """
        await self._meeting.disk.run(self._root, self._prepare)

    async def clear(self) -> None:
        """Remove the directories of this epoch.

        Raises:
            MeetingError: the filesystem is not fit.
        """
        await self._meeting.disk.run(self._root, remove_tree, self._root)

    async def run(self) -> None:
        """Answer bells, until cancelled."""
        async with trio.open_nursery() as nursery:
            last = trio.current_time()
            while True:
                try:
                    bells = await self._meeting.disk.patiently(self._root, self._collect)
                except FileNotFoundError:
                    bells = []
                    await self._restore()
                except OSError as e:
                    _log.warning("%s: %s", self._root, e)
                    bells = []
                now = trio.current_time()
                if bells:
                    last = now
                for shard, peer in bells:
                    if peer in self._streams:
                        self._streams[peer].bell()
                    else:
                        nursery.start_soon(self._arrive, peer, f"{self._root}/{shard}/{peer}")
                await trio.sleep(min(max((now - last) / 10, LOOK_FIRST), LOOK_LAST))

    async def _restore(self) -> None:
        """Make the directories of this epoch again, unless a later head has removed them.

        The peers whose logs were in them notice that, and come again.
        """
        try:
            await self._meeting.restore(self._epoch)
            await self._meeting.disk.run(self._root, self._make)
        except MeetingError as e:  # also that another head leads, which ends this one
            _log.warning("%s", e)
            await trio.sleep(LOOK_LAST)
        else:
            _log.warning("%s was removed, and is made again", self._root)

    async def _arrive(self, peer: str, path: str) -> None:
        """Connect to a peer that rings for the first time."""
        folder = Folder(path)
        try:
            names = await self._meeting.disk.run(path, self._look_at, path)
        except MeetingError as e:
            _log.info("%s", e)
            return
        if "note" in names:
            await self._call_back(folder)
        elif "up.0" in names and peer not in self._streams:
            stream = FileStream(folder, "down", "up", self._meeting.disk, rung=True)
            self._streams[peer] = stream
            try:
                await self._acceptor.greet(
                    *(stream, "files", peer, FILES_HEARTBEAT, lambda: stream.alive_at),
                    patience=LOST,
                    detour="",
                )
            finally:
                self._streams.pop(peer, None)

    async def _call_back(self, folder: Folder) -> None:
        """Connect to a dialler that listens."""
        try:
            raw = await self._meeting.disk.run(folder.path, folder.read, "note", 0, 4096)
            addresses = [(str(host), int(port)) for host, port in json.loads(raw)][:16]
        except (MeetingError, ValueError, TypeError, RecursionError) as e:
            _log.info("%s: %s", folder.path, e)
            return
        stream = await self._acceptor.dial_back(addresses, self._credential)
        if stream is not None:
            await self._acceptor.greet_back(stream)

    # In threads

    def _prepare(self) -> None:
        with files.open_directory(self._meeting.directory):
            for name in files.names(self._meeting.directory):
                if name.isascii() and name.isdecimal() and int(name) != self._epoch:
                    remove_tree(f"{self._meeting.directory}/{name}")
        sweep_doors(self._meeting.directory)
        self._make()

    def _make(self) -> None:
        files.make_private(self._root)
        for shard in range(SHARDS):
            files.make_private(f"{self._root}/{shard}")
            files.make_private(f"{self._root}/{shard}/bell")

    def _collect(self) -> list[tuple[int, str]]:
        """Return shard and id of the peers that rang, and remove their bells.

        A bell is removed before its log is read, so no ring is lost.
        """
        out: dict[tuple[int, str], None] = {}
        for shard in range(SHARDS):
            self.operations += 1
            directory = f"{self._root}/{shard}/bell"
            for name in os.listdir(directory):
                match = _BELL.fullmatch(name)
                self.operations += 1
                files.remove(f"{directory}/{name}")
                if match:
                    out[shard, match[1]] = None
        return list(out)

    def _look_at(self, path: str) -> list[str]:
        self.operations += 1
        with files.open_directory(path) as fd:
            return os.listdir(fd)
