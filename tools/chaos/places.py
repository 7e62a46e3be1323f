"""Where the processes of a run live: on this machine, or on hosts that are made for it.

With root, each transport has a host of its own (`tools.hosts`), on which nothing else works, and
the directory in which all processes meet is a small file system of its own, which can be full.
Without root there are the Unix socket, and TCP through a proxy. At a bridge there is a host for its
server, and one that nothing but the server connects with the head, in the place of that for files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from grain.edge import make_key
from tools.hosts import Host, hosts, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PORT = 4747
"""The port of a bridge's server, on a host of its own."""

SHARED_MB = 48
"""The size of the file system in which processes meet."""


class Place(Protocol):
    """Where a run takes place.

    Attributes:
        transports: those by which workers can join here; with "relay" among them, all processes
            meet at a bridge, and commands and faults have "bridge" for the host of its server.
        logins: the hosts on which missions may begin, as `command` has them.
        lacking: kinds of fault and transports that this place does not have, each with the reason.
    """

    transports: tuple[str, ...]
    logins: tuple[str, ...]
    lacking: tuple[str, ...]

    def command(self, transport: str, words: Sequence[str]) -> list[str]:
        """Return the command line that starts a program where this transport is to be used.

        Its directory is ``work``, beside the meeting directory.
        """

    def address(self, transport: str) -> str:
        """Return the address by which this transport is used."""

    def cut(self, transport: str) -> None:
        """Let what goes over a transport vanish or wait."""

    def mend(self, transport: str) -> None:
        """Undo `cut`."""

    def reset(self, transport: str) -> None:
        """Break the connections of a transport."""

    def sockets(self) -> dict[str, list[str]]:
        """Return the sockets that lie in the directories of heads for this run, by host."""

    def host_of(self, pid: int) -> str:
        """Return the host of a process, as `sockets` has it."""


class Hosts:
    """A host for each transport, and two for missions and Gnaw; needs root.

    Args:
        shared: the directory in which all processes meet.
        machines: the hosts: the two login hosts, those of the three transports over a network, and
            that of the server where all processes meet at a bridge. Workers over a Unix socket are
            on the first one.
    """

    logins: tuple[str, ...] = ("unix", "login")

    lacking: tuple[str, ...] = ()

    def __init__(self, shared: Path, machines: Sequence[Host]) -> None:
        self._work = str(shared.parent / "work")
        head, login, direct, behind, shut, *bridge = machines
        last = "relay" if bridge else "files"
        self.transports: tuple[str, ...] = ("unix", "tcp", "reverse", last)
        self._hosts = {"unix": head, "login": login, "tcp": direct, "reverse": behind, last: shut}
        for one in (head, login):
            one.refuse_connections(behind.address)
            one.refuse_connections(shut.address)
        shut.refuse_connections()
        self._address = f"edge://{shared}/meeting"
        if bridge:
            [self._hosts["bridge"]] = bridge
            key = shared.parent / "bridge.key"
            key.touch(mode=0o600)
            key.write_text(make_key())
            self._address = f"bridge://@{key}@{bridge[0].address}:{PORT}"

    def command(self, transport: str, words: Sequence[str]) -> list[str]:
        """See `Place`."""
        # A process that enters the namespaces of a host begins at its root.
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

    def sockets(self) -> dict[str, list[str]]:
        """See `Place`."""
        folder = f"tmp/grain-{os.geteuid()}"
        return {
            name: sorted(map(str, (host.root / folder).glob("*")))
            for name, host in self._hosts.items()
        }

    def host_of(self, pid: int) -> str:
        """See `Place`."""
        return next((name for name, host in self._hosts.items() if pid in host.processes()), "")


class Here:
    """This machine; needs nothing.

    Args:
        shared: the directory in which all processes meet.
        proxy: the proxy for workers that use TCP.
    """

    transports: tuple[str, ...] = ("unix", "tcp")
    logins: tuple[str, ...] = ("unix",)

    def __init__(self, shared: Path, proxy: subprocess.Popen[str]) -> None:
        reason = why_not() or "not asked for"
        self.lacking: tuple[str, ...] = (
            f"no transports reverse and files, no full disk, and one login host: {reason}",
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

    def sockets(self) -> dict[str, list[str]]:
        """See `Place`."""
        stem = sha256(str(self._edge).encode()).hexdigest()[:16]  # as in grain.edge
        folder = Path(f"/tmp/grain-{os.geteuid()}")
        return {"": sorted(map(str, folder.glob(f"{stem}*")))}

    def host_of(self, pid: int) -> str:  # noqa: ARG002
        """See `Place`."""
        return ""


@contextmanager
def place(folder: Path, *, here: bool, bridge: bool = False) -> Iterator[Place]:
    """Make a place; nothing of it is left at the end of the block.

    Args:
        folder: the run's; a directory ``shared`` is made in it.
        here: on this machine also where hosts could be made.
        bridge: all processes meet at a bridge; there are hosts.
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
        names = ("login1", "login2", "direct", "behind", "shut", *(("bridge",) if bridge else ()))
        machines = stack.enter_context(hosts(*names))
        yield Hosts(shared, machines)
