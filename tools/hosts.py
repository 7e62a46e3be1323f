"""Several hosts on one machine: namespaces for network, processes and names, joined by a switch.

`hosts` makes one cluster, `clusters` several of them, each with a network of its own, which have
one host in common. The switches live in a namespace of their own too, so the machine's network is
not touched. Needs root, and the programs `ip`, `nft`, `nsenter` and `unshare`. The filesystem is
shared, as a cluster's is, but for /tmp and /dev/shm, of which each host has its own.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_INIT = """
set -e
hostname "$1"
shift
mount --make-rprivate /
mount --rbind /tmp /mnt
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=1777 shm /dev/shm
for program; do
    mkdir -p "$program"
    mount --bind "/mnt/${program#/tmp/}" "$program"
done
umount -l /mnt
mkdir -p "${TMPDIR:-/tmp}"
ip link set lo up
echo ready
cat >/dev/null
"""


# Of Python and of this project, where they are in /tmp, as a fresh clone may be.
_PROGRAMS = {
    str(path)
    for path in (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).resolve().parents[1])
    if path.is_relative_to("/tmp")
}


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

    Args:
        switches: the namespace of the switches.
        name: its hostname.
        places: each switch that it is connected to, with its IPv4 address there; the first one is
            that of `eth0`.

    Attributes:
        name: see there.
        address: its first IPv4 address.
        interfaces: those on which its heads listen, as in `GRAIN_INTERFACES`. The file system is a
            disk of this machine in place of a file server's, which says nothing about networks; so
            it is all of them. "" for those that a head finds by itself.
    """

    def __init__(self, switches: str, name: str, places: Sequence[tuple[str, str]]) -> None:
        self.name = name
        self.address = places[0][1]
        self.interfaces = "all"
        self._switches = switches
        self._resetting = threading.Lock()
        self._netns = f"{switches}-{name}"
        self._cables: dict[str, str] = {}  # from a switch to the cable's end there
        _run("ip", "netns", "add", self._netns)
        for number, (switch, address) in enumerate(places):
            end, interface = f"p{number or ''}-{name}", f"eth{number}"
            _run(
                *("ip", "-n", switches, "link", "add", end, "type", "veth"),
                *("peer", "name", interface, "netns", self._netns),
            )
            _run("ip", "-n", switches, "link", "set", end, "master", switch, "up")
            self.ip("addr", "add", f"{address}/24", "dev", interface)
            self.ip("link", "set", interface, "up")
            self._cables[switch] = end
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
                *sorted(_PROGRAMS),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._init.stdout is not None
        assert self._init.stdout.readline() == b"ready\n"
        unshare = _child(self._init.pid) if _name(self._init.pid) == "nsenter" else self._init.pid
        self._pid = _child(unshare)

    def entering(self, command: Sequence[str], directory: str = "") -> list[str]:
        """Return the command line that runs a program on this host.

        Args:
            command: the program and its arguments.
            directory: its working directory; "" for the root directory.
        """
        return [
            *("nsenter", "-t", str(self._pid), "--net", "--uts", "--ipc", "--mount", "--pid"),
            *("setpriv", "--pdeathsig", "KILL"),
            *("env", *(("-C", directory) if directory else ())),
            f"GRAIN_INTERFACES={self.interfaces}",
            *command,
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

    def listens_on(self) -> set[str]:
        """Return the IPv4 addresses on which its processes listen for TCP."""
        rows = (self.root.parent / "net/tcp").read_text().splitlines()[1:]
        listening = [row.split()[1] for row in rows if row.split()[3] == "0A"]
        return {socket.inet_ntoa(bytes.fromhex(one[:8])[::-1]) for one in listening}

    def ip(self, *words: str) -> None:
        """Run `ip` in its network."""
        _run("ip", "-n", self._netns, *words)

    def nft(self, rules: str) -> None:
        """Add rules of `nft` to its network."""
        _run("ip", "netns", "exec", self._netns, "nft", "-f", "-", stdin=rules)

    def cut(self, switch: str = "") -> None:
        """Pull the cable to one switch, or all: packets vanish."""
        for other, end in self._cables.items():
            if switch in ("", other):
                _run("ip", "-n", self._switches, "link", "set", end, "nomaster")

    def mend(self, switch: str = "") -> None:
        """Put the cables back."""
        for other, end in self._cables.items():
            if switch in ("", other):
                _run("ip", "-n", self._switches, "link", "set", end, "master", other)

    def route_between_networks(self, *, route: bool) -> None:
        """Be a router between its networks, or none."""
        words = ("sh", "-c", f"echo {int(route)} >/proc/sys/net/ipv4/ip_forward")
        _run("ip", "netns", "exec", self._netns, *words)

    def lose(self, percent: float) -> None:
        """Lose that share of the packets that arrive here, at random."""
        self.nft(f"""
            table inet loss {{
              chain in {{
                type filter hook input priority -2;
                iifname != "lo" numgen random mod 10000 < {round(100 * percent)} drop
              }}
            }}
        """)

    def refuse_connections(self, source: str = "", *, reset: bool = False) -> None:
        """Set up a firewall: other hosts may not open TCP connections to this one; it may.

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
        self.nft(rules)

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
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, number)

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
    """Make hosts of one network; they and all their processes end with the block."""
    with _switches("br0") as switches, ExitStack() as stack:
        yield [
            stack.enter_context(closing(Host(switches, name, [("br0", f"10.99.0.{number}")])))
            for number, name in enumerate(names, 1)
        ]


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Make a directory that all hosts see, outside of /tmp; it is gone at the end of the block."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class Clusters:
    """Clusters that have one host in common, the relay, and no route to each other.

    Args:
        relay: the host that is in all networks.
        hosts: all others, by name.
        networks: the number of each cluster's network.

    Attributes:
        relay: see there; `address` is where all others reach it.
        hosts: see there.
    """

    def __init__(self, relay: Host, hosts: dict[str, Host], networks: dict[str, int]) -> None:
        self.relay = relay
        self.hosts = hosts
        self._networks = networks

    def cut(self, cluster: str) -> None:
        """Cut a cluster off from the relay: packets vanish."""
        self.relay.cut(_switch(self._networks[cluster]))

    def mend(self, cluster: str) -> None:
        """Connect it again."""
        self.relay.mend(_switch(self._networks[cluster]))

    def open_way(self, source: str, target: str) -> None:
        """Let the hosts of one cluster connect to those of another, and not the other way."""
        back = f"ip saddr {self._range(target)} ip daddr {self._range(source)}"
        self.relay.nft(f"""
            table inet oneway {{
              chain through {{
                type filter hook forward priority 0;
                {back} tcp flags & (syn|ack) == syn drop
              }}
            }}
        """)
        self.relay.route_between_networks(route=True)

    def _range(self, cluster: str) -> str:
        return f"10.99.{self._networks[cluster]}.0/24"


@contextmanager
def clusters(**names: Sequence[str]) -> Iterator[Clusters]:
    """Make clusters by the names of their hosts, and a host ``relay`` that all of them reach.

    Nothing goes from one cluster to another but by way of programs on the relay. All hosts and
    their processes end with the block.
    """
    networks = {cluster: number for number, cluster in enumerate(names, 1)}
    switches = [_switch(number) for number in networks.values()]
    with _switches(*switches) as namespace, ExitStack() as stack:

        def host(name: str, places: Sequence[tuple[str, str]]) -> Host:
            return stack.enter_context(closing(Host(namespace, name, places)))

        gates = [(_switch(number), f"10.99.{number}.254") for number in networks.values()]
        relay = host("relay", gates)
        relay.route_between_networks(route=False)
        made: dict[str, Host] = {}
        for cluster, number in networks.items():
            for place, name in enumerate(names[cluster], 1):
                made[name] = host(name, [(_switch(number), f"10.99.{number}.{place}")])
                made[name].ip("route", "add", "default", "via", f"10.99.{number}.254")
        yield Clusters(relay, made, networks)


def _switch(number: int) -> str:
    return f"br{number}"


@contextmanager
def _switches(*names: str) -> Iterator[str]:
    """Make switches in a namespace, whose name it yields."""
    # Not only by the process: a killed one leaves its namespace to the next of that number.
    namespace = f"grain{os.getpid()}-{secrets.token_hex(3)}"
    _run("ip", "netns", "add", namespace)
    try:
        for name in names:
            _run("ip", "-n", namespace, "link", "add", name, "type", "bridge")
            _run("ip", "-n", namespace, "link", "set", name, "up")
        yield namespace
    finally:
        subprocess.run(["ip", "netns", "del", namespace], check=False)


def _run(*command: str, stdin: str = "") -> None:
    subprocess.run(command, check=True, input=stdin.encode(), timeout=120)


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _child(pid: int) -> int:
    for _ in range(500):
        pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if pids:
            return int(pids[0])
        time.sleep(0.01)
    raise RuntimeError(f"process {pid} has no child")
