"""Addresses, as people write them in `grain.toml`, and their parser.

    edge:///shared/me/meeting      an Edge file: the processes find each other through it
    edge://$HOME/meeting           the same; only $HOME is expanded, and only at the beginning
    tcp://host:port                this TCP port and no other way; [::1] for IPv6
    tcp://:port                    (to serve) on every interface
    unix:///path                   this Unix socket: one host only, no Edge file

`tcp://` still needs the Edge file, for the keys: there is no unauthenticated mode. It is the
default one unless `?edge=/path` names another.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from grain.edge.errors import AddressError

DEFAULT = "edge://$HOME/.local/share/edge-file-default"
"""The address if nothing else is configured."""

_FORMS = (
    "expected edge:///absolute/path, edge://$HOME/path, tcp://host:port, tcp://:port "
    "or unix:///absolute/path"
)


@dataclass(frozen=True)
class EdgeAddress:
    """An Edge file.

    Attributes:
        path: absolute.
    """

    path: str

    @property
    def edge(self) -> str:
        """The path of the Edge file, as of a `TcpAddress`."""
        return self.path

    def __str__(self) -> str:
        return f"edge://{self.path}"


@dataclass(frozen=True)
class TcpAddress:
    """One TCP port.

    Attributes:
        host: name or number, without brackets; empty for every interface.
        port: 1 to 65535, or 0 to let the system choose (to serve).
        edge: absolute path of the Edge file that holds the keys.
    """

    host: str
    port: int
    edge: str

    def __str__(self) -> str:
        return f"tcp://{join_host(self.host, self.port)}?edge={quote(self.edge)}"


@dataclass(frozen=True)
class UnixAddress:
    """One Unix socket.

    Attributes:
        path: absolute; 107 bytes at most, which is what the kernel stores.
    """

    path: str

    @property
    def edge(self) -> None:
        """None: a Unix socket needs no Edge file."""
        return

    def __str__(self) -> str:
        return f"unix://{self.path}"


Address = EdgeAddress | TcpAddress | UnixAddress


def parse_address(text: str, home: str | None = None) -> Address:
    """Parse an address.

    Args:
        text: in one of the forms above.
        home: the absolute path that `$HOME` stands for; this user's home directory if None.

    Raises:
        AddressError: the text is in none of these forms; its message says why, and has the forms.
    """
    if home is None:
        home = str(Path.home())
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise _wrong(f"{text!r} is no address: {_FORMS}")
    if scheme == "edge":
        return EdgeAddress(_path(text, rest, home))
    if scheme == "unix":
        path = _path(text, rest, home)
        if len(path.encode()) > 107:
            raise _wrong(f"{text!r}: a Unix socket's path has 107 bytes at most")
        return UnixAddress(path)
    if scheme == "tcp":
        return _tcp(text, rest, home)
    if scheme == "bridge":
        raise _wrong(f"{text!r}: bridge:// needs a later version of Grain; {_FORMS}")
    raise _wrong(f"{text!r}: unknown scheme {scheme!r}; {_FORMS}")


def join_host(host: str, port: int) -> str:
    """Return host and port as in an address, with brackets around IPv6 numbers."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _wrong(message: str) -> AddressError:
    # Imported for an error only: it takes trio, which reading a configuration can do without.
    from grain.edge.errors import AddressError

    return AddressError(message)


def _path(text: str, rest: str, home: str) -> str:
    if rest == "$HOME" or rest.startswith("$HOME/"):
        rest = home + rest[len("$HOME") :]
    if not rest.startswith("/") or "\0" in rest:
        raise _wrong(f"{text!r}: the path must be absolute or begin with $HOME/; {_FORMS}")
    if "$" in rest:
        raise _wrong(f"{text!r}: no variable but $HOME, at the beginning, is expanded")
    path = PurePosixPath(rest)
    if ".." in path.parts or len(path.parts) < 2 or rest.endswith("/"):
        raise _wrong(f"{text!r}: name a file, without '..'; {_FORMS}")
    # PurePosixPath keeps two leading slashes, which POSIX leaves undefined.
    return "/" + str(path).lstrip("/")


def _tcp(text: str, rest: str, home: str) -> TcpAddress:
    where, _, query = rest.partition("?")
    edge = _path(DEFAULT, DEFAULT.removeprefix("edge://"), home)
    if query:
        if not query.startswith("edge="):
            raise _wrong(f"{text!r}: the only option is ?edge=/absolute/path")
        edge = _path(text, unquote(query.removeprefix("edge=")), home)
    host, separator, port = where.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise _wrong(f"{text!r}: a port from 1 to 65535 must follow the host; {_FORMS}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise _wrong(f"{text!r}: write IPv6 numbers in brackets, as in tcp://[::1]:4000")
    if any(c.isspace() or c in "/@[]" for c in host):
        raise _wrong(f"{text!r}: {host!r} is no host")
    try:
        host.encode("idna")  # as whoever looks it up does
    except UnicodeError as e:
        raise _wrong(f"{text!r}: {host!r} is no host: {e}") from e
    return TcpAddress(host, int(port), edge)
