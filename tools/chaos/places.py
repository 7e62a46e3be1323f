"""Where the processes of a run live: on this machine, or on hosts that are made for it.

With root, each transport has a host of its own (`tools.hosts`), on which nothing else works, and
the directory in which everybody meets is a small file system of its own, which can be full. Without
root there are the Unix socket, and TCP through a proxy.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tools.hosts import Host, hosts, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHARED_MB = 48
"""The size of the file system in which processes meet."""


class Place(Protocol):
    """Where a run takes place.

    Attributes:
        transports: those by which workers can join here.
        lacking: kinds of fault and transports that this place does not have, each with the reason.
    """

    transports: tuple[str, ...]
    lacking: tuple[str, ...]

    def command(self, transport: str, words: Sequence[str]) -> list[str]:
        """Return the command line that starts a program where this transport is to be used.

        Its directory is ``work``, beside the one in which everybody meets.
        """

    def address(self, transport: str) -> str:
        """Return the address by which this transport is used."""

    def cut(self, transport: str) -> None:
        """Let what goes over a transport vanish or wait."""

    def mend(self, transport: str) -> None:
        """Undo `cut`."""

    def reset(self, transport: str) -> None:
        """Break the connections of a transport."""

    def sockets(self) -> list[str]:
        """Return the sockets that lie in the directories of heads for this run."""


class Hosts:
    """A host for each transport, and one for missions and Gnaw; needs root.

    Args:
        shared: the directory in which everybody meets.
        machines: the hosts: that of the head, and those of the three transports over a network.
    """

    transports: tuple[str, ...] = ("unix", "tcp", "reverse", "files")
    lacking: tuple[str, ...] = ()

    def __init__(self, shared: Path, machines: Sequence[Host]) -> None:
        self._work = str(shared.parent / "work")
        self._address = f"edge://{shared}/meeting"
        self._hosts = dict(zip(self.transports, machines, strict=True))
        head, files = machines[0], self._hosts["files"]
        head.refuse_connections(self._hosts["reverse"].address)
        head.refuse_connections(files.address)
        files.refuse_connections()

    def command(self, transport: str, words: Sequence[str]) -> list[str]:
        """See `Place`."""
        # Whoever enters the namespaces of a host begins at its root.
        return self._hosts[transport].entering(["env", "-C", self._work, *words])

    def address(self, transport: str) -> str:  # noqa: ARG002
        """See `Place`."""
        return self._address

    def cut(self, transport: str) -> None:
        """See `Place`."""
        self._hosts[transport].cut()

    def mend(self, transport: str) -> None:
        """See `Place`."""
        self._hosts[transport].mend()

    def reset(self, transport: str) -> None:
        """See `Place`."""
        self._hosts[transport].reset_connections()

    def sockets(self) -> list[str]:
        """See `Place`."""
        folders = [host.root / f"tmp/grain-{os.geteuid()}" for host in self._hosts.values()]
        return sorted(str(one) for folder in folders for one in folder.glob("*"))


class Here:
    """This machine; needs nothing.

    Args:
        shared: the directory in which everybody meets.
        proxy: the proxy for workers that use TCP.
    """

    transports: tuple[str, ...] = ("unix", "tcp")

    def __init__(self, shared: Path, proxy: subprocess.Popen[str]) -> None:
        reason = why_not() or "not asked for"
        self.lacking: tuple[str, ...] = (
            f"no transports reverse and files, and no full disk: {reason}",
        )
        self._edge = shared / "meeting"
        self._proxy = proxy
        assert proxy.stdout is not None
        self._port = int(proxy.stdout.readline())

    def command(self, transport: str, words: Sequence[str]) -> list[str]:  # noqa: ARG002
        """See `Place`."""
        return list(words)

    def address(self, transport: str) -> str:
        """See `Place`."""
        if transport == "tcp":
            return f"tcp://127.0.0.1:{self._port}?edge={self._edge}"
        return f"edge://{self._edge}"

    def cut(self, transport: str) -> None:  # noqa: ARG002
        """See `Place`."""
        self._order("cut")

    def mend(self, transport: str) -> None:  # noqa: ARG002
        """See `Place`."""
        self._order("mend")

    def reset(self, transport: str) -> None:  # noqa: ARG002
        """See `Place`."""
        self._order("reset")

    def _order(self, word: str) -> None:
        assert self._proxy.stdin is not None
        self._proxy.stdin.write(f"{word}\n")
        self._proxy.stdin.flush()

    def sockets(self) -> list[str]:
        """See `Place`."""
        stem = sha256(str(self._edge).encode()).hexdigest()[:16]  # as in grain.edge
        return sorted(str(one) for one in Path(f"/tmp/grain-{os.geteuid()}").glob(f"{stem}*"))


@contextmanager
def place(folder: Path, *, here: bool) -> Iterator[Place]:
    """Make a place; nothing of it is left at the end of the block.

    Args:
        folder: the run's; a directory ``shared`` is made in it.
        here: on this machine also where hosts could be made.
    """
    shared = folder / "shared"
    shared.mkdir(mode=0o700)
    with ExitStack() as stack:
        if here or why_not():
            words = [sys.executable, "-m", "tools.chaos.proxy", str(shared / "meeting")]
            pipe = subprocess.PIPE
            proxy = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)
            stack.enter_context(proxy)  # closes its input, by which it ends
            yield Here(shared, proxy)
            return
        # Before the hosts, which have their own lists of mounts from then on.
        options = f"size={SHARED_MB}m,mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "grain", str(shared)], check=True)
        stack.callback(subprocess.run, ["umount", "-l", str(shared)], check=False)
        machines = stack.enter_context(hosts("head", "direct", "behind", "shut"))
        yield Hosts(shared, machines)
