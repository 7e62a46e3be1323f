"""Several hosts on one machine: namespaces for network, processes and names, joined by a bridge.

The bridge lives in a namespace of its own too, so the machine's network is not touched. Needs root,
and the programs `ip`, `nft`, `nsenter` and `unshare`. The filesystem is shared, as a cluster's is,
but for the directory in /tmp where a head puts its socket.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_INIT = """
hostname "$1"
mount --make-rprivate /
mkdir -p -m 700 "/tmp/grain-$(id -u)"
mount -t tmpfs -o mode=700 tmp "/tmp/grain-$(id -u)"
ip link set lo up
echo ready
cat >/dev/null
"""


def why_not() -> str:
    """Return what is missing on this machine, or an empty text."""
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    missing = [name for name in ("ip", "nft", "nsenter", "unshare") if not shutil.which(name)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    probe = subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], capture_output=True)
    return "" if probe.returncode == 0 else "namespaces are not allowed here"


class Host:
    """A host: its namespaces, and the faults of its network.

    Attributes:
        name: its hostname.
        address: its IPv4 address on the bridge.
    """

    def __init__(self, switch: str, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self._switch = switch
        self._resetting = threading.Lock()
        self._netns = f"{switch}-{name}"
        _run("ip", "netns", "add", self._netns)
        _run(
            *("ip", "-n", switch, "link", "add", f"p-{name}", "type", "veth"),
            *("peer", "name", "eth0", "netns", self._netns),
        )
        _run("ip", "-n", switch, "link", "set", f"p-{name}", "master", "br0", "up")
        _run("ip", "-n", self._netns, "addr", "add", f"{address}/24", "dev", "eth0")
        _run("ip", "-n", self._netns, "link", "set", "eth0", "up")
        # Its input is what keeps it alive: whatever ends this process ends the host.
        self._init = subprocess.Popen(
            [
                "nsenter",
                f"--net=/run/netns/{self._netns}",
                "unshare",
                "--uts",
                "--ipc",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-c",
                _INIT,
                "sh",
                name,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._init.stdout is not None
        assert self._init.stdout.readline() == b"ready\n"
        unshare = _child(self._init.pid) if _name(self._init.pid) == "nsenter" else self._init.pid
        self._pid = _child(unshare)

    def entering(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a program on this host."""
        return [
            *("nsenter", "-t", str(self._pid), "--net", "--uts", "--ipc", "--mount", "--pid"),
            *("setpriv", "--pdeathsig", "KILL", *command),
        ]

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Run a program on this host, with pipes."""
        return subprocess.Popen(
            self.entering(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    @property
    def root(self) -> Path:
        """The root directory as this host sees it."""
        return Path(f"/proc/{self._pid}/root")

    def cut(self) -> None:
        """Pull the cable: packets vanish."""
        _run("ip", "-n", self._switch, "link", "set", f"p-{self.name}", "nomaster")

    def mend(self) -> None:
        """Put the cable back."""
        _run("ip", "-n", self._switch, "link", "set", f"p-{self.name}", "master", "br0")

    def refuse_connections(self, source: str = "", *, reset: bool = False) -> None:
        """Set up a firewall: nobody may open a TCP connection to this host; it may open others.

        Args:
            source: an address; if given, only this one may not.
            reset: refuse by a reset, and not by silence.
        """
        verdict = "reject with tcp reset" if reset else "drop"
        of = f"ip saddr {source} " if source else ""
        rules = f"""
            table inet fault {{
              chain in {{
                type filter hook input priority 0;
                iifname "eth0" {of}tcp flags & (syn|ack) == syn {verdict}
              }}
            }}
        """
        _run("ip", "netns", "exec", self._netns, "nft", "-f", "-", stdin=rules)

    def reset_connections(self, seconds: float = 0.5) -> None:
        """Answer every TCP packet to this host by a reset for a moment: connections break."""
        rules = """
            table inet breaking {
              chain in {
                type filter hook input priority -1;
                iifname "eth0" meta l4proto tcp reject with tcp reset
              }
            }
        """
        nft = ("ip", "netns", "exec", self._netns, "nft")
        with self._resetting:  # a second one would remove the table of the first
            _run(*nft, "-f", "-", stdin=rules)
            time.sleep(seconds)
            _run(*nft, "delete", "table", "inet", "breaking")

    def processes(self) -> list[int]:
        """Return all of its processes but the first, which only keeps it alive."""
        space = Path(f"/proc/{self._pid}/ns/pid").readlink()
        pids = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != self._pid:
                try:
                    if (entry / "ns/pid").readlink() == space:
                        pids.append(int(entry.name))
                except OSError:
                    continue
        return pids

    def freeze(self) -> None:
        """Stop all its processes; its kernel goes on acknowledging packets."""
        for pid in self.processes():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        for pid in self.processes():
            os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """End it and everything on it."""
        assert self._init.stdin is not None
        self._init.stdin.close()
        try:
            self._init.wait(5)
        except subprocess.TimeoutExpired:
            self._init.kill()
            self._init.wait()
        if self._init.stdout is not None:
            self._init.stdout.close()
        subprocess.run(["ip", "netns", "del", self._netns], check=False)


@contextmanager
def hosts(*names: str) -> Iterator[list[Host]]:
    """Make hosts; they and all their processes end with the block."""
    switch = f"grain{os.getpid() % 100000}"
    machines: list[Host] = []
    _run("ip", "netns", "add", switch)
    try:
        _run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "br0", "up")
        for number, name in enumerate(names, 1):
            machines.append(Host(switch, name, f"10.99.0.{number}"))
        yield machines
    finally:
        for host in machines:
            host.close()
        subprocess.run(["ip", "netns", "del", switch], check=False)


def _run(*command: str, stdin: str = "") -> None:
    subprocess.run(command, check=True, input=stdin.encode(), timeout=20)


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _child(pid: int) -> int:
    for _ in range(500):
        pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if pids:
            return int(pids[0])
        time.sleep(0.01)
    raise RuntimeError(f"process {pid} has no child")
