"""Messages: one frozen, validated type each, and the codec that turns them into bytes.

A message is a subclass of `Message`. On the wire it is a MessagePack array whose first element is
the class's name; unknown names, extra or missing fields and wrong types are refused by the
decoder and never reach the program. To add messages, define them in this module, below the
greeting, and list them in `MESSAGES`. Messages arrive in the order in which they were sent.

The class variable `max_payload` is the most bytes that may travel beside a message; 0 means that it
has no payload.

The greeting (`Hello`, `Welcome`, `Refusal`, `Join`) begins with the protocol number and the
package version in every version of Grain, so that two versions which do not understand each other
can at least say so: these two fields always stay first.

Two commits of one version may differ in their messages. So a dialler states a number for the form
of each message that it knows, which is computed from the classes and cannot be forgotten, and a
head refuses one whose messages it does not have in that form.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
import struct
import sys
import zlib
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import msgspec

from grain.edge.buffers import Buffer
from grain.edge.buffers import Pieces as Pieces
from grain.edge.errors import LocalProtocolError, RemoteProtocolError, VersionMismatch
from grain.eventlog.schema import encodable

if TYPE_CHECKING:
    from collections.abc import Sequence

PROTOCOL = 1
"""Number of the protocol; raised with every change that an older peer would not understand."""

MAX_MESSAGE = 1024 * 1024
"""The most bytes of one message without its payload."""

MAX_GREETING = 4096
"""The most bytes of a greeting: a peer that is not welcomed yet may not make us store more."""

WireBytes = Buffer | Pieces
"""The data that a wire can carry beside a message."""

Payload = WireBytes | None
"""The payload beside a message on a wire; None if it has none."""


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=True):
    """Base of all messages."""

    max_payload: ClassVar[int] = 0


class Hello(Message, frozen=True):
    """The introduction of a dialler; first in every connection.

    Attributes:
        role: what it is: "worker", "mission", "cli", "probe".
        meeting_id: which meeting it believes to join; empty where no meeting file is used.
        epoch: which leadership it believes to join; 0 where no meeting file is used.
        identity: the same on each connection of one peer, and no other's; empty if the head need
            not know it again.
        boot: the id of its kernel's boot; empty if it does not matter whether its process lives.
        space: its process namespace, as in `grain.files.processes.ProcessIdentity`.
        start: the start time of its process, likewise.
        forms: those of its messages, see `Codec.forms`; empty if not stated.
    """

    protocol: int
    package: str
    role: str
    name: str
    host: str
    pid: int
    meeting_id: str = ""
    epoch: int = 0
    identity: str = ""
    boot: str = ""
    space: int = 0
    start: int = 0
    forms: bytes = b""


class Welcome(Message, frozen=True):
    """The introduction of a head, which accepts the dialler.

    Attributes:
        epoch: its leadership; the others are as in `Hello`.
    """

    protocol: int
    package: str
    host: str
    pid: int
    meeting_id: str = ""
    epoch: int = 0
    boot: str = ""
    space: int = 0
    start: int = 0


class Refusal(Message, frozen=True):
    """The head's refusal to accept the dialler, with a reason.

    Attributes:
        final: another route to this head would not help.
        versions: the two are of different versions, which the reason names.
    """

    protocol: int
    package: str
    reason: str
    final: bool = False
    versions: bool = False


class Join(Message, frozen=True):
    """The dialler's choice of this connection, out of all that it tried at the same time."""

    protocol: int
    package: str


class Ping(Message, frozen=True):
    """A sign of life on an idle channel; never reaches the program."""


class Bye(Message, frozen=True):
    """The last message of a channel that is closed on purpose; never reaches the program."""


GREETING: tuple[type[Message], ...] = (Hello, Welcome, Refusal, Join)
MESSAGES: tuple[type[Message], ...] = (Ping, Bye)
"""The messages of every channel after the greeting."""


