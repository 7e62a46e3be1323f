"""Inputs as streams of records, read no further than needed: a million lines as well as three."""

from __future__ import annotations

import itertools
import os
import stat
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import trio

from grain.inputs.errors import InputError
from grain.inputs.splitting import Columns, Record, Splitter, check_names
from grain.map.inputs.words import STDIN, InputSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

_PIECE = 1 << 16


class Inputs:
    """All combinations of some sources, as one record for each job.

    An async context manager, which opens the files and closes them. The first source, with those
    that are linked to it, is a stream; the sources that it is combined with are read into memory.

    Args:
        sources: the sources of the columns, in order; the first is linked to nothing.
        null: True if lines of files end with a null character.
        header: True if the first record of each source has the names of its columns.

    Attributes:
        names: the names of the columns; empty without a header.
        width: the number of columns of every record; None if it is not known.

    Raises:
        InputError: an input does not fit the others or the header, or is not CSV.
        OSError: a file cannot be read.
    """

    def __init__(
        self,
        sources: Sequence[InputSource],
        columns: Columns,
        *,
        null: bool = False,
        header: bool = False,
    ) -> None:
        self.names: Record = ()
        self.width = None if columns.several else len(sources)
        self._sources = sources
        self._columns = columns
        self._null = null
        self._header = header
        self._groups: list[_Group] = []
        self._others: list[list[Record]] | None = None
        self._first: Record | None = None
        self._rest: Iterator[tuple[Record, ...]] = iter(())
        self._files = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self._files.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._files.aclose()

    async def next(self) -> Record | None:
        """Return the record of the next job; None at the end."""
        if self._others is None:
            self._others = [await group.all() for group in self._groups[1:]]
        while (rest := next(self._rest, None)) is None:
            self._first = await self._groups[0].next()
            if self._first is None:
                return None
            self._rest = itertools.product(*self._others)
        record = tuple(itertools.chain(self._first or (), *rest))
        if any("\0" in column for column in record):
            raise InputError(
                "an input has a null character in it, and no command can have one; -0 reads inputs "
                f"that end with one: {' '.join(record)[:200]!r}"
            )
        if self.names and len(record) != len(self.names):
            raise InputError(
                f"a row of {len(record)} columns, where the header has {len(self.names)}: "
                f"{' '.join(record)[:200]!r}"
            )
        return record

    async def _open(self) -> None:
        for source in self._sources:
            opened: _Values | _File
            if source.values is not None:
                opened = _Values(source, self._columns)
            else:
                opened = await _File.open(source, Splitter(self._columns, null=self._null))
                self._files.callback(opened.close)
            if source.linked:
                self._groups[-1].sources.append(opened)
            else:
                self._groups.append(_Group([opened]))
            if self._header:
                self._name(await opened.next(), source)
        if self._header:
            self.width = len(self.names)

    def _name(self, names: Record | None, source: InputSource) -> None:
        if names is None:
            raise InputError(f"--header: {source.name} has no first line with names")
        self.names += names
        check_names(self.names, source.name)


class _Values:
    """The values of the command line."""

    def __init__(self, source: InputSource, columns: Columns) -> None:
        self.source = source
        self._records = self._split(source.values or (), columns)

    @staticmethod
    def _split(values: Sequence[str], columns: Columns) -> Iterator[Record]:
        for value in values:
            record = columns.split(value)
            if record is not None:
                yield record

    async def next(self) -> Record | None:
        """Return the next record; None at the end."""
        return next(self._records, None)


class _File:
    """A file of lines, opened."""

    def __init__(self, source: InputSource, splitter: Splitter, fd: int) -> None:
        self.source = source
        self._splitter: Splitter | None = splitter
        self._fd = fd
        self._ready: Iterator[Record] = iter(())
        # To the kernel a regular file is always readable, even while its server does not answer.
        self._waits = not stat.S_ISREG(os.fstat(fd).st_mode)

    @classmethod
    async def open(cls, source: InputSource, splitter: Splitter) -> _File:
        if source.file == STDIN:
            return cls(source, splitter, os.dup(0))
        # Opening a named pipe waits for its writer.
        fd = await trio.to_thread.run_sync(
            os.open, source.file, os.O_RDONLY | os.O_CLOEXEC, abandon_on_cancel=True
        )
        return cls(source, splitter, fd)

    def close(self) -> None:
        os.close(self._fd)

    async def next(self) -> Record | None:
        """Return the next record; None at the end."""
        while (record := next(self._ready, None)) is None:
            if self._splitter is None:
                return None
            data = await self._read()
            if data:
                self._ready = iter(self._splitter.feed(data))
            else:
                self._ready = iter(self._splitter.end())
                self._splitter = None
        return record

    async def _read(self) -> bytes:
        if self._waits:
            try:
                await trio.lowlevel.wait_readable(self._fd)
            except PermissionError:  # epoll(7) cannot watch it, as /dev/null
                self._waits = False
            else:
                return os.read(self._fd, _PIECE)
        return await trio.to_thread.run_sync(os.read, self._fd, _PIECE)


class _Group:
    """Linked sources, side by side."""

    def __init__(self, sources: list[_Values | _File]) -> None:
        self.sources = sources

    async def next(self) -> Record | None:
        """Return the next record; None at the end."""
        records = [await source.next() for source in self.sources]
        there = [record for record in records if record is not None]
        if there and len(there) < len(records):
            ended = self.sources[records.index(None)].source.name
            raise InputError(
                f"linked sources have inputs in pairs, and {ended} ended before another"
            )
        return tuple(itertools.chain(*there)) if there else None

    async def all(self) -> list[Record]:
        """Return all records that are left."""
        records = []
        while (record := await self.next()) is not None:
            records.append(record)
        return records
