"""A TCP proxy before a head, which cuts the connections through it: python -m tools.chaos.proxy.

Usage: proxy.py EDGE_FILE. It prints its port, and connects each client to the head that the
meeting file names at the time. Each line on standard input is an order: "cut" lets bytes wait in
both directions, and newcomers, until "mend"; "reset" breaks all connections. It ends with its
input.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import trio

from grain.edge.errors import MeetingError
from grain.edge.meeting.disk import Disk
from grain.edge.meeting.meeting import Meeting


class Proxy:
    """The proxy.

    Args:
        edge: path of the meeting file.
    """

    def __init__(self, edge: str) -> None:
        self._meeting = Meeting(edge, Disk())
        self._open = trio.Event()
        self._open.set()
        self._scopes: set[trio.CancelScope] = set()

    async def run(self) -> None:
        """Serve until the end of standard input."""
        async with trio.open_nursery() as nursery:
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            print(listener.socket.getsockname()[1], flush=True)
            nursery.start_soon(trio.serve_listeners, self._serve, [listener])
            await self._obey()
            nursery.cancel_scope.cancel()

    async def _obey(self) -> None:
        async with trio.lowlevel.FdStream(0) as orders:
            text = b""
            async for data in orders:
                *lines, text = (text + data).split(b"\n")
                for line in lines:
                    self._order(line.decode())

    def _order(self, order: str) -> None:
        if order == "cut":
            self._open = trio.Event()
        elif order == "mend":
            self._open.set()
        else:
            for scope in self._scopes:
                scope.cancel()

    async def _serve(self, near: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await self._connect(near)
            finally:
                self._scopes.discard(scope)

    async def _connect(self, near: trio.SocketStream) -> None:
        async with near:
            await self._open.wait()
            with suppress(OSError, MeetingError, trio.BrokenResourceError):
                record = await self._meeting.read()
                ports = [port for host, port in record.tcp if host == "127.0.0.1"]
                far = await trio.open_tcp_stream("127.0.0.1", ports[0])
                async with far, trio.open_nursery() as nursery:
                    nursery.start_soon(self._pass_on, near, far)
                    await self._pass_on(far, near)
                    nursery.cancel_scope.cancel()

    async def _pass_on(self, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in source:
                await self._open.wait()
                await sink.send_all(data)
            await sink.send_eof()


if __name__ == "__main__":
    trio.run(Proxy(sys.argv[1]).run)
