"""Questions to a head, asked by missions and by the `grain` command, and their answers.

    async with dial(address, role="cli", codec=CODEC) as peer:
        await peer.channel.send([(Ask("state"), None)])
        [(answer, payload)] = await peer.channel.receive()
        state = unpack(payload)

The content of an answer is plain data, whose form `grain.head` defines. It travels as a payload:
the state of a thousand workers is larger than a message may be.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from grain.edge.errors import RemoteProtocolError
from grain.edge.messages import Codec, Message, Payload, Pieces


class Ask(Message, frozen=True):
    """A question, which `Answer` answers.

    Attributes:
        about: ``"state"``: workers, missions and tasks, for ``grain ls``. ``"overview"``: the same
            in short, for ``grain top``; it may be asked as often as somebody likes to know.
            ``"runs"``: runs of the worker whose id is the pattern. ``"demand"``: what
            tasks ask for and what workers have, for ``grain scale``. ``"why"``: why a task
            waits or runs. ``"arguments"``: the call of a task, which its mission knows; the answer
            may not come while that is busy. ``"programs"``: the external programs that a task
            runs, which its worker knows. ``"load"``: how many cores of all workers are in use, and
            how many there are. ``"retire"``: workers whose names match a pattern are to leave.
            ``"ended"``: the job of the worker of that name has ended, says its batch system.
            ``"find"``: the mission that a word means. ``"cancel"``: a mission, or a task of it, is
            to end.
        mission: the task's mission, for questions about one: its name, label or id; empty for
            the asking mission.
        task: the task's number, for questions about one; 0 cancels the whole mission.
        pattern: names of workers, as in a shell, for ``"retire"``; a worker's id, for
            ``"runs"``; a name, for ``"ended"``.
        at_once: hand runs back instead of waiting for their end, for ``"retire"``.
        by: who asks, for people, for ``"cancel"``.
        number: comes back with the answer: those that others than the head give may overtake each
            other.
    """

    about: Literal[
        "state",
        "overview",
        "runs",
        "demand",
        "why",
        "arguments",
        "programs",
        "load",
        "retire",
        "ended",
        "find",
        "cancel",
    ]
    mission: str = ""
    task: int = 0
    pattern: str = ""
    at_once: bool = False
    by: str = ""
    number: int = 0


class Answer(Message, frozen=True):
    """The answer to an `Ask`; the payload is plain data, see `pack`.

    Attributes:
        about: the question.
        number: its number.
    """

    max_payload: ClassVar[int] = 256 * 1024**2

    about: str
    number: int = 0


CODEC = Codec(Ask, Answer)
"""The codec of a channel that carries questions only."""


def pack(data: Any) -> bytes:
    """Return plain data as an answer's payload; other objects become their `repr`."""
    return msgspec.msgpack.encode(data, enc_hook=repr)


def unpack(payload: Payload) -> Any:
    """Return the data of an answer.

    Raises:
        RemoteProtocolError: the payload is no answer.
    """
    if isinstance(payload, Pieces):  # it has not travelled
        payload = b"".join(payload.parts)
    try:
        return msgspec.msgpack.decode(payload or b"")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"the head's answer is not valid: {error}") from error
