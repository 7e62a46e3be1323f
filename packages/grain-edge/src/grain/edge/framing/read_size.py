"""How much is read from a stream at a time."""

from __future__ import annotations

_MIN, _MAX = 16 * 1024, 1024 * 1024
_MANY = 32  # messages in one piece


class ReadSize:
    """Large pieces only while large things come: a buffer is made for each read.

    Many small ones are read in small pieces: who sends a million of them must not keep the receiver
    from its other peers for longer than some hundred take.

    Attributes:
        bytes: how many to read at most.
    """

    def __init__(self) -> None:
        self.bytes = _MIN

    def adapt(self, got: int, messages: int) -> None:
        """So many bytes were read, which completed so many messages."""
        if messages > _MANY:
            self.bytes = _MIN
        elif got == self.bytes < _MAX:
            self.bytes *= 2
        elif got < self.bytes // 4 and self.bytes > _MIN:
            self.bytes //= 2
