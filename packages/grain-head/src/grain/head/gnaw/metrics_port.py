"""A small HTTP server for metrics: ``GET /metrics``, and nothing else.

It shares the event loop with the hub, and must not disturb it. So a connection is for one request,
has a few seconds and some kB of headers; there are a few connections at a time; the text is made
once a second at most; and workers are looked at some at a time, with other things between.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import h11
import trio

from grain.config import MetricsPlace, parse_metrics
from grain.edge.machine.peer_user import peer_of
from grain.head.gnaw.metrics import Exposition

if TYPE_CHECKING:
    from grain.head.hub.hub import Hub

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_AGAIN = 10.0  # seconds until a port that is taken is tried again
_SECONDS = 5.0  # for one connection
_HEADERS = 8 * 1024  # bytes
_MOST = 16  # connections at a time
_FRESH = 1.0  # seconds for which a text is served again

_log = logging.getLogger("grain.head")


async def serve_metrics(place: str, hub: Hub) -> None:
    """Serve the metrics of a hub, until cancelled.

    Where that is not possible it logs why, tries again now and then, and disturbs nothing else.

    Args:
        place: as `grain.config.parse_metrics` takes it.
    """
    try:
        where = parse_metrics(place)
    except ValueError as error:
        _log.warning("metrics are not served at %r: %s", place, error)
        return
    # Only the user can open the socket; every user of the host can connect to a port.
    server = MetricsServer(hub, own_names_only=where.is_loopback, by_function=bool(where.path))
    before = ""
    while True:
        try:
            listeners = await _listen(where)
        except OSError as error:
            if str(error) != before:
                _log.warning("metrics are not served at %s: %s", where, error)
            before = str(error)
            await trio.sleep(_AGAIN)
            continue
        _log.info("metrics are served at %s", where)
        try:
            await trio.serve_listeners(server.handle, listeners)
        finally:
            if where.path:
                _remove_own(where.path)


class MetricsServer:
    """Answers connections.

    Args:
        own_names_only: True to answer only if the request is for an address or for localhost. A
            page on the web can have a browser on this host ask for a name of its own, which
            resolves to this host then ("DNS rebinding"), and read the answer.
    """

    def __init__(
        self, hub: Hub, *, own_names_only: bool = False, by_function: bool = False
    ) -> None:
        self._hub = hub
        self._own_names_only = own_names_only
        self._exposition = Exposition(hub, time.time(), by_function=by_function)
        self._connections = 0
        self._text = b""
        self._collected_at = float("-inf")
        self._making = trio.Lock()

    async def handle(self, stream: trio.abc.Stream) -> None:
        """Answer one connection, and close it."""
        if self._connections >= _MOST or _is_of_another_user(stream):
            await trio.aclose_forcefully(stream)
            return
        self._connections += 1
        try:
            with trio.move_on_after(_SECONDS):
                await self._answer(stream)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the asking process has gone
        except Exception:  # a bug here: the scheduler goes on
            _log.exception("a request for metrics failed")
        finally:
            self._connections -= 1
            await trio.aclose_forcefully(stream)

    async def _answer(self, stream: trio.abc.Stream) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEADERS)
        try:
            request = await _request(stream, connection)
        except h11.RemoteProtocolError as error:
            await _send(stream, connection, error.error_status_hint, b"this is no request\n")
            return
        if request is None:
            return
        if self._own_names_only and not _is_own_name(request):
            await _send(stream, connection, 421, b"ask for 127.0.0.1 or localhost\n")
        elif request.target.partition(b"?")[0] != b"/metrics":
            await _send(stream, connection, 404, b"only /metrics is here\n")
        elif request.method not in (b"GET", b"HEAD"):
            await _send(stream, connection, 405, b"only GET is served\n")
        else:
            text = await self._metrics()
            await _send(stream, connection, 200, text, head=request.method == b"HEAD")

    async def _metrics(self) -> bytes:
        async with self._making:
            if trio.current_time() - self._collected_at >= _FRESH:
                for _ in range(self._hub.overview.looks_for_all):
                    self._hub.overview.look(trio.current_time())
                    await trio.lowlevel.checkpoint()
                self._text = self._exposition.text()
                self._collected_at = trio.current_time()
            return self._text


def _is_of_another_user(stream: trio.abc.Stream) -> bool:
    """Return True for a connection to a Unix socket that is neither this user's nor root's."""
    if not isinstance(stream, trio.SocketStream) or stream.socket.family != socket.AF_UNIX:
        return False
    return peer_of(stream.socket)[1] not in (0, os.geteuid())


def _is_own_name(request: h11.Request) -> bool:
    """Return True if a request is for an address, for localhost, or for no host, as in HTTP 1.0."""
    hosts = [value.decode("latin-1") for name, value in request.headers if name == b"host"]
    return all(_HOST.fullmatch(host) for host in hosts)


_HOST = re.compile(r"(localhost|[0-9.]+|\[[0-9a-fA-F:.]+\])(:[0-9]*)?|")


async def _request(stream: trio.abc.Stream, connection: h11.Connection) -> h11.Request | None:
    """Return the request of a connection; None if it ends without one."""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            return None
        connection.receive_data(bytes(await stream.receive_some(_HEADERS)))


async def _send(
    stream: trio.abc.Stream,
    connection: h11.Connection,
    status: int,
    body: bytes,
    *,
    head: bool = False,
) -> None:
    headers = [
        ("Content-Type", CONTENT_TYPE if status == 200 else "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
    ]
    if status == 405:
        headers.append(("Allow", "GET, HEAD"))
    sent = connection.send(h11.Response(status_code=status, headers=headers)) or b""
    if not head:
        sent += connection.send(h11.Data(data=body)) or b""
    await stream.send_all(sent)
    if isinstance(stream, trio.SocketStream):
        # What the peer has yet to read would be lost if the socket was closed on unread bytes.
        await stream.send_eof()
        while await stream.receive_some(_HEADERS):
            pass


async def _listen(where: MetricsPlace) -> list[trio.SocketListener]:
    """Listen at a place.

    Raises:
        OSError: it cannot.
    """
    if not where.path:
        return await trio.open_tcp_listeners(where.port, host=where.host, backlog=_MOST)
    if await _is_dead(where.path):
        _remove_own(where.path)
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await sock.bind(where.path)
        # No process can connect before it listens.
        Path(where.path).chmod(0o600)  # noqa: ASYNC240  # a socket is on this host
        sock.listen(_MOST)
    except BaseException:
        sock.close()
        raise
    return [trio.SocketListener(sock)]


async def _is_dead(path: str) -> bool:
    """Return True if a path is that of a socket that no process listens on any more."""
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            await probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False


def _remove_own(path: str) -> None:
    """Remove a socket of this user; nothing else."""
    try:
        status = Path(path).lstat()
        if stat.S_ISSOCK(status.st_mode):
            Path(path).unlink()
    except OSError as error:
        _log.debug("%s is left: %s", path, error)
