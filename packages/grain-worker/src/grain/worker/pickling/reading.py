"""What the C unpickler reads from: memory, without another copy of it."""

from __future__ import annotations

from grain.edge.buffers import LARGE, advise_huge_pages


class Reader:
    """Bytes in memory as the file of a `pickle.Unpickler`.

    `io.BytesIO` would copy all of it first. And large bytes are filled by `readinto`, in memory
    that nobody has touched yet: to fetch that in pages of 4 KiB takes longer than to copy what goes
    in, so huge ones are asked for before.

    Args:
        data: one-dimensional, of single bytes; read from its start.
    """

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int) -> bytes | memoryview:
        """So many bytes, fewer at the end.

        The unpickler asks for a large string in this way. It takes a view as well as bytes, though
        its documentation knows only of those, which would be one more copy; a test has it so.
        """
        piece = self._data[self._at : self._at + size]
        self._at += len(piece)
        return piece if size >= LARGE else bytes(piece)

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer; the number of bytes, fewer at the end."""
        piece = self._data[self._at : self._at + len(buffer)]
        advise_huge_pages(buffer)
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def readline(self) -> bytes:
        """All up to the next newline; only old protocols have lines."""
        end = self._at
        while end < len(self._data) and self._data[end] != ord("\n"):
            end += 1
        line = bytes(self._data[self._at : end + 1])
        self._at += len(line)
        return line