class Codec:
    """Encoder and decoder of a fixed set of message types.

    Args:
        types: message classes; `Ping` and `Bye` are always among them.
    """

    def __init__(self, *types: type[Message]) -> None:
        self.types: tuple[type[Message], ...] = tuple(dict.fromkeys((*MESSAGES, *types)))
        self._max_payloads = {kind: kind.max_payload for kind in self.types}
        union = functools.reduce(operator.or_, self.types)
        self._encoder = msgspec.msgpack.Encoder()
        self._batch: msgspec.msgpack.Decoder[list[tuple[Message, Payload]]]
        self._batch = msgspec.msgpack.Decoder(list[tuple[union, bytes | None]])  # type: ignore[valid-type]
        self._announced: msgspec.msgpack.Decoder[tuple[Message, int]]
        self._announced = msgspec.msgpack.Decoder(tuple[union, int])  # type: ignore[valid-type]

    @functools.cached_property
    def forms(self) -> bytes:
        """The forms of all messages: four bytes each, ascending.

        Two processes agree on a message if both have its number. It depends on the names and the
        types of the fields, also of structs within, and neither on Python nor on msgspec.
        """
        numbers = sorted(zlib.crc32("|".join(_form(kind, set())).encode()) for kind in self.types)
        return struct.pack(f">{len(numbers)}I", *numbers)

    def mismatch(self, forms: bytes, package: str) -> str:
        """Return what is wrong with a dialler's messages, naming both versions; "" if nothing.

        Args:
            forms: of its codec.
            package: its version of Grain.
        """
        theirs = {forms[at : at + 4] for at in range(0, len(forms), 4)}
        ours = {self.forms[at : at + 4] for at in range(0, len(self.forms), 4)}
        if theirs <= ours:
            return ""
        from grain.edge.version import package_version

        return (
            f"the peer is Grain {package[:32]!r} with messages {zlib.crc32(forms):08x}, this side "
            f"Grain {package_version()!r} with messages {zlib.crc32(self.forms):08x}, of another "
            "commit: install the same version on both, and start again what is older"
        )

    def encode(self, message: Message, beside: bytes | memoryview | int | None) -> bytes:
        """Return one message, encoded with its small payload, or with the size of a large one.

        Args:
            beside: the payload, its size in bytes, or None.

        Raises:
            LocalProtocolError: not one of the codec's types, or larger than `MAX_MESSAGE`.
        """
        if type(message) not in self._max_payloads:
            raise LocalProtocolError(f"{type(message).__name__} is no message of this channel")
        try:
            encoded = self._encoder.encode((message, beside))
        except UnicodeEncodeError:
            encoded = self._encoder.encode((encodable(message), beside))
        if len(encoded) > MAX_MESSAGE:
            raise LocalProtocolError(
                f"{type(message).__name__} of {len(encoded)} bytes; a message has {MAX_MESSAGE} "
                "at most, put large data into the payload"
            )
        return encoded

    def encode_together(self, batch: Sequence[tuple[Message, Payload]], most: int) -> bytes | None:
        """Return messages with small payloads as they follow each other in a frame.

        In one go, which takes a third of the time of one by one.

        Args:
            batch: at least one.
            most: bytes that the result may have.

        Returns:
            None if a message or payload is larger or of another kind, or has text that is not
            UTF-8: then `encode` takes them one
            by one, or says what is wrong.
        """
        size = 0
        for message, payload in batch:
            limit = self._max_payloads.get(type(message))
            if limit is None:
                return None
            if payload is not None:
                if type(payload) is not bytes or len(payload) > limit:
                    return None
                size += len(payload)
        if size > most:
            return None
        try:
            encoded = self._encoder.encode(batch)
        except UnicodeEncodeError:
            return None
        return encoded[array_head(len(batch)) :] if len(encoded) <= most else None

    def decode_batch(self, body: Buffer) -> list[tuple[Message, Payload]]:
        """Return the messages of one frame.

        Raises:
            RemoteProtocolError: unknown type, unknown or missing field, wrong type of a field, a
                payload where none may be or a payload that is too large.
        """
        try:
            pairs = self._batch.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as e:
            raise RemoteProtocolError(f"the peer sent a message that is not valid: {e}") from e
        for message, payload in pairs:
            if payload is not None and len(payload) > type(message).max_payload:
                check_payload(message, len(payload), RemoteProtocolError)
        return pairs

    def decode_announced(self, body: Buffer) -> tuple[Message, int]:
        """Return a message whose payload follows the frame, and the size of that in bytes.

        Raises:
            RemoteProtocolError: as `decode_batch`.
        """
        try:
            message, size = self._announced.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as e:
            raise RemoteProtocolError(f"the peer sent a message that is not valid: {e}") from e
        check_payload(message, size, RemoteProtocolError)
        return message, size


