"""Numbers without gaps, each with a file that is made once: jobs and wishes.

Number N + 1 is tried only when N is taken. So a reader opens one number after the other, and needs
no list of a directory.

A thousand numbers are a *bucket*. While numbers may come to it, ``jobs/3`` is a symbolic link to
``../live/jobs-3``, a directory of files; afterwards it is a file that has all of them (see
`packing`), so a link to ``jobs/3/3123`` always fails.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from grain.queue.errors import CannotWrite, Damaged, NoSuchJob
from grain.queue.records import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.queue.files import WholeFiles

BUCKET = 1000
"""Numbers in a bucket of a new queue."""

LATE = 120.0
"""Seconds after which every host sees a name that was made before; see `grain.queue.files`."""


class Pack(msgspec.Struct, frozen=True, omit_defaults=True):
    """A packed bucket, as compressed JSON.

    Attributes:
        files: the content of each file by its name.
        removed: True if the content was removed since all of it was old.
    """

    files: dict[str, msgspec.Raw] = {}
    removed: bool = False


def encode_pack(pack: Pack) -> bytes:
    """Return the content of the file of a packed bucket."""
    return zlib.compress(msgspec.json.encode(pack), 1)


def read_pack(files: WholeFiles, name: str) -> Pack:
    """Return a packed bucket.

    Raises:
        OSError: it cannot be read.
        Damaged: it is not that of a packed bucket.
    """
    content = files.read(name) or b""
    try:
        return msgspec.json.decode(zlib.decompress(content), type=Pack)
    except (zlib.error, *UNREADABLE) as error:
        raise _damaged(name, str(error)) from error


def _damaged(name: str, why: str) -> Damaged:
    return Damaged(
        f"{name} in the folder of the queue is damaged ({why}), and with it jobs that ended long "
        "ago: restore it from a backup, or remove the queue"
    )


class Buckets(NamedTuple):
    """The division of numbers into buckets.

    Attributes:
        size: numbers in a bucket; the first one has one less, since numbers begin at 1.
    """

    size: int = BUCKET

    def of(self, number: int) -> int:
        """Return the bucket of a number."""
        return number // self.size

    def numbers(self, bucket: int) -> range:
        """Return the numbers of a bucket."""
        return range(max(bucket * self.size, 1), (bucket + 1) * self.size)


def live_folder(kind: str, bucket: int) -> str:
    """Return the directory of the files of a bucket that is not packed."""
    return f"live/{kind}-{bucket}"


class Sequence:
    """Files with the numbers 1, 2, 3, ... without gaps.

    One process has it, and one thread at a time.

    Attributes:
        kind: the directory, ``jobs`` or ``wishes``.
        spread: the division of its numbers into buckets.
        damaged: sentences on buckets that `follow` has passed over.
    """

    def __init__(
        self, files: WholeFiles, kind: str, spread: Buckets, beside: tuple[str, ...] = ()
    ) -> None:
        """Use a sequence.

        Args:
            files: the files of the queue.
            kind: its directory.
            spread: the division of its numbers into buckets.
            beside: other directories whose buckets are made with its own, before them.
        """
        self.kind = kind
        self.spread = spread
        self._files = files
        self._beside = beside
        self._next = 1  # all below are taken
        self._has_seen_end = False
        self._pack: tuple[int, Pack] | None = None
        self.damaged: dict[str, None] = {}

    def append(self, content: bytes) -> int:
        """Give content the next number, and return it when it is safe on the disk.

        Raises:
            CannotWrite: no number was given.
            NotSynced: one was given, and may be gone after a crash of the host.
        """
        with self._files.prepared(content) as ready:
            number = self.end()
            # Whoever links a number first has it. We may have lost several to others since the
            # look.
            while not self._link(ready, number):
                number += 1
            self._next = number + 1
            return number

    def end(self) -> int:
        """Return the first number that is not given, as far as can be seen."""
        # One look if no other process has appended since, and that by name: it is not a list, which
        # may be old (rule 4 of `grain.queue.files`).
        if self._next == 1 or self._is_taken(self._next):
            self._next = self._search()
        return self._next

    def read(self, number: int) -> bytes | None:
        """Return the content of a number; None if it is not given, as far as can be seen.

        Raises:
            NoSuchJob: it was removed.
            Damaged: it is packed, and the packed file cannot be read.
            OSError: it cannot be read.
        """
        if number < 1:
            return None
        try:
            return self._files.read(self._name(number))
        except NotADirectoryError:
            # A packed bucket is a file in the place of its directory.
            pack = self._packed(self.spread.of(number))
        if pack.removed:
            raise NoSuchJob(f"{number} ended long ago, and its files were removed")
        if str(number) not in pack.files:
            raise _damaged(f"{self.kind}/{self.spread.of(number)}", f"it lacks {number}")
        return bytes(pack.files[str(number)])

    def has(self, number: int) -> bool:
        """Return True if a number is given, also if its content was removed."""
        return number >= 1 and self._is_taken(number)

    def follow(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Yield numbers and their contents from a number on, to the end; removed ones are skipped.

        A file that was lost has no content, and those behind it follow. So do those behind a packed
        file that is damaged, see `damaged`: it keeps no other number from its readers.

        Raises:
            OSError: one cannot be read.
        """
        number = max(number, 1)
        while True:
            try:
                content = self.read(number)
            except (NoSuchJob, Damaged) as error:
                if isinstance(error, Damaged):
                    self.damaged[str(error)] = None
                number = self.spread.numbers(self.spread.of(number)).stop
                continue
            if content is None:
                # Only who begins to read meets one that was lost long ago.
                if self._has_seen_end or not self._is_lost(number):
                    self._has_seen_end = True
                    return
                content = b""
            yield number, content
            number += 1

    def _is_lost(self, number: int) -> bool:
        """Return True if a number was given, though it is not found: later ones have been there.

        A name may be seen before an earlier one, so that counts only after a while.
        """
        bucket = self.spread.of(number)
        later = [self._name(name) for name in self._names(bucket) if name > number]
        # All of another bucket came after it, and also its packed file.
        for other in (one for one in self.listed_buckets() if one > bucket):
            later += [self._name(self.spread.numbers(other).start), f"{self.kind}/{other}"]
        for name in later:
            with suppress(OSError):
                return self._files.disk.age(name) > LATE
        return False

    def _names(self, bucket: int) -> list[int]:
        """Return the numbers of a bucket that a list shows."""
        try:
            names = self._files.disk.list(f"{self.kind}/{bucket}")
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [int(name) for name in names if name.isdigit()]

    def listed_buckets(self) -> list[int]:
        """Return the buckets that a list of the directory shows, ascending."""
        return sorted(int(name) for name in self._files.disk.list(self.kind) if name.isdigit())

    def _name(self, number: int) -> str:
        return f"{self.kind}/{self.spread.of(number)}/{number}"

    def _packed(self, bucket: int) -> Pack:
        if self._pack is None or self._pack[0] != bucket:
            # As readers go through the numbers in their order, the last one is enough.
            self._pack = (bucket, read_pack(self._files, f"{self.kind}/{bucket}"))
        return self._pack[1]

    def _is_taken(self, number: int) -> bool:
        try:
            return self._files.disk.exists(self._name(number))
        except NotADirectoryError:
            return True  # only a full bucket is packed

    def _search(self) -> int:
        # The list may be old, and then we go on from there.
        bucket = max([self.spread.of(self._next), *self.listed_buckets()])
        while True:
            numbers = self.spread.numbers(bucket)
            # A number is given only when the one before it is, so those of a bucket are taken up to
            # some place: halving finds it without a list.
            low, high = numbers.start, numbers.stop
            while low < high:
                middle = (low + high) // 2
                if self._is_taken(middle):
                    low = middle + 1
                else:
                    high = middle
            # A file that was lost leaves a gap, and no number is given twice.
            low = max(low, *(number + 1 for number in self._names(bucket)), numbers.start)
            if low < numbers.stop:
                return low
            bucket += 1

    def _link(self, ready: str, number: int) -> bool:
        bucket = self.spread.of(number)
        # Whoever has linked another number of this bucket has done it before.
        if number == self.spread.numbers(bucket).start:
            self._make_bucket(bucket)
        try:
            return self._files.link(ready, self._name(number))
        except NotADirectoryError:
            return False
        except FileNotFoundError as error:
            raise CannotWrite(
                f"{self._name(number)} in the folder of the queue has lost its directory or its "
                "content: was something removed there?",
                error.errno or 0,
            ) from error

    def _make_bucket(self, bucket: int) -> None:
        disk = self._files.disk
        try:
            if bucket:
                # Another process may have made the last number of it without a sync so far. If it
                # were lost in a crash, and ours were not, there would be a gap.
                try:
                    disk.sync(f"{self.kind}/{bucket - 1}")
                except NotADirectoryError:
                    pass  # packed
            # The own one last: who finds it can use those beside it. And each gets its name when it
            # is there and on the disk, so that no name leads nowhere.
            for kind in (*self._beside, self.kind):
                self._files.make_folder(live_folder(kind, bucket))
                disk.sync("live")
                try:
                    disk.point(f"../{live_folder(kind, bucket)}", f"{kind}/{bucket}")
                except FileExistsError:
                    pass
                disk.sync(kind)
        except OSError as error:
            raise CannotWrite(
                f"{error.strerror} (bucket {bucket} of {self.kind})", error.errno or 0
            ) from error
