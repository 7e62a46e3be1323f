"""The addresses of this host, best first, and the ones on which a head listens.

Theory of operation. Members find a head by its meeting file, so they are hosts that share the
file's disk. A disk of this host is not shared, unless this host is a file server: loopback will do.
A disk of a file server is reached by one network, on which the other hosts reach it, too: the
kernel knows this host's address there. Of other disks nothing is known.

This may be wrong: hosts may reach the file server by another network, and a disk of this host may
be exported by a program that cannot be seen. So it is a beginning and not a limit. A member that
reaches the head by a detour shows what is missing, as `Detours` in `grain.edge.connecting.accept`
says. Users set a limit by an address with a host, and the variable `VARIABLE`.
"""

from __future__ import annotations

import fcntl
import ipaddress
import logging
import os
import re
import socket
import struct
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_SIOCGIFADDR = 0x8915  # netdevice(7)
_VIRTUAL = ("docker", "virbr", "br-", "veth", "cni", "tun", "tap", "podman")
MOST = 12
_log = logging.getLogger("grain.edge")

VARIABLE = "GRAIN_INTERFACES"
"""The environment variable with the interfaces on which heads listen."""

ALL = "all"
"""The word for every interface."""

_DISKS = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs", "ramfs", "overlay"}
)
_BY_OPTION = frozenset({"nfs", "nfs4", "cifs", "smb3"})  # addr= is the server's address
_NID = re.compile(r"([0-9.]+)@(?:tcp|o2ib)[0-9]*")  # the address of a Lustre server


def local_addresses(iface: str = "") -> tuple[list[str], list[str]]:
    """Return the IPv4 and the IPv6 addresses of this host, loopback last.

    Args:
        iface: the name of the only interface that counts; empty for all.
    """
    names = interface_names()
    if iface:
        names = [name for name in names if name == iface]
    four: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for name in names:
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, request)
            except OSError:
                continue  # no IPv4 address on this one
            four.append(socket.inet_ntoa(answer[20:24]))
    try:
        table = Path("/proc/net/if_inet6").read_text()
    except OSError:
        table = ""
    if iface:
        table = "\n".join(line for line in table.splitlines() if line.split()[-1:] == [iface])
    return four, inet6(table)


def interface_names() -> list[str]:
    """Return the names of the network interfaces of this host, best first."""
    return sorted((name for _, name in socket.if_nameindex()), key=rank)


def rank(name: str) -> tuple[int, str]:
    """Rank an interface: real ones before those of containers and tunnels, loopback last."""
    return (2 if name == "lo" else 1 if name.startswith(_VIRTUAL) else 0), name


def inet6(table: str) -> list[str]:
    """Return the addresses in /proc/net/if_inet6, without link-local ones, which need a zone."""
    rows = [row.split() for row in table.splitlines()]
    good = [row for row in rows if len(row) == 6 and row[3] in ("00", "10")]
    good.sort(key=lambda row: rank(row[5]))
    return [str(ipaddress.IPv6Address(bytes.fromhex(row[0]))) for row in good]


def reachable(
    ports: list[tuple[bool, int]], four: list[str], six: list[str]
) -> list[tuple[str, int]]:
    """Return hosts and ports to publish for listeners on all interfaces.

    IPv4 and IPv6 take turns, as in RFC 8305.

    Args:
        ports: for each listener whether it is an IPv6 one, and its port.
        four: IPv4 addresses, best first.
        six: IPv6 addresses, best first.
    """
    by_family = [
        [(host, port) for is_six, port in ports if is_six is want for host in hosts]
        for want, hosts in ((False, four), (True, six))
    ]
    return [pair for pair in chain(*zip_longest(*by_family)) if pair is not None][:MOST]


@dataclass(frozen=True)
class Listening:
    """The addresses on which a head listens.

    Attributes:
        addresses: numbers of IPv4 and IPv6, the best first; None for all interfaces.
        fixed: True if a user said so, and no others may be added.
    """

    addresses: tuple[str, ...] | None
    fixed: bool


def wanted(env: Mapping[str, str] = os.environ) -> list[str]:
    """Return the interfaces that the environment names: their names, networks, or `ALL`."""
    return env.get(VARIABLE, "").replace(",", " ").split()


