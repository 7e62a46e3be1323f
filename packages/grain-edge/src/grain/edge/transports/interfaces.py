"""The addresses by which other hosts may reach this one, best first."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from itertools import chain, zip_longest
from pathlib import Path

_SIOCGIFADDR = 0x8915  # netdevice(7)
_VIRTUAL = ("docker", "virbr", "br-", "veth", "cni", "tun", "tap", "podman")
MOST = 12


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
