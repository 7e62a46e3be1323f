"""Under which addresses other hosts may reach this one, best first."""

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


def local_addresses() -> tuple[list[str], list[str]]:
    """IPv4 and IPv6 addresses of this host, loopback last."""
    names = sorted((name for _, name in socket.if_nameindex()), key=rank)
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
    return four, inet6(table)


def rank(name: str) -> tuple[int, str]:
    """Real interfaces before those of containers and tunnels, loopback last."""
    return (2 if name == "lo" else 1 if name.startswith(_VIRTUAL) else 0), name


def inet6(table: str) -> list[str]:
    """Addresses from /proc/net/if_inet6, without link-local ones, which need a zone."""
    rows = [row.split() for row in table.splitlines()]
    good = [row for row in rows if len(row) == 6 and row[3] in ("00", "10")]
    good.sort(key=lambda row: rank(row[5]))
    return [str(ipaddress.IPv6Address(bytes.fromhex(row[0]))) for row in good]


def reachable(
    ports: list[tuple[bool, int]], four: list[str], six: list[str]
) -> list[tuple[str, int]]:
    """What to publish for listeners on all interfaces: the families in turn, as RFC 8305 has it.

    Args:
        ports: whether IPv6, and the port, of each listener.
        four: IPv4 addresses, best first.
        six: IPv6 addresses, best first.
    """
    by_family = [
        [(host, port) for is_six, port in ports if is_six is want for host in hosts]
        for want, hosts in ((False, four), (True, six))
    ]
    return [pair for pair in chain(*zip_longest(*by_family)) if pair is not None][:MOST]
