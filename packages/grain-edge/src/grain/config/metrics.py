"""The place of metrics, as in `grain.toml`: ``head.gnaw.metrics``."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

_FORMS = "'127.0.0.1:9100', '[::1]:9100' or the absolute path of a Unix socket"


class MetricsPlace(NamedTuple):
    """The place where metrics are served: a TCP port, or a Unix socket.

    Attributes:
        host: the number of an interface; empty for a socket.
        port: of TCP.
        path: of the socket, absolute; empty for a port.
    """

    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_loopback(self) -> bool:
        """True for a port that only this host reaches."""
        return bool(self.host) and ip_address(self.host).is_loopback

    def __str__(self) -> str:
        if self.path:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_metrics(text: str) -> MetricsPlace:
    """Parse a place of metrics.

    Every process that reaches the port may read them. So the number of the interface stands in the
    address in full, and none means all interfaces.

    Raises:
        ValueError: it is none; the text says what to write.
    """
    if text.startswith("/"):
        if len(text.encode()) > 107 or text.endswith("/"):
            raise ValueError("the path of a Unix socket names a file and has 107 bytes at most")
        return MetricsPlace(path=text)
    host, colon, digits = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    port = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 5 else 0
    if not colon or not 1 <= port <= 65535:
        raise ValueError(f"write {_FORMS}, with a port from 1 to 65535")
    if not host:
        raise ValueError(f"write the interface, too, as in '127.0.0.1:{port}'")
    if host == "localhost":
        host = "127.0.0.1"
    try:
        number = ip_address(host)
    except ValueError:
        raise ValueError(f"write the interface as a number, as in '127.0.0.1:{port}'") from None
    # An IPv4 address in the clothes of an IPv6 one is what it stands for.
    number = getattr(number, "ipv4_mapped", None) or number
    if number.is_unspecified:
        raise ValueError(
            f"{host} means every interface, so that every host could read the metrics; "
            f"write '127.0.0.1:{port}', or the number of one interface"
        )
    return MetricsPlace(str(number), port)
