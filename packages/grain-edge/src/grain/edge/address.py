"""Addresses, as in `grain.toml`, and their parser.

    edge:///shared/me/meeting      a meeting file: the processes find each other through it
    edge://$HOME/meeting           the same; only $HOME is expanded, and only at the beginning
    tcp://host:port                this TCP port and no other way; [::1] for IPv6
    tcp://:port                    (to serve) on every interface
    unix:///path                   this Unix socket: one host only, no meeting file
    bridge://KEY@host:port         a bridge, where processes meet that share no file system
    bridge://@/path@host:port      the same, with the key in a file; $HOME at its beginning

`tcp://` still needs the meeting file, for the keys: there is no unauthenticated mode. It is the
default one unless `?edge=/path` names another. `bridge://...?iface=eth0` offers direct connections
only on that network interface.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from grain.eventlog.names import home_folder

if TYPE_CHECKING:
    from grain.edge.errors import AddressError

DEFAULT = "edge://$HOME/.local/share/edge-file-default"
"""The address if nothing else is configured."""

_FORMS = (
    "expected edge:///absolute/path, edge://$HOME/path, tcp://host:port, tcp://:port, "
    "unix:///absolute/path, bridge://KEY@host:port or bridge://@/path/of/key@host:port"
)


@dataclass(frozen=True)
class EdgeAddress:
    """A meeting file.

    Attributes:
        path: absolute.
    """

    path: str

    @property
    def edge(self) -> str:
        """The path of the meeting file, as in `TcpAddress`."""
        return self.path

    def __str__(self) -> str:
        return f"edge://{self.path}"


@dataclass(frozen=True)
class TcpAddress:
    """A TCP port.

    Attributes:
        host: name or number, without brackets; empty for every interface.
        port: 1 to 65535, or 0 to let the system choose (to serve).
        edge: absolute path of the meeting file that holds the keys.
    """

    host: str
    port: int
    edge: str

    def __str__(self) -> str:
        return f"tcp://{join_host(self.host, self.port)}?edge={quote(self.edge)}"


@dataclass(frozen=True)
class UnixAddress:
    """A Unix socket.

    Attributes:
        path: absolute; 107 bytes at most, which is what the kernel stores.
    """

    path: str

    @property
    def edge(self) -> None:
        """None: a Unix socket needs no meeting file."""
        return

    def __str__(self) -> str:
        return f"unix://{self.path}"


@dataclass(frozen=True)
class BridgeAddress:
    """A meeting at a bridge.

    Attributes:
        key: the key, or ``@`` and the absolute path of a file with it. Not in `str` and `repr`.
        host: name or number of the server, without brackets.
        port: 1 to 65535.
        iface: the network interface on which a head offers direct connections; empty for all.
        voucher: of the meeting beside which this one is, in hexadecimal digits
            (`grain.edge.bridge.key.MeetingKeys.vouch`); empty for a meeting by itself, as all are
            that users name.
    """

    key: str = field(repr=False)
    host: str
    port: int
    iface: str = ""
    voucher: str = ""

    @property
    def edge(self) -> None:
        """None: there is no meeting file."""
        return

    @property
    def text(self) -> str:
        """The whole address, with its key or the path of it."""
        option = f"?iface={quote(self.iface)}" if self.iface else ""
        if self.voucher:
            option = f"?voucher={self.voucher}"
        return f"bridge://{self.key}@{join_host(self.host, self.port)}{option}"

    def __str__(self) -> str:
        return f"bridge://{join_host(self.host, self.port)}"


Address = EdgeAddress | TcpAddress | UnixAddress | BridgeAddress


def parse_address(text: str, home: str | None = None) -> Address:
    """Parse an address.

    Args:
        home: the absolute path that `$HOME` stands for; this user's home directory if None.

    Raises:
        AddressError: the text is in none of these forms; its message says why, and has the forms.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise _wrong(f"{text!r} is not an address: {_FORMS}")
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
        return _bridge(rest, home)
    raise _wrong(f"{text!r}: unknown scheme {scheme!r}; {_FORMS}")


