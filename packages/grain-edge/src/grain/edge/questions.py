"""Questions to a head, which anybody who may connect may ask: missions, and the `grain` command.

    async with dial(address, role="cli", codec=CODEC) as peer:
        await peer.channel.send([(Ask("state"), None)])
        [(answer, payload)] = await peer.channel.receive()
        state = unpack(payload)

What an answer holds is plain data, whose form is that of `grain.head`. It travels as a payload: the
state of a thousand workers is larger than a message may be.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from grain.edge.errors import RemoteProtocolError
from grain.edge.messages import Codec, Message, Payload


class Ask(Message, frozen=True):
    """A question, which `Answer` answers.

    Attributes:
        about: ``"state"``: what there is, for ``grain ls``. ``"why"``: why a task is where it is.
            ``"retire"``: workers whose names match a pattern are to leave.
        mission: whose task, for ``"why"``: the mission's id, or what people call it; empty for
            the asking mission.
        task: which, for ``"why"``.
        pattern: names of workers, as in a shell, for ``"retire"``.
        at_once: hand runs back instead of waiting for their end, for ``"retire"``.
    """

    about: Literal["state", "why", "retire"]
    mission: str = ""
    task: int = 0
    pattern: str = ""
    at_once: bool = False


class Answer(Message, frozen=True):
    """Answers an `Ask`; the payload is plain data, see `pack`.

    Attributes:
        about: the question.
    """

    max_payload: ClassVar[int] = 256 * 1024**2

    about: str


CODEC = Codec(Ask, Answer)
"""For those who only ask."""


def pack(data: Any) -> bytes:
    """Plain data as an answer's payload; what is none shows itself as text."""
    return msgspec.msgpack.encode(data, enc_hook=repr)


def unpack(payload: Payload) -> Any:
    """The data of an answer.

    Raises:
        RemoteProtocolError: it is none.
    """
    try:
        return msgspec.msgpack.decode(payload or b"")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"the head's answer is not valid: {error}") from error
