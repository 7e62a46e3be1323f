"""A file system in memory with hosts that see it late, kills, errors and crashes, for queues.

It does what NFS does: a link, a new file and a rename are decided by the server; a host remembers
for 60 seconds which names there are and which are not, lists, and times of files. A crash of the
server takes back any part of what was not synced.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import pytest

from grain.queue.files import FileOperations, LocalDisk

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

LATE = 60.0

T = TypeVar("T")


class Killed(BaseException):
    """The process is killed: it does nothing any more."""


@dataclass
class Node:
    """A directory, a file, a symbolic link to a directory, or a note."""

    kind: str
    mtime: float
    entries: dict[str, int] = field(default_factory=dict)
    durable: dict[str, int] = field(default_factory=dict)
    content: bytes = b""
    synced: bool = False
    target: str = ""
    number: int = 0


class Server:
    """The file server.

    Attributes:
        clock: seconds.
    """

    def __init__(self) -> None:
        self.clock = 1e9
        self.nodes: dict[int, Node] = {0: Node("folder", self.clock)}
        self._next = 1

    def add(self, node: Node) -> int:
        node.number = self._next
        self.nodes[self._next] = node
        self._next += 1
        return self._next - 1

    def copy(self) -> Server:
        other = Server()
        other.clock = self.clock
        other._next = self._next
        other.nodes = {
            number: Node(
                n.kind,
                n.mtime,
                dict(n.entries),
                dict(n.durable),
                n.content,
                n.synced,
                n.target,
                number,
            )
            for number, n in self.nodes.items()
        }
        return other

    def crash(self, chance: random.Random) -> None:
        """Lose any part of what was not synced, as each directory has it."""
        for node in self.nodes.values():
            if node.kind == "folder":
                for name in sorted(node.entries.keys() | node.durable.keys()):
                    now, then = node.entries.get(name), node.durable.get(name)
                    if now != then and chance.random() < 0.5:
                        if then is None:
                            del node.entries[name]
                        else:
                            node.entries[name] = then
                node.durable = dict(node.entries)
            elif node.kind == "file" and not node.synced:
                node.content = node.content[: len(node.content) // 2]
                node.synced = True


class Faults:
    """The faults of one host's operations; without, there are none."""

    def before(self, host: Host, operation: str, name: str) -> None:
        """Raise `Killed` or an OSError; nothing has happened then."""

    def after(self, host: Host, operation: str, name: str) -> None:
        """Raise `Killed` or an OSError, though the operation has taken place."""


