"""A member's call: the addresses on which it listens for the head, as bytes.

All calls have the same size, so that the server does not learn how many addresses a host has.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 8
"""The most addresses of a call; the head ignores further ones."""

_EPOCH = struct.Struct("!Q")
_ADDRESS = struct.Struct("!16sH")
_MAPPED = bytes(10) + b"\xff\xff"  # an IPv4 address as an IPv6 one (RFC 4291, 2.5.5.2)
_SIZE = _EPOCH.size + MOST * _ADDRESS.size


def pack_call(epoch: int, addresses: Sequence[tuple[str, int]]) -> bytes:
    """Return a call as bytes.

    Args:
        addresses: IP addresses and ports, the best first.
    """
    packed = [_ADDRESS.pack(_sixteen(host), port) for host, port in addresses[:MOST]]
    return (_EPOCH.pack(epoch) + b"".join(packed)).ljust(_SIZE, b"\0")


def unpack_call(call: bytes, epoch: int) -> list[tuple[str, int]]:
    """Return the addresses of a call; none if it is for another head or is not a call."""
    if len(call) != _SIZE or _EPOCH.unpack_from(call) != (epoch,):
        return []
    pairs = _ADDRESS.iter_unpack(call[_EPOCH.size :])
    return [(_host(packed), port) for packed, port in pairs if port]


def _sixteen(host: str) -> bytes:
    packed = ipaddress.ip_address(host).packed
    return packed if len(packed) == 16 else _MAPPED + packed


def _host(packed: bytes) -> str:
    address = ipaddress.IPv6Address(packed)
    return str(address.ipv4_mapped or address)
