"""The greeting: the first frames of a connection, after authentication.

The dialler sends Hello; the head answers Welcome or Refusal; the dialler sends Join on the one
connection that it chooses among those it tried. Only then does the head hand the channel to the
program: so a dialler that tries several routes appears once. The dialler sends Hello whichever side
opened the connection.

That the dialler waits for Welcome is more than politeness: in TLS 1.3 a client's handshake ends
before the server has judged its certificate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from msgspec.structs import replace

from grain.edge.connecting.peer import GreetedStream
from grain.edge.errors import (
    ChannelBroken,
    EdgeError,
    NotAdmitted,
    Refused,
    RemoteProtocolError,
    VersionMismatch,
)
from grain.edge.framing.frames import FrameDecoder, greeting_frame
from grain.edge.messages import (
    PROTOCOL,
    Codec,
    Hello,
    Join,
    Message,
    Refusal,
    Welcome,
    decode_greeting,
    encode_greeting,
)
from grain.edge.version import package_version

if TYPE_CHECKING:
    from collections.abc import Callable


async def _send(stream: trio.abc.Stream, message: Message) -> None:
    await stream.send_all(greeting_frame(encode_greeting(message)))


async def _receive(stream: trio.abc.Stream, decoder: FrameDecoder) -> Message:
    body = None
    while body is None:
        data = await stream.receive_some(4096)
        if not data:
            raise ChannelBroken("the peer closed the connection during the greeting")
        body = decoder.feed_greeting(data)
    return decode_greeting(body)


async def introduce(
    stream: trio.abc.Stream, hello: Hello, codec: Codec
) -> tuple[Welcome, FrameDecoder]:
    """Greet a head on the dialler's side, up to its welcome; `join` completes the greeting.

    Raises:
        VersionMismatch: the head speaks another protocol.
        Refused: with the head's reason; `NotAdmitted` if it wants no more of our kind.
        RemoteProtocolError, trio.BrokenResourceError: no greeting.
    """
    decoder = FrameDecoder(codec, greetings=1)
    await _send(stream, replace(hello, forms=codec.forms))
    answer = await _receive(stream, decoder)
    if isinstance(answer, Refusal):
        if answer.versions or answer.protocol != hello.protocol:
            raise VersionMismatch(f"refused by the head: {answer.reason}")
        kind = NotAdmitted if answer.final else Refused
        raise kind(f"refused by the head: {answer.reason}")
    if not isinstance(answer, Welcome):
        raise RemoteProtocolError(f"the peer answered the greeting with {type(answer).__name__}")
    if (answer.meeting_id, answer.epoch) != (hello.meeting_id, hello.epoch):
        raise Refused("another head answered at this address; the meeting file is out of date")
    return answer, decoder


async def introduced(
    stream: trio.abc.Stream, hello: Hello, codec: Codec, transport: str, target: str
) -> GreetedStream:
    """Introduce this process on a stream, which is closed if that fails or is cancelled.

    Args:
        transport, target: as of `GreetedStream`.

    Raises:
        EdgeError, trio.BrokenResourceError: as of `introduce`.
    """
    try:
        answer, decoder = await introduce(stream, hello, codec)
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return GreetedStream(stream, answer, decoder, transport, target)


async def join(stream: trio.abc.Stream) -> None:
    """Choose this connection, on the dialler's side.

    Raises:
        trio.BrokenResourceError: the connection is lost already.
    """
    await _send(stream, Join(PROTOCOL, package_version()))


async def welcome(
    stream: trio.abc.Stream,
    answer: Welcome,
    codec: Codec,
    admit: Callable[[Hello], str] | None = None,
) -> tuple[Hello, FrameDecoder]:
    """Greet a dialler on the head's side; returns when it has joined.

    Args:
        stream: authenticated.
        answer: the head's introduction, for a dialler of its meeting and leadership.

    Returns:
        the dialler's introduction, and the decoder of what follows.

    Raises:
        EdgeError, trio.BrokenResourceError: it did not join.
    """
    decoder = FrameDecoder(codec, greetings=2)
    try:
        hello = _checked(await _receive(stream, decoder), answer, codec, admit)
    except (RemoteProtocolError, Refused) as e:
        await _refuse(stream, e)
        raise
    await _send(stream, answer)
    joined = await _receive(stream, decoder)
    if not isinstance(joined, Join):
        raise RemoteProtocolError(f"the peer did not join but sent {type(joined).__name__}")
    return hello, decoder


def _checked(
    hello: Message, answer: Welcome, codec: Codec, admit: Callable[[Hello], str] | None
) -> Hello:
    if not isinstance(hello, Hello):
        raise RemoteProtocolError(f"the peer began with {type(hello).__name__}")
    if wrong := codec.mismatch(hello.forms, hello.package):
        raise VersionMismatch(wrong)
    if (hello.meeting_id, hello.epoch) != (answer.meeting_id, answer.epoch):
        raise Refused(
            f"this is epoch {answer.epoch} of its meeting, and not the one in the meeting file "
            "when the peer read it"
        )
    if admit is not None and (reason := admit(hello)):
        raise NotAdmitted(reason)
    return hello


async def _refuse(stream: trio.abc.Stream, error: EdgeError) -> None:
    """Send the reason, if the peer still listens."""
    with trio.move_on_after(1):
        try:
            final = isinstance(error, NotAdmitted)
            versions = isinstance(error, VersionMismatch)
            reason = str(error)[:1000]
            await _send(stream, Refusal(PROTOCOL, package_version(), reason, final, versions))
        except trio.BrokenResourceError:
            return