def listening(path: str, interfaces: Sequence[str]) -> Listening:
    """Return where the head of a meeting listens; may block while a file server is away.

    Args:
        path: of its meeting file; empty if there is none.
        interfaces: as in `wanted`.
    """
    if ALL in interfaces:
        return Listening(None, fixed=True)
    if interfaces:
        return Listening(_with_loopback(_named(interfaces)), fixed=True)
    addresses = None
    if path:
        mounts, threads = _text("/proc/self/mountinfo"), _text("/proc/net/rpc/nfsd")
        addresses = networks_of(file_servers(mounts, os.path.realpath(path)), threads)
    return Listening(None if addresses is None else _with_loopback(addresses), fixed=False)


def on_interface(name: str) -> Listening:
    """Return the addresses of one interface, which an address names."""
    return Listening(tuple(_in_turn(*local_addresses(name))), fixed=True)


def every_address() -> list[str]:
    """Return all addresses of this host, best first."""
    return _in_turn(*local_addresses())


def networks_of(
    servers: Sequence[str] | None,
    threads: str,
    source: Callable[[str], str] | None = None,
) -> list[str] | None:
    """Return this host's addresses on the networks of the hosts that share a file.

    Args:
        source: as `source_towards`, which is the default.

    Returns:
        none if only this host has the disk, None if they are not known.
    """
    if servers is None or (not servers and serves_files(threads)):
        return None
    of_interfaces = {name: _in_turn(*local_addresses(name)) for name in interface_names()}
    found: list[str] = []
    for server in servers:
        mine = (source or source_towards)(server)
        if not mine or mine == server or ipaddress.ip_address(mine).is_loopback:
            return None  # the server is this host, so all networks are those of its clients
        same = next((these for these in of_interfaces.values() if mine in these), [])
        found += [mine, *same]
    return found


def file_servers(mounts: str, path: str) -> list[str] | None:
    """Return the addresses of the servers that have a file; none for a disk of this host.

    Args:
        mounts: /proc/self/mountinfo.
        path: absolute, without links.

    Returns:
        None if they are not known.
    """
    best = ("", "", "", "")
    for line in mounts.splitlines():
        before, separator, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if not separator or len(fields) < 5 or len(rest) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):  # a later mount hides an earlier one
            best = (point, rest[0], rest[1], rest[2])
    _, kind, source, options = best
    if kind in _DISKS:
        return []
    found: list[str] = []
    if kind in _BY_OPTION:
        found = [word[5:] for word in options.split(",") if word.startswith("addr=")]
    elif kind == "lustre":
        found = _NID.findall(source)
    return [one for one in found if _is_number(one)] or None


def serves_files(threads: str) -> bool:
    """Return True if this host is a file server, by /proc/net/rpc/nfsd."""
    counts = re.search(r"^th (\d+)", threads, re.MULTILINE)
    return counts is not None and counts[1] != "0"


def source_towards(host: str) -> str:
    """Return the address of this host on the way to another one, or "" if there is none.

    Nothing is sent: the kernel looks at its routes when a socket for datagrams gets a destination.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as unconnected:
            unconnected.connect((host, 9))
            return str(unconnected.getsockname()[0])
    except OSError:
        return ""


def _named(interfaces: Sequence[str]) -> list[str]:
    """Return the addresses of this host on some interfaces and networks."""
    names = interface_names()
    found: list[str] = []
    for one in interfaces:
        if one in names:
            these = _in_turn(*local_addresses(one))
        else:
            try:
                network = ipaddress.ip_network(one, strict=False)
            except ValueError:
                these = []
            else:
                these = [a for a in every_address() if ipaddress.ip_address(a) in network]
        if not these:
            # Not an error: one setting holds for hosts of many kinds, and there are other ways.
            _log.warning(
                "%s: this host has no address on %s; its interfaces are %s",
                *(VARIABLE, one, ", ".join(names)),
            )
        found += these
    return found


def _with_loopback(addresses: Iterable[str]) -> tuple[str, ...]:
    """Return addresses once each, those by which this host reaches itself at the end."""
    return tuple(dict.fromkeys([*addresses, *_in_turn(*local_addresses("lo"))]))


def _in_turn(four: Sequence[str], six: Sequence[str]) -> list[str]:
    """Return IPv4 and IPv6 addresses in turn, as in RFC 8305."""
    return [one for one in chain(*zip_longest(four, six)) if one is not None]


def _is_number(text: str) -> bool:
    try:
        return not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        return False


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