_WORD = re.compile(r"[A-Za-z_]\w*")


def _form(kind: type, seen: set[type]) -> list[str]:
    """Return the form of a struct as words: its name, its fields, and what their types mean."""
    if kind in seen:
        return []
    seen.add(kind)
    words = [kind.__name__]
    for base in kind.__mro__:
        # Their text, which does not depend on Python's version, as what it means does.
        annotations = inspect.get_annotations(base)
        names = vars(sys.modules[base.__module__])
        for name, text in annotations.items():
            if name in kind.__struct_fields__:  # type: ignore[attr-defined]
                words.append(f"{name}: {text}")
                for word in _WORD.findall(str(text)):
                    words += _meaning(names.get(word), seen)
    return words


def _meaning(value: object, seen: set[type]) -> list[str]:
    """Return the words for what a name in an annotation stands for: a struct, or an alias."""
    if isinstance(value, type):
        return _form(value, seen) if issubclass(value, msgspec.Struct) else []
    words = []
    for part in get_args(value):
        words += [part.__name__] if isinstance(part, type) else []
        words += [repr(part)] if isinstance(part, str | int) else _meaning(part, seen)
    return words


CORE = Codec()
"""The codec of channels that need no other messages."""


def array_head(length: int) -> int:
    """Return the number of bytes that MessagePack puts before the elements of an array."""
    return 1 if length < 16 else 3 if length < 65536 else 5


def check_payload(
    message: Message, size: int, blame: type[LocalProtocolError | RemoteProtocolError]
) -> None:
    """Refuse a payload larger than the message's type allows.

    Raises:
        blame: negative or too large.
    """
    if not 0 <= size <= type(message).max_payload:
        raise blame(
            f"{type(message).__name__} with a payload of {size} bytes; "
            f"it has {type(message).max_payload} at most"
        )


def encode_greeting(message: Message) -> bytes:
    """Return the body of a greeting's frame."""
    try:
        return msgspec.msgpack.encode(message)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(encodable(message))


def decode_greeting(body: Buffer) -> Message:
    """Return the greeting in a frame's body.

    Raises:
        VersionMismatch: the peer speaks another protocol; names both.
        RemoteProtocolError: not a greeting, or one with wrong fields.
    """
    try:
        loose = msgspec.msgpack.decode(body, type=list[Any], strict=True)
    except (msgspec.MsgspecError, ValueError, RecursionError) as e:
        raise RemoteProtocolError(f"the peer's greeting is not one: {e}") from e
    match loose:
        case [str(), int(protocol), str(package), *_] if protocol != PROTOCOL:
            from grain.edge.version import package_version

            raise VersionMismatch(
                f"the peer speaks protocol {protocol} (Grain {package[:32]!r}), this side protocol "
                f"{PROTOCOL} (Grain {package_version()!r}): install the same version on both"
            )
    try:
        return _greeting.decode(body)
    except (msgspec.MsgspecError, ValueError) as e:
        what = f"the peer's greeting is not valid: {e}"
        match loose:
            case [str(kind), int(), str(package), *_] if kind in _GREETINGS:
                from grain.edge.version import package_version

                raise VersionMismatch(
                    f"{what}. The peer is Grain {package[:32]!r}, this side Grain "
                    f"{package_version()!r}, of another commit: install the same version on both"
                ) from e
        raise RemoteProtocolError(what) from e


_GREETINGS = frozenset(kind.__name__ for kind in GREETING)
_greeting: msgspec.msgpack.Decoder[Message]
_greeting = msgspec.msgpack.Decoder(functools.reduce(operator.or_, GREETING))
