"""Packing of buckets whose jobs ended long ago, and removal of old ones; for a dispatcher.

Order and time matter, since other processes may have slept, and see old names for 60 seconds:

1. The packed file replaces the link to the directory, by one rename.
2. An hour later the directory goes. A name that is linked into it before that is refused, since
   every number in it is taken; afterwards, no host takes the name for a directory.
3. After 30 days an empty packed file replaces it, so that its numbers are not given again.

A receipt that comes later is refused as well. That no task of the bucket may run again is certain
by time: `grain.queue.folder.SETTLED_AFTER` is before `PACKED_AFTER`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from grain.queue.errors import Damaged, QueueError
from grain.queue.folder import PACKED_AFTER, decode_job, decode_wish, receipt_name
from grain.queue.notes.steps import forget_steps
from grain.queue.records import UNREADABLE
from grain.queue.sequence import Pack, encode_pack, live_folder, read_pack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.queue.book import Book, Entry
    from grain.queue.folder import Queue

CLEARED_AFTER = 3600.0
"""Seconds between the packed file of a bucket and the removal of its directory."""

FORGOTTEN_AFTER = 30 * 86400.0
"""Seconds for which packed jobs are kept."""

BLOBS_KEPT = 40 * 86400.0
"""Seconds for which a file in ``blobs`` is kept though no job needs it."""


def keep_house(book: Book) -> None:
    """Pack, clear and remove what is old enough; call it every hour or so, after a refresh.

    It may be killed at any time, and two may do it at once.

    Raises:
        CannotWrite: the disk is full; nothing is lost.
        QueueError: a file cannot be understood.
        OSError: a file cannot be read.
    """
    queue = book.queue
    queue.files.clean()
    for bucket in sorted({queue.buckets.of(number) for number in book.entries}):
        if _may_pack(book, bucket):
            pack_bucket(queue, bucket, book.entries.values())
            book.forget(bucket)
    # Full ones only: wishes still come to the last one.
    for bucket in range(queue.buckets.of(book.next_wish)):
        if not _is_packed(queue, "wishes", bucket) and _age(queue, "wishes", bucket) > PACKED_AFTER:
            names = [str(number) for number in queue.buckets.numbers(bucket)]
            _pack(queue, "wishes", bucket, names)
    for kind in ("jobs", "attempts", "wishes"):
        for name in queue.files.disk.list("live"):
            if name.startswith(f"{kind}-") and name[len(kind) + 1 :].isdigit():
                clear_bucket(queue, kind, int(name[len(kind) + 1 :]))
    forget_old(book)
    sweep_blobs(queue)


def pack_bucket(queue: Queue, bucket: int, entries: Iterable[Entry]) -> None:
    """Pack the jobs of a bucket and their receipts.

    Args:
        queue: the queue.
        bucket: a full one, all of whose jobs have ended.
        entries: its jobs, and possibly others.

    Raises:
        CannotWrite: it is not packed, or only one half of it; call it again.
        OSError: a file of it cannot be read, and it stays as it was.
    """
    receipts: list[str] = []
    for entry in entries:
        if queue.buckets.of(entry.number) != bucket:
            continue
        for task, runs in entry.runs.items():
            for run in runs:
                receipts.append(receipt_name(entry.number, task, run.attempt, "begun"))
                # That of a cancelled one is its end as well.
                if run.how != "cancelled" or queue.ended(entry.number, task, run.attempt):
                    receipts.append(receipt_name(entry.number, task, run.attempt, "ended"))
    numbers = [str(number) for number in queue.buckets.numbers(bucket)]
    # Jobs first: a bucket counts as packed once its receipts are, so one that is packed by half
    # still counts as open.
    if not _is_packed(queue, "jobs", bucket):
        _pack(queue, "jobs", bucket, numbers)
    if not _is_packed(queue, "attempts", bucket):
        # One that came since would go with the directory.
        more = set(queue.receipt_names(bucket)) - set(receipts)
        if more:
            raise OSError(0, f"bucket {bucket} has receipts that were not read: {min(more)}")
        _pack(queue, "attempts", bucket, receipts)


def clear_bucket(queue: Queue, kind: str, bucket: int) -> None:
    """Remove the directory of a bucket that has been packed for `CLEARED_AFTER`.

    Raises:
        OSError: it cannot be removed.
    """
    if not _is_packed(queue, kind, bucket):
        return
    disk = queue.files.disk
    folder = live_folder(kind, bucket)
    # The packed file was written before it got its name, so its time does not tell when that was.
    mark = f"{folder}.packed"
    with suppress(FileExistsError):
        disk.create(mark, b"")
    if disk.age(mark) < CLEARED_AFTER:
        return
    # The dispatcher that packed it may have been killed before it could sync the new name.
    disk.sync(kind)
    with suppress(FileNotFoundError):  # two dispatchers do it
        for name in disk.list(folder):
            with suppress(FileNotFoundError):
                disk.remove(f"{folder}/{name}")
        disk.remove_folder(folder)
    with suppress(FileNotFoundError):
        disk.remove(mark)


def forget_old(book: Book) -> None:
    """Remove the content of packed buckets that are old, and that no job waits for.

    Raises:
        CannotWrite: it is not removed.
        OSError, QueueError: a file cannot be read.
    """
    queue = book.queue
    # How these ended decides whether jobs that wait for them may begin.
    needed = {
        queue.buckets.of(number)
        for entry in book.open_entries()
        for dependency in entry.job.after
        for number in dependency.jobs
    }
    gone = encode_pack(Pack(removed=True))
    for bucket in queue.jobs.listed_buckets():
        both = all(_is_packed(queue, kind, bucket) for kind in ("jobs", "attempts"))
        if both and bucket not in needed:
            for kind in ("jobs", "attempts"):
                _forget(queue, kind, bucket, gone)
    first = min(book.entries, default=book.next_job)
    for bucket in queue.wishes.listed_buckets():
        if _is_packed(queue, "wishes", bucket) and _age(queue, "wishes", bucket) > FORGOTTEN_AFTER:
            try:
                packed = read_pack(queue.files, f"wishes/{bucket}").files.values()
            except Damaged:
                continue
            if all(last < first for raw in packed for _, last in _jobs_of(bytes(raw))):
                _forget(queue, "wishes", bucket, gone)


def _jobs_of(wish: bytes) -> tuple[tuple[int, int], ...]:
    try:
        return decode_wish(wish).jobs
    except QueueError:  # for no job
        return ()


def sweep_blobs(queue: Queue) -> None:
    """Remove scripts and standard inputs that no job has needed for long.

    Raises:
        OSError, QueueError: a job cannot be read.
    """
    disk = queue.files.disk
    old = [name for name in disk.list("blobs") if disk.age(f"blobs/{name}") > BLOBS_KEPT]
    if not old:
        return
    needed = set[str]()
    for _, content in queue.jobs.follow(1):
        job = decode_job(content)
        needed |= {job.script_blob, job.stdin_blob, job.inputs_blob}
    if queue.jobs.damaged:  # its jobs may need any
        return
    for name in old:
        # Its age once more: a job that was submitted meanwhile has touched it, and was not listed.
        if name not in needed and disk.age(f"blobs/{name}") > BLOBS_KEPT:
            with suppress(FileNotFoundError):
                disk.remove(f"blobs/{name}")


def _may_pack(book: Book, bucket: int) -> bool:
    if bucket >= book.queue.buckets.of(book.next_job):
        return False  # not full
    numbers = book.queue.buckets.numbers(bucket)
    return (
        all(number in book.entries and book.entries[number].is_final for number in numbers)
        and _age(book.queue, "attempts", bucket) > PACKED_AFTER
    )


def _pack(queue: Queue, kind: str, bucket: int, names: list[str]) -> None:
    # One that is missing ends it: a bucket is packed whole, or not.
    disk = queue.files.disk
    folder = live_folder(kind, bucket)
    disk.sync(folder)
    content = {name: _as_json(queue.files.content(f"{folder}/{name}")) for name in names}
    queue.files.replace(f"{kind}/{bucket}", encode_pack(Pack(files=content)))


def _as_json(content: bytes) -> msgspec.Raw:
    """Return the content of a file for a pack; what is broken becomes a text, not a record.

    As it is, it would make the whole pack unreadable.
    """
    try:
        msgspec.json.decode(content)
    except UNREADABLE:
        content = msgspec.json.encode(content.decode(errors="replace"))
    return msgspec.Raw(content)


def _forget(queue: Queue, kind: str, bucket: int, gone: bytes) -> None:
    name = f"{kind}/{bucket}"
    if _age(queue, kind, bucket) <= FORGOTTEN_AFTER:
        return
    with suppress(Damaged):
        if read_pack(queue.files, name).removed:
            return
    queue.files.replace(name, gone)
    if kind == "attempts":
        forget_steps(queue, bucket)


def _is_packed(queue: Queue, kind: str, bucket: int) -> bool:
    return queue.files.disk.is_file(f"{kind}/{bucket}")


def _age(queue: Queue, kind: str, bucket: int) -> float:
    """Return the seconds since a bucket got a file, or was packed."""
    return queue.files.disk.age(f"{kind}/{bucket}")