def check_argument(text: str) -> str:
    """Return an address that stands in an argument list, which every user of the host may read.

    Raises:
        AddressError: the key of a bridge stands in it; the message does not show it.
    """
    if text.startswith("bridge://") and not text.startswith("bridge://@"):
        raise _wrong(
            "every user of this host can read the arguments of a command, so the key of a bridge "
            "must not stand there: put it into a file, bridge://@/path/of/key@host:port"
        )
    return text


def join_host(host: str, port: int) -> str:
    """Return host and port as in an address, with brackets around IPv6 numbers."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _wrong(message: str) -> AddressError:
    # Imported for an error only: it takes trio, which reading a configuration can do without.
    from grain.edge.errors import AddressError

    return AddressError(message)


def _home(text: str) -> str:
    try:
        return str(home_folder())
    except RuntimeError as error:
        raise _wrong(f"{text!r}: {error}: set HOME, or write an absolute path") from None


def _path(text: str, rest: str, home: str | None) -> str:
    if rest == "$HOME" or rest.startswith("$HOME/"):
        rest = (_home(text) if home is None else home) + rest[len("$HOME") :]
    if not rest.startswith("/") or "\0" in rest:
        raise _wrong(f"{text!r}: the path must be absolute or begin with $HOME/; {_FORMS}")
    own = rest
    if "$" in rest:  # the home directory may have one, and other processes are told the whole path
        with suppress(RuntimeError):
            own = rest.removeprefix(f"{home or home_folder()}/")
    if "$" in own:
        raise _wrong(f"{text!r}: no variable but $HOME, at the beginning, is expanded")
    path = PurePosixPath(rest)
    if ".." in path.parts or len(path.parts) < 2 or rest.endswith("/"):
        raise _wrong(f"{text!r}: name a file, without '..'; {_FORMS}")
    # PurePosixPath keeps two leading slashes, which POSIX leaves undefined.
    return "/" + str(path).lstrip("/")


def _tcp(text: str, rest: str, home: str | None) -> TcpAddress:
    where, _, query = rest.partition("?")
    edge = _path(DEFAULT, DEFAULT.removeprefix("edge://"), home)
    if query:
        if not query.startswith("edge="):
            raise _wrong(f"{text!r}: the only option is ?edge=/absolute/path")
        edge = _path(text, unquote(query.removeprefix("edge=")), home)
    host, port = _host_and_port(text, where)
    return TcpAddress(host, port, edge)


def _bridge(rest: str, home: str | None) -> BridgeAddress:
    # No message has the text: there is a key in it.
    where, _, query = rest.partition("?")
    key, separator, place = where.rpartition("@")
    shown = f"bridge://...@{place}"
    if not separator or not key:
        raise _wrong(f"a bridge:// address begins with a key and @; {_FORMS}")
    if key.startswith("@"):
        key = "@" + _path(f"bridge://{key}@{place}", key[1:], home)
    elif re.fullmatch(r"[A-Za-z0-9_-]{43}", key) is None:
        raise _wrong(
            "the key of a bridge:// address is not valid: it has 43 characters, as `grain bridge "
            "key` prints them"
        )
    iface = voucher = ""
    if re.fullmatch(r"voucher=[0-9a-f]{192}", query):
        voucher = query.partition("=")[2]
    elif query:
        name, _, iface = query.partition("=")
        iface = unquote(iface)
        if name != "iface" or not iface or len(iface) > 15 or "/" in iface:
            raise _wrong(f"'{shown}': the only option is ?iface=NAME, a network interface")
    host, port = _host_and_port(shown, place)
    if not host or not port:
        raise _wrong(f"'{shown}': name the host and the port of the bridge; {_FORMS}")
    return BridgeAddress(key, host, port, iface, voucher)


def _host_and_port(text: str, where: str) -> tuple[str, int]:
    host, separator, port = where.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise _wrong(f"{text!r}: a port from 1 to 65535 must follow the host; {_FORMS}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        example = "tcp://[::1]:4000" if text.startswith("tcp") else "[::1]:4000"
        raise _wrong(f"{text!r}: write IPv6 numbers in brackets, as in {example}")
    if any(c.isspace() or c in "/@[]" for c in host):
        raise _wrong(f"{text!r}: {host!r} is not a host")
    try:
        host.encode("idna")  # as a look-up of it does
    except UnicodeError as e:
        raise _wrong(f"{text!r}: {host!r} is not a host: {e}") from e
    return host, int(port)
