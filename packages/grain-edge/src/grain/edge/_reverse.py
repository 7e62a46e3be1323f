"""TCP in reverse: the dialler listens, and the head connects to it.

For sites where a compute node may not open connections to the head's host, but the other way
round. The dialler leaves a note in the Edge file's directory (see `grain.edge._mailbox`) that says
where it listens, and accepts nobody but the head of this meeting: the listener is authenticated as
strictly as a head's is, and closed as soon as the head has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from grain.edge import _tcp
from grain.edge._greet import introduce
from grain.edge._guard import Guard
from grain.edge._identity import HEAD, listening_context
from grain.edge._interfaces import local_addresses, reachable
from grain.edge._listening import accept_forever
from grain.edge._mailbox import leave_note
from grain.edge._peer import Opened
from grain.edge.errors import EdgeError

if TYPE_CHECKING:
    from grain.edge._identity import Credential
    from grain.edge._meeting import Meeting
    from grain.edge.messages import Codec, Hello


async def await_head(
    meeting: Meeting, credential: Credential, hello: Hello, codec: Codec
) -> Opened:
    """Listen until the head has come; cancellation closes everything and removes the note.

    Raises:
        EdgeError: the note could not be left, or the head refused.
    """
    listeners = await _tcp.listen("", 0)
    won: list[Opened] = []
    failed: list[EdgeError] = []
    context = listening_context(credential)
    guard = Guard()

    try:
        addresses = reachable(_tcp.ports(listeners), *local_addresses())
        async with leave_note(meeting, hello.epoch, addresses), trio.open_nursery() as nursery:

            async def greet(stream: trio.SocketStream) -> None:
                host = stream.socket.getpeername()[0]
                ticket, _ = guard.admit(host, trio.current_time())
                if ticket is None:
                    await trio.aclose_forcefully(stream)
                    return
                try:
                    with trio.move_on_after(_tcp.HANDSHAKE):
                        secure = await _tcp.secure_accepted(stream, context, HEAD)
                        try:
                            answer, inbox = await introduce(secure, hello, codec)
                        except BaseException:
                            await trio.aclose_forcefully(secure)
                            raise
                        opened = Opened(secure, answer, inbox, "reverse", host)
                        if won:
                            await opened.aclose()
                        won.append(opened)
                        nursery.cancel_scope.cancel()
                except EdgeError as e:
                    if e.final:
                        failed.append(e)
                        nursery.cancel_scope.cancel()
                except trio.BrokenResourceError:
                    pass
                finally:
                    guard.leave(ticket)

            for listener in listeners:
                nursery.start_soon(accept_forever, listener, greet)
    except BaseException:
        for opened in won:
            await opened.aclose()
        raise
    finally:
        for listener in listeners:
            listener.socket.close()
    if failed:
        raise failed[0]
    return won[0]