class Host(FileOperations):
    """A host of the file server, with one process.

    Attributes:
        server: the file server.
        late: True if it believes what it remembers; False for a view that is always true.
    """

    def __init__(self, server: Server, faults: Faults | None = None, *, late: bool = False) -> None:
        self.server = server
        self.late = late
        self.dead = False
        self._faults = faults or Faults()
        self._names: dict[tuple[int, str], tuple[int | None, float]] = {}
        self._lists: dict[int, tuple[list[str], float]] = {}
        self._times: dict[int, tuple[float, float]] = {}

    # The operations.

    def create(self, name: str, content: bytes, mode: int = 0o600) -> None:
        def make() -> None:
            folder, base = self._parent(name)
            if base in folder.entries:
                raise _error(errno.EEXIST)
            number = self.server.add(Node("file", self.server.clock, content=content, synced=True))
            self._set(folder, base, number)

        def half() -> None:
            # A kill or a full disk in the middle leaves a part.
            folder, base = self._parent(name)
            part = Node("file", self.server.clock, content=content[: len(content) // 2])
            self._set(folder, base, self.server.add(part))

        self._do("create", name, make, half)

    def create_unsynced(self, name: str, content: bytes) -> None:
        """Make a file without a sync, as a mistake would."""
        self.create(name, content)
        self.server.nodes[self._find(name)].synced = False

    def link(self, source: str, name: str) -> None:
        def make() -> None:
            number = self._find(source, opened=True)
            folder, base = self._parent(name)
            self._forget(folder, base)
            if base in folder.entries:
                raise _error(errno.EEXIST)
            self._set(folder, base, number)

        self._do("link", name, make)

    def note(self, text: bytes, name: str) -> None:
        def make() -> None:
            folder, base = self._parent(name)
            self._forget(folder, base)
            if base in folder.entries:
                raise _error(errno.EEXIST)
            node = Node("note", self.server.clock, content=text)
            self._set(folder, base, self.server.add(node))

        self._do("link", name, make)

    def noted(self, name: str) -> bytes:
        def look() -> bytes:
            node = self.server.nodes[self._find(name)]
            if node.kind != "note":
                raise _error(errno.EINVAL)
            return node.content

        return self._do("noted", name, look)

    def same(self, one: str, other: str) -> bool:
        def look() -> bool:
            try:
                return self._find(one, opened=True) == self._find(other, opened=True)
            except FileNotFoundError:
                return False

        return self._do("same", other, look)

    def read(self, name: str) -> bytes:
        def look() -> bytes:
            node = self.server.nodes[self._find(name, opened=True)]
            if node.kind != "file":
                raise _error(errno.ELOOP if node.kind == "note" else errno.EISDIR)
            return node.content

        return self._do("read", name, look)

    def exists(self, name: str) -> bool:
        def look() -> bool:
            try:
                self._find(name)
            except FileNotFoundError:
                return False
            return True

        return self._do("exists", name, look)

    def list(self, folder: str) -> list[str]:
        def look() -> list[str]:
            number = self._find(folder)
            node = self.server.nodes[number]
            if node.kind != "folder":
                raise _error(errno.ENOTDIR)
            known = self._lists.get(number)
            if known is None or not self._believes(known[1]):
                known = self._lists[number] = (list(node.entries), self.server.clock)
            return list(known[0])

        return self._do("list", folder, look)

    def rename(self, name: str, new: str) -> None:
        def move() -> None:
            source, base = self._parent(name)
            number = source.entries.get(base)
            if number is None:
                raise _error(errno.ENOENT)
            folder, to = self._parent(new)
            self._unset(source, base)
            self._set(folder, to, number)

        self._do("rename", new, move)

    def remove(self, name: str) -> None:
        def take() -> None:
            folder, base = self._parent(name)
            if base not in folder.entries:
                raise _error(errno.ENOENT)
            self._unset(folder, base)

        self._do("remove", name, take)

    def make_folder(self, name: str) -> None:
        def make() -> None:
            folder, base = self._parent(name)
            if base in folder.entries:
                raise _error(errno.EEXIST)
            self._set(folder, base, self.server.add(Node("folder", self.server.clock)))

        self._do("mkdir", name, make)

    def remove_folder(self, name: str) -> None:
        def take() -> None:
            folder, base = self._parent(name)
            number = folder.entries.get(base)
            if number is None:
                raise _error(errno.ENOENT)
            if self.server.nodes[number].entries:
                raise _error(errno.ENOTEMPTY)
            self._unset(folder, base)
            del self.server.nodes[number]

        self._do("rmdir", name, take)

    def point(self, target: str, name: str) -> None:
        def make() -> None:
            folder, base = self._parent(name)
            if base in folder.entries:
                raise _error(errno.EEXIST)
            node = Node("pointer", self.server.clock, target=target)
            self._set(folder, base, self.server.add(node))

        self._do("symlink", name, make)

    def is_file(self, name: str) -> bool:
        def look() -> bool:
            try:
                folder, base = self._parent(name)
            except (FileNotFoundError, NotADirectoryError):
                return False
            number = self._lookup(folder, base)
            return number in self.server.nodes and self.server.nodes[number].kind == "file"

        return self._do("is_file", name, look)

    def sync(self, folder: str) -> None:
        def settle() -> None:
            node = self.server.nodes[self._find(folder)]
            if node.kind != "folder":
                raise _error(errno.ENOTDIR)
            node.durable = dict(node.entries)

        self._do("sync", folder, settle)

    def age(self, name: str) -> float:
        def look() -> float:
            number = self._find(name)
            known = self._times.get(number)
            if known is None or not self._believes(known[1]):
                known = self._times[number] = (
                    self.server.nodes[number].mtime,
                    self.server.clock,
                )
            return self.server.clock - known[0]

        return self._do("age", name, look)

    def touch(self, name: str) -> None:
        def stamp() -> None:
            number = self._find(name)
            self.server.nodes[number].mtime = self.server.clock
            self._times.pop(number, None)

        self._do("touch", name, stamp)

    # How.

    def _do(
        self,
        operation: str,
        name: str,
        act: Callable[[], T],
        half: Callable[[], None] | None = None,
    ) -> T:
        if self.dead:
            raise Killed
        try:
            try:
                self._faults.before(self, operation, name)
            except (Killed, OSError):
                if half is not None:
                    half()
                raise
            try:
                result = act()
            except _Stale:
                self._names.clear()  # the kernel looks once more, at the server
                try:
                    result = act()
                except _Stale:
                    raise _error(errno.ENOENT) from None
            self._faults.after(self, operation, name)
        except Killed:
            self.dead = True
            raise
        return result

    def _believes(self, since: float) -> bool:
        return self.late and self.server.clock - since < LATE

    def _lookup(self, folder: Node, name: str) -> int | None:
        key = (folder.number, name)
        known = self._names.get(key)
        if known is None or not self._believes(known[1]):
            known = self._names[key] = (folder.entries.get(name), self.server.clock)
        return known[0]

    def _forget(self, folder: Node, name: str) -> None:
        self._names.pop((folder.number, name), None)

    def _parent(self, path: str) -> tuple[Node, str]:
        above, _, base = path.rpartition("/")
        node = self.server.nodes[self._find(above)]
        if node.kind != "folder":
            raise _error(errno.ENOTDIR)
        return node, base

    def _find(self, path: str, *, opened: bool = False) -> int:
        nodes = self.server.nodes
        number = 0
        place: list[str] = []
        parts = [part for part in reversed(path.split("/")) if part]
        while parts:
            part = parts.pop()
            node = nodes[number]
            if node.kind != "folder":
                raise _error(errno.ENOTDIR)
            if part == "..":  # of a pointer, which begins with it
                place.pop()
                number = 0
                parts += reversed(place)
                place = []
                continue
            found = self._lookup(node, part)
            if found is None:
                raise _error(errno.ENOENT)
            if found not in nodes:
                raise _Stale
            if nodes[found].kind == "pointer":
                parts += reversed(nodes[found].target.split("/"))
                continue
            # An open asks the server for the file that it has found.
            if opened and not parts and found not in node.entries.values():
                raise _Stale
            place.append(part)
            number = found
        return number

    def _set(self, folder: Node, base: str, number: int) -> None:
        folder.entries[base] = number
        folder.mtime = self.server.clock
        self._forget(folder, base)

    def _unset(self, folder: Node, base: str) -> None:
        folder.entries.pop(base, None)
        folder.mtime = self.server.clock
        self._forget(folder, base)


class _Stale(Exception):
    """A host knows a file that the server does not have any more."""


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@contextmanager
def unreadable(name: str) -> Iterator[None]:
    """Let a file of all queues be unreadable in the block, as on a disk with an error."""
    read = LocalDisk.read

    def broken(disk: LocalDisk, asked: str) -> bytes:
        if asked == name:
            raise OSError(errno.EIO, "Input/output error", asked)
        return read(disk, asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalDisk, "read", broken)
        yield
