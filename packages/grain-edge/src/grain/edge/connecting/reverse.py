"""TCP in reverse: the dialler listens, and the head connects to it.

For sites where a compute node may not open connections to the head's host, but the other way
round. The dialler leaves a note in the Edge file's directory (see `grain.edge.connecting.mailbox`) that says
where it listens, and accepts nobody but the head of this meeting: the listener is authenticated as
strictly as a head's is, and closed as soon as the head has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from grain.edge.connecting.greeting import introduce
from grain.edge.connecting.handshake_limiter import Guard
from grain.edge.connecting.mailbox import leave_note
from grain.edge.connecting.peer import Opened
from grain.edge.errors import EdgeError, Refused
from grain.edge.transports import tcp
from grain.edge.transports.identity import HEAD, listening_context
from grain.edge.transports.interfaces import local_addresses, reachable
from grain.edge.transports.listening import accept_forever

if TYPE_CHECKING:
    from grain.edge.meeting.meeting import Meeting
    from grain.edge.messages import Codec, Hello
    from grain.edge.transports.identity import Credential


async def await_head(
    meeting: Meeting, credential: Credential, hello: Hello, codec: Codec
) -> Opened:
    """Listen until the head has come; cancellation closes everything and removes the note.

    Raises:
        EdgeError: the note could not be left, or the head refused.
    """
    listeners = await tcp.listen("", 0)
    waiting = _Waiting(credential, hello, codec)
    try:
        addresses = reachable(tcp.ports(listeners), *local_addresses())
        async with leave_note(meeting, hello.epoch, addresses), trio.open_nursery() as nursery:
            waiting.scope = nursery.cancel_scope
            for listener in listeners:
                nursery.start_soon(accept_forever, listener, waiting.take)
    except BaseException:
        for opened in waiting.won:
            await opened.aclose()
        raise
    finally:
        for listener in listeners:
            listener.socket.close()
    if waiting.failed is not None:
        raise waiting.failed
    return waiting.won[0]


class _Waiting:
    """What happens to those who connect; the first head wins."""

    scope: trio.CancelScope

    def __init__(self, credential: Credential, hello: Hello, codec: Codec) -> None:
        self._context = listening_context(credential)
        self._guard = Guard()
        self._pending: dict[int, trio.CancelScope] = {}
        self._hello = hello
        self._codec = codec
        self.won: list[Opened] = []
        self.failed: EdgeError | None = None

    async def take(self, stream: trio.SocketStream) -> None:
        host = tcp.peer_host(stream)
        if not host:
            await trio.aclose_forcefully(stream)
            return
        ticket, out = self._guard.admit(host, trio.current_time())
        if out is not None:
            self._pending.pop(out).cancel()
        if ticket is None:
            await trio.aclose_forcefully(stream)
            return
        try:
            with trio.move_on_after(tcp.HANDSHAKE) as scope:
                self._pending[ticket] = scope
                opened = await self._opened(stream, host)
                if self.won:
                    await opened.aclose()
                else:
                    self.won.append(opened)
                    self.scope.cancel()
        except Refused as e:
            self.failed = e
            self.scope.cancel()
        except (EdgeError, trio.BrokenResourceError):
            pass  # not the head, or cut off: the next one may be
        finally:
            self._pending.pop(ticket, None)
            self._guard.leave(ticket)

    async def _opened(self, stream: trio.SocketStream, host: str) -> Opened:
        secure = await tcp.secure_accepted(stream, self._context, HEAD)
        try:
            answer, decoder = await introduce(secure, self._hello, self._codec)
        except BaseException:
            await trio.aclose_forcefully(secure)
            raise
        return Opened(secure, answer, decoder, "reverse", host)
