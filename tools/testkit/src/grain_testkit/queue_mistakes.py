"""Deliberate mistakes in the files of a queue, each of which the laws have to find."""

# ruff: noqa: N801 - named as what they replace

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from grain.queue import packing
from grain.queue.files import WholeFiles
from grain.queue.folder import Queue, receipt_name
from grain.queue.sequence import Pack, Sequence, encode_pack
from grain_testkit.queue_disk import Host
from grain_testkit.queue_world import Kit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from grain.queue.book import Book
    from grain.queue.records import Begun, Ended, QueueFormat


class NoDirectorySync(Kit):
    """A number is printed before its name is on the disk."""

    class files(WholeFiles):
        def sync(self, folder: str, made: str) -> None:
            pass


class NoFileSync(Kit):
    """A file gets its name before its content is on the disk."""

    class host(Host):
        def create(self, name: str, content: bytes, mode: int = 0o600) -> None:
            super().create(name, content)
            self.server.nodes[self._find(name)].synced = False


class NumberFromListing(Kit):
    """A number is one more than the last in a list of the directory."""

    class queue(Queue):
        def __init__(self, files: WholeFiles, format_: QueueFormat, folder: Path) -> None:
            super().__init__(files, format_, folder)
            self.jobs = _Listed(files, "jobs", self.buckets, beside=("attempts",))


class _Listed(Sequence):
    def append(self, content: bytes) -> int:
        files = self._files
        number = self.end()
        bucket = self.spread.of(number)
        self._make_bucket(bucket)
        names = files.disk.list(f"{self.kind}/{bucket}")
        number = max([self.spread.numbers(bucket).start - 1, *map(int, names)]) + 1
        files.replace(f"{self.kind}/{bucket}/{number}", content)
        return number


class BegunInPlace(Kit):
    """The receipt of a begin is written under its final name."""

    class queue(Queue):
        def begin(
            self,
            number: int,
            task: int | None,
            attempt: int,
            begun: Begun,
            *,
            settled: bool = False,
        ) -> bool:
            del settled
            name = (
                f"attempts/{self.buckets.of(number)}/{receipt_name(number, task, attempt, 'begun')}"
            )
            try:
                if self._may_begin(number, task, attempt):
                    self.files.disk.create(name, msgspec.json.encode(begun))
                    return True
            except OSError:
                pass
            return False


class EndedOverwritten(Kit):
    """The last of two ends counts."""

    class queue(Queue):
        def end(self, number: int, task: int | None, attempt: int, ended: Ended) -> bool:
            name = (
                f"attempts/{self.buckets.of(number)}/{receipt_name(number, task, attempt, 'ended')}"
            )
            self.files.replace(name, msgspec.json.encode(ended))
            return True


class NextWithoutEnd(Kit):
    """An attempt begins though the one before has not ended."""

    class queue(Queue):
        def begin(
            self,
            number: int,
            task: int | None,
            attempt: int,
            begun: Begun,
            *,
            settled: bool = False,
        ) -> bool:
            del settled
            while self.begun(number, task, attempt):
                attempt += 1
            return super().begin(number, task, attempt, begun)

        def _may_begin(self, number: int, task: int | None, attempt: int) -> bool:
            return True


class CancelByWish(Kit):
    """A cancellation is said to be final, and is only asked for."""

    class queue(Queue):
        def cancel_waiting(
            self, number: int, tasks: Iterable[tuple[int | None, int]], begun: Begun
        ) -> list[tuple[int | None, int]]:
            return list(tasks)


class OwnLinkNotKnown(Kit):
    """A link whose reply was lost is taken for that of another process."""

    class files(WholeFiles):
        def _is_ours(self, ready: str, name: str) -> bool:
            return False


class JobNotSafeAtBegin(Kit):
    """A receipt is safe before the job that it is for."""

    class queue(Queue):
        def _make_safe(self, number: int, *, after_attempt: bool) -> None:
            pass


class BucketNotSafe(Kit):
    """The first number of a bucket is safe before the last one of the bucket before."""

    class queue(Queue):
        def __init__(self, files: WholeFiles, format_: QueueFormat, folder: Path) -> None:
            super().__init__(files, format_, folder)
            self.jobs = _Hasty(files, "jobs", self.buckets, beside=("attempts",))


class _Hasty(Sequence):
    def _make_bucket(self, bucket: int) -> None:
        before = self._files.disk
        self._files.disk = _NoSync(before.server)  # type: ignore[attr-defined]
        try:
            super()._make_bucket(bucket)
        finally:
            self._files.disk = before


class _NoSync(Host):
    def sync(self, folder: str) -> None:
        if not folder.startswith("jobs/"):
            super().sync(folder)


class RemovedBeforePacked(Kit):
    """The directory of a bucket goes before the packed file is there."""

    def keep_house(self, book: Book) -> None:
        queue = book.queue
        for bucket in sorted({queue.buckets.of(number) for number in book.entries}):
            if packing._may_pack(book, bucket):
                for kind in ("jobs", "attempts"):
                    folder = f"live/{kind}-{bucket}"
                    names = queue.files.disk.list(folder)
                    content = {
                        name: msgspec.Raw(queue.files.disk.read(f"{folder}/{name}"))
                        for name in names
                    }
                    for name in names:
                        queue.files.disk.remove(f"{folder}/{name}")
                    pack = encode_pack(Pack(files=content))
                    queue.files.replace(f"{kind}/{bucket}", pack)
                book.forget(bucket)


class ClearedAtOnce(Kit):
    """The directory of a bucket goes as soon as the packed file is there; ``incoming`` stays."""

    def keep_house(self, book: Book) -> None:
        queue = book.queue
        for bucket in sorted({queue.buckets.of(number) for number in book.entries}):
            if packing._may_pack(book, bucket):
                packing.pack_bucket(queue, bucket, book.entries.values())
                book.forget(bucket)
                for file in queue.files.disk.list(f"live/jobs-{bucket}"):
                    queue.files.disk.remove(f"live/jobs-{bucket}/{file}")


class PackedEarly(Kit):
    """A bucket is packed by a list of its files, which may be old."""

    def keep_house(self, book: Book) -> None:
        queue = book.queue
        for bucket in range(queue.buckets.of(book.next_job)):
            for kind in ("jobs", "attempts"):
                if not queue.files.disk.is_file(f"{kind}/{bucket}"):
                    names = queue.files.disk.list(f"{kind}/{bucket}")
                    packing._pack(queue, kind, bucket, names)


MISTAKES: tuple[type[Kit], ...] = (
    NoDirectorySync,
    NoFileSync,
    NumberFromListing,
    BegunInPlace,
    EndedOverwritten,
    NextWithoutEnd,
    CancelByWish,
    OwnLinkNotKnown,
    JobNotSafeAtBegin,
    BucketNotSafe,
    RemovedBeforePacked,
    ClearedAtOnce,
    PackedEarly,
)
