"""The queue: jobs, wishes and receipts in files, for whoever submits, asks, dispatches or works."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from grain.eventlog.files import open_plain
from grain.eventlog.names import state_folder
from grain.files.trust import check_private, private_folder
from grain.files.whole import FULL
from grain.queue import patterns
from grain.queue.arrays import has_task
from grain.queue.errors import (
    BadInput,
    CannotWrite,
    NoSuchJob,
    NotSynced,
    QueueError,
    Settled,
    Uncertain,
    Unusable,
)
from grain.queue.files import INCOMING, LocalDisk, WholeFiles
from grain.queue.records import (
    UNREADABLE,
    VERSION,
    Begun,
    Ended,
    Job,
    QueueFormat,
    TaskInput,
    Wish,
    encode_record,
)
from grain.queue.sequence import BUCKET, Buckets, Pack, Sequence, read_pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from grain.queue.records import Dependency

DEFAULT = "queue"
"""The name of the queue that commands use by default."""

LARGEST_INLINE = 64_000
"""Bytes of a script that its job contains; another one is a file in ``blobs``."""

PACKED_AFTER = 2 * 86400.0
"""Seconds without a receipt after which a full bucket is packed."""

SETTLED_AFTER = PACKED_AFTER - 1800.0
"""Seconds after which no job of a full bucket can run again.

It is before the bucket is packed, so that whoever packs it has read all wishes that count.
"""

_Record = TypeVar("_Record", Job, Wish, Begun, Ended)
_UNREADABLE = "unreadable"  # an option, with the reason
_FOLDERS = (INCOMING, "jobs", "wishes", "attempts", "live", "blobs", "dispatchers")
_NAME = r"(?a)[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_RECEIPT = re.compile(r"(\d+)(?:_(\d+))?\.(\d+)\.(begun|ended)", re.ASCII)

_ELSEWHERE = "set XDG_STATE_HOME to a directory that you may write to"


class ReceiptName(NamedTuple):
    """The name of a receipt, in its parts.

    Attributes:
        job: the job's number.
        task: that of the task; None if the job is not an array.
        attempt: from 1.
        ended: True for the receipt of the end.
    """

    job: int
    task: int | None
    attempt: int
    ended: bool

    def __str__(self) -> str:
        """Return the name of the file."""
        return receipt_name(self.job, self.task, self.attempt, "ended" if self.ended else "begun")


def receipt_name(job: int, task: int | None, attempt: int, kind: str) -> str:
    """Return the name of the file of a receipt, ``begun`` or ``ended``, in its bucket."""
    return f"{job}.{attempt}.{kind}" if task is None else f"{job}_{task}.{attempt}.{kind}"


def parse_receipt(name: str) -> ReceiptName | None:
    """Return the parts of the name of a receipt; None if it is none."""
    match = _RECEIPT.fullmatch(name)
    if match is None:
        return None
    task = None if match[2] is None else int(match[2])
    return ReceiptName(int(match[1]), task, int(match[3]), match[4] == "ended")


def queue_folder(name: str = DEFAULT, env: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of a queue, ``$XDG_STATE_HOME/grain/queues/NAME``.

    Raises:
        BadInput: the name cannot be that of a queue.
        RuntimeError: the user has no home directory.
    """
    if not re.fullmatch(_NAME, name):
        raise BadInput(
            f"{name!r} cannot be the name of a queue: it is made of letters, digits, dots, _ and "
            "-, begins with a letter or a digit, and has at most 64 characters"
        )
    return state_folder(env) / "queues" / name


def read_format(files: WholeFiles, folder: str) -> QueueFormat | None:
    """Return the format of a queue; None if it is not made yet.

    Raises:
        Unusable: it has another version, or cannot be read.
    """
    try:
        content = files.read("format")
    except OSError as error:
        raise Unusable(f"the queue in {folder} cannot be read: {error.strerror}") from error
    if content is None:
        return None
    try:
        found = msgspec.json.decode(content, type=QueueFormat)
    except UNREADABLE as error:
        raise Unusable(f"{folder}/format is not that of a queue: {error}") from error
    if found.version != VERSION:
        raise Unusable(
            f"the queue in {folder} has version {found.version} of the format, and this Grain has "
            f"{VERSION}: use the same Grain on all hosts, or another queue"
        )
    return found


def make_format(files: WholeFiles, folder: str, bucket: int = BUCKET) -> QueueFormat:
    """Make the directories of a queue and its format; of several processes that do so, one wins.

    Args:
        files: the files of the queue.
        folder: its directory, for messages.
        bucket: numbers in a bucket.

    Raises:
        Unusable: the file system has no hard links.
        CannotWrite: something cannot be written.
    """
    for name in _FOLDERS:
        files.make_folder(name)
    files.sync("", "format")  # the directories first: with the format, the queue is whole
    mine = QueueFormat(version=VERSION, mission=os.urandom(8).hex(), bucket=bucket)
    files.link_whole("format", encode_record(mine))
    # Whoever made it: it is used only when it is safe.
    files.sync("", "format")
    found = read_format(files, folder)
    if found is None:  # another one has made it, and we have looked for it less than a minute ago
        raise Unusable(f"the queue in {folder} was made by another process just now: try again")
    return found


class AttemptReceipts(NamedTuple):
    """The receipts of an attempt.

    Attributes:
        number: from 1.
        begun: that of its begin.
        ended: that of its end; None while it runs.
    """

    number: int
    begun: Begun
    ended: Ended | None


class Queue:
    """A queue, for one thread of one process.

    All calls block, for some milliseconds each on a network's file system. Any of them may be
    killed at any time. They raise OSError if a file cannot be read.

    Attributes:
        files: its files.
        format: its file ``format``.
        mission: the id of its mission, which all of its dispatchers use.
        folder: its directory.
        name: its name.
        buckets: the division of numbers of jobs and wishes into buckets.
        jobs: the sequence of jobs.
        wishes: the sequence of wishes.
    """

    @classmethod
    def open(cls, folder: Path, *, make: bool = False) -> Queue:
        """Return the queue in a directory, as `queue_folder` names it.

        Nothing stays open, so there is nothing to close.

        Args:
            folder: its directory.
            make: True to make it if it is not there.

        Raises:
            Unusable: it is not there, another user could change it, it has another version, or the
                file system has no hard links.
            CannotWrite: it cannot be made.
        """
        missing = Unusable(f"there is no queue in {folder}: grain submit makes it")
        try:
            if make:
                private_folder(folder)
            elif folder.exists():
                check_private(folder)
            else:
                raise missing
        except OSError as error:
            # What is wrong above it is wrong for each queue.
            if error.errno in FULL:
                raise CannotWrite(
                    f"{folder} cannot be made: {error.strerror}", error.errno
                ) from error
            own = os.access(folder.parent, os.W_OK)
            other = "choose another queue by --queue NAME" if own else _ELSEWHERE
            raise Unusable(
                f"{folder} cannot be a queue: {error.strerror}; repair that, or {other}"
            ) from error
        files = WholeFiles(LocalDisk(folder))
        format_ = read_format(files, str(folder))
        if format_ is None:
            if not make:
                raise missing
            # The names of the folders have to survive a crash as well: jobs are promises.
            for above in (folder.parent, folder.parent.parent):
                with suppress(OSError):  # that of another program, which may not be readable
                    LocalDisk(above).sync("")
            format_ = make_format(files, str(folder))
        return cls(files, format_, folder)

    def __init__(self, files: WholeFiles, format_: QueueFormat, folder: Path) -> None:
        """Use a queue that was opened; see `open`."""
        self.files = files
        self.format = format_
        self.mission = format_.mission
        self.folder = folder
        self.name = folder.name
        self.buckets = Buckets(format_.bucket)
        self.jobs = Sequence(files, "jobs", self.buckets, beside=("attempts",))
        self.wishes = Sequence(files, "wishes", self.buckets)
        self._pack: tuple[int, Pack] | None = None

    # Submitting.

    def submit(self, job: Job, stdin: bytes = b"", inputs: bytes = b"") -> int:
        """Submit a job, and return its number: from now on it is a promise.

        Args:
            job: a long script goes to ``blobs`` by itself.
            stdin: its standard input.
            inputs: those of the tasks of an array, a line of `TaskInput` for each from task 1 on;
                a line may be empty for a number that the array lacks.

        Raises:
            BadInput: it depends on a job that there is not, or has text that is not UTF-8 or
                cannot be given to a program.
            CannotWrite: no job was submitted, and no number was given.
            Uncertain: it may have been submitted.
            NotSynced: it was submitted, but may be lost if the host crashes now.
        """
        # Only jobs that have a number already: so none can wait for each other in a circle.
        self._check_dependencies(job.after)
        blobs: list[bytes] = []
        try:
            if job.script and not _is_inline(script := _script(job)):
                job = msgspec.structs.replace(job, script="", script_blob=_digest(script))
                blobs.append(script)
            if stdin:
                job = msgspec.structs.replace(job, stdin_blob=_digest(stdin))
                blobs.append(stdin)
            if inputs:
                job = msgspec.structs.replace(job, inputs_blob=_digest(inputs))
                blobs.append(inputs)
            content = encode_job(job)
            # First what the job refers to, and then the job: whoever sees it can run it.
            for blob in blobs:
                self._keep_blob(blob)
            number = self.jobs.append(content)
        except (NotSynced, Uncertain):
            raise
        except CannotWrite as error:
            raise CannotWrite(
                f"no job was submitted, and no number was given: {error}", error.errno
            ) from error
        for blob in blobs:
            # It may have been removed while we slept, as one that no job had needed for long.
            if not self.files.disk.exists(f"blobs/{_digest(blob)}"):
                try:
                    self._keep_blob(blob)
                except CannotWrite as error:
                    raise NotSynced(str(error), error.errno, f"jobs/{number}") from error
        return number

    def _check_dependencies(self, after: Iterable[Dependency]) -> None:
        for dependency in after:
            for number in dependency.jobs:
                self._check_dependency(number, dependency.task)

    def _check_dependency(self, number: int, task: int | None) -> None:
        if number < 1 or not self.jobs.has(number):
            raise BadInput(f"there is no job {number} to wait for")
        if task is not None:
            array = self.job(number).array
            if array is None or not has_task(array, task):
                raise BadInput(f"job {number} has no task {task} to wait for")

    def _keep_blob(self, content: bytes) -> None:
        name = f"blobs/{_digest(content)}"
        try:
            # It may be there, of an earlier job. The touch keeps it from being removed as one that
            # no job has needed for long.
            self.files.disk.touch(name)
        except FileNotFoundError:
            if not self.files.link_whole(name, content, mode=0o700):
                with suppress(OSError):  # another one makes it at this moment
                    self.files.disk.touch(name)
        except OSError as error:
            raise CannotWrite(f"{error.strerror} ({name})", error.errno or 0) from error
        # Whoever made it may not have synced it yet.
        self.files.sync("blobs", name)

    def script(self, job: Job) -> Path | None:
        """Return the path of a job's script, as an executable file; None if it has none.

        Raises:
            CannotWrite: a short script cannot be written to a file.
        """
        if job.script_blob:
            return self.folder / "blobs" / job.script_blob
        if not job.script:
            return None
        script = _script(job)
        try:
            self._keep_blob(script)
        except NotSynced as error:  # nothing has happened that others could see
            raise CannotWrite(str(error), error.errno) from error
        return self.folder / "blobs" / _digest(script)

    def inputs(self, job: Job) -> Iterator[tuple[int, TaskInput]]:
        """Yield the tasks of a job that have inputs, ascending, and these.

        Raises:
            OSError: the inputs cannot be read.
            QueueError: they are not inputs.
        """
        if not job.inputs_blob:
            return
        try:
            with open_plain(self.folder / "blobs" / job.inputs_blob) as lines:
                for task, line in enumerate(lines, 1):
                    if not line.isspace():
                        yield task, TaskInput.of(line)
        except ValueError as error:
            raise QueueError(f"the inputs of the job cannot be read: {error}") from error

    def input(self, job: Job, task: int | None) -> TaskInput | None:
        """Return the input of a task; None for a job without inputs.

        Raises:
            OSError: the inputs cannot be read.
            QueueError: the task has none.
        """
        if not job.inputs_blob or task is None:
            return None
        with open_plain(self.folder / "blobs" / job.inputs_blob) as lines:
            line = next(islice(lines, task - 1, None), b"")
        try:
            return TaskInput.of(line)
        except ValueError as error:
            raise QueueError(f"the input of task {task} cannot be read: {error}") from error

    def stdin(self, job: Job, facts: patterns.Facts) -> Path | None:
        """Return the path of the standard input of an attempt; None if it has none."""
        if job.stdin_blob:
            return self.folder / "blobs" / job.stdin_blob
        return patterns.path(job.stdin, facts, job.directory) if job.stdin else None

    # Reading.

    def job(self, number: int) -> Job:
        """Return a job.

        Raises:
            NoSuchJob: the number is not given, as far as can be seen, or the job was removed.
        """
        content = self.jobs.read(number)
        if content is None:
            raise NoSuchJob(f"there is no job {number}")
        return decode_job(content)

    def jobs_from(self, number: int) -> Iterator[tuple[int, Job]]:
        """Yield jobs and their numbers, from a number on.

        One that this Grain cannot read is on hold, see `is_unreadable`: it is not lost, and those
        after it are read.
        """
        for found, content in self.jobs.follow(number):
            try:
                job = decode_job(content)
            except QueueError as error:
                job = Job(
                    name="(unreadable)",
                    at=0.0,
                    host="",
                    user="",
                    directory="/",
                    held=True,
                    options={_UNREADABLE: str(error)},
                )
            yield found, job

    def wishes_from(self, number: int) -> Iterator[tuple[int, Wish]]:
        """Yield wishes and their numbers, from a number on.

        One that this Grain cannot read is a wish for no job.
        """
        for found, content in self.wishes.follow(number):
            try:
                wish = decode_wish(content)
            except QueueError:
                # Not an error: those after it would then never be read.
                wish = Wish(what="signal", jobs=())
            yield found, wish

    def begun(self, number: int, task: int | None, attempt: int) -> Begun | None:
        """Return the receipt that an attempt has begun; None if there is none so far.

        If this Grain cannot read it, an unknown process on an unknown host has begun it.
        """
        content = self._receipt(number, receipt_name(number, task, attempt, "begun"))
        try:
            return None if content is None else _decode(content, Begun, "a receipt")
        except QueueError:
            # It was made, so the attempt is taken: as a missing one, the task would run twice.
            return Begun(at=0.0, host="")

    def ended(self, number: int, task: int | None, attempt: int) -> Ended | None:
        """Return the receipt that an attempt has ended; None if there is none so far.

        If this Grain cannot read it, the attempt has failed.
        """
        content = self._receipt(number, receipt_name(number, task, attempt, "ended"))
        try:
            return None if content is None else _decode(content, Ended, "the receipt of its end")
        except QueueError as error:
            # Its program is over: as a missing one, its end would be waited for without end.
            return Ended(how="start", at=0.0, status=127, message=str(error))

    def attempts(self, number: int, task: int | None = None) -> list[AttemptReceipts]:
        """Return the receipts of all attempts of a task, by opening one after the other."""
        # By name, as a list may be a minute old. Attempts have no gaps.
        found: list[AttemptReceipts] = []
        while begun := self.begun(number, task, len(found) + 1):
            ended = None if begun.cancelled else self.ended(number, task, len(found) + 1)
            found.append(AttemptReceipts(len(found) + 1, begun, ended))
            if ended is None and not begun.cancelled:
                break
        return found

    def receipt_names(self, bucket: int) -> list[str]:
        """Return the names of receipts of a bucket of jobs, from a list that may be old."""
        try:
            return self.files.disk.list(f"attempts/{bucket}")
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            return list(self._packed(bucket).files)

    def is_packed(self, number: int) -> bool:
        """Return True if the receipts of a job are packed, so that nothing of it can change."""
        return self.files.disk.is_file(f"attempts/{self.buckets.of(number)}")

    def _receipt(self, number: int, name: str) -> bytes | None:
        try:
            return self.files.read(f"attempts/{self.buckets.of(number)}/{name}")
        except NotADirectoryError:
            pack = self._packed(self.buckets.of(number))
        if pack.removed:
            raise NoSuchJob(f"job {number} ended long ago, and its files were removed")
        raw = pack.files.get(name)
        return None if raw is None else bytes(raw)

    def _packed(self, bucket: int) -> Pack:
        if self._pack is None or self._pack[0] != bucket:
            # The last one is enough: readers go through the jobs in their order.
            self._pack = (bucket, read_pack(self.files, f"attempts/{bucket}"))
        return self._pack[1]

    # Asking.

    def wish(self, wish: Wish) -> int:
        """Ask something of jobs, and return the number of the wish when it is safe on the disk.

        A cancellation of tasks that wait is final only by `cancel_waiting`, after this.

        Args:
            wish: its ranges are cut at the last job that there is.

        Raises:
            NoSuchJob: there is none of its jobs, as far as can be seen.
            BadInput: ``"update"`` has a job wait for one that there is not, or that was submitted
                after it.
            Settled: ``"again"`` for a job that ended so long ago that it is packed, or soon will
                be; submit it as a new one.
            CannotWrite: nothing was asked.
        """
        last = self.jobs.end() - 1
        if all(first > last for first, _ in wish.jobs):
            raise NoSuchJob("there are no such jobs")
        # It is for jobs that there are: later ones do not fall into its range.
        wish = msgspec.structs.replace(
            wish,
            jobs=tuple((first, min(end, last)) for first, end in wish.jobs if first <= last),
        )
        after = wish.update.after if wish.update is not None else None
        if after:
            newest = max(number for dependency in after for number in dependency.jobs)
            if newest >= (least := min(first for first, _ in wish.jobs)):
                raise BadInput(f"job {least} cannot wait for job {newest}, which is not before it")
            self._check_dependencies(after)
        # Those that are packed, or may be packed at any moment, are read by no dispatcher any more.
        if wish.what == "again":
            self._check_settled(wish)
        number = self.wishes.append(encode_record(wish))
        if wish.what == "again":
            # Once more: we may have slept, and then the wish may not have been read.
            self._check_settled(wish)
        return number

    def _check_settled(self, wish: Wish) -> None:
        buckets = {
            bucket
            for first, last in wish.jobs
            for bucket in range(self.buckets.of(first), self.buckets.of(last) + 1)
        }
        open_bucket = self.buckets.of(self.jobs.end())
        for bucket in sorted(buckets):
            numbers = self.buckets.numbers(bucket)
            if bucket < open_bucket and (
                self.is_packed(numbers.start)
                or self.files.disk.age(f"attempts/{bucket}") >= SETTLED_AFTER
            ):
                raise Settled(
                    f"jobs {numbers.start} to {numbers.stop - 1} ended days ago, so they do not "
                    "run again: submit them as new jobs"
                )

    def cancel_waiting(
        self, number: int, tasks: Iterable[tuple[int | None, int]], begun: Begun
    ) -> list[tuple[int | None, int]]:
        """Cancel tasks of a job that wait; those that are returned never begin.

        Args:
            number: the job's.
            tasks: each task, None for a job that is not an array, with the attempt that is next.
            begun: the receipt, with ``cancelled``.

        Returns:
            The tasks and attempts that are cancelled now; others have begun, were cancelled by
            another one, or their last attempt has not ended.

        Raises:
            CannotWrite: none was cancelled, or only some: call it again.
            NotSynced: they may wait again after a crash of the host.
        """
        assert begun.cancelled
        folder = f"attempts/{self.buckets.of(number)}"
        content = encode_record(begun)
        made: list[tuple[int | None, int]] = []
        left = list(tasks)
        # The receipt of the next attempt, already as cancelled: as links are exclusive, either it
        # or that of a worker is there, and no task is both cancelled and run.
        self._make_safe(number, after_attempt=any(attempt > 1 for _, attempt in left))
        while left:
            # One file has many names, which needs no further block of the disk.
            with self.files.prepared(content) as ready:
                while left:
                    task, attempt = left[-1]
                    try:
                        if self._may_begin(number, task, attempt) and self.files.link(
                            ready,
                            f"{folder}/{receipt_name(number, task, attempt, 'begun')}",
                            sync=False,
                        ):
                            made.append((task, attempt))
                    # Packed meanwhile: all of its tasks had ended, so none waits.
                    except NotADirectoryError:
                        return []
                    except CannotWrite as error:
                        if error.errno == errno.EMLINK and made:
                            break  # the most names that one file may have
                        raise
                    left.pop()
        # Once for all names. Until then a crash of the host may take them back.
        if made:
            self.files.sync(folder, folder)
        return made

    # Running.

    def begin(
        self,
        number: int,
        task: int | None,
        attempt: int,
        begun: Begun,
        *,
        settled: bool = False,
    ) -> bool:
        """Make the receipt of an attempt, before its program starts.

        Args:
            settled: True if the job and the end of the attempt before are known to be on the disk,
                as a dispatcher has handed the attempt out.

        Returns:
            True if the caller runs it; False if another one has begun or cancelled it, if the
            attempt before has not ended as far as can be seen, or if the job is packed.

        Raises:
            NoSuchJob: the number is not given, as far as can be seen.
            CannotWrite: it has not begun.
            NotSynced: it has begun, and may not be run: end it as ``"returned"``.
        """
        if not self._may_begin(number, task, attempt):
            return False
        name = f"attempts/{self.buckets.of(number)}/{receipt_name(number, task, attempt, 'begun')}"
        try:
            if not settled:
                self._make_safe(number, after_attempt=attempt > 1)
            return self.files.note(name, encode_record(begun))
        except NotADirectoryError:
            return False

    def end(self, number: int, task: int | None, attempt: int, ended: Ended) -> bool:
        """Make the receipt of the end of an attempt, after its last process is gone.

        Returns:
            True if it is the caller's; False if the attempt has an end already.

        Raises:
            CannotWrite: it has no end yet: call it again.
            NotSynced: it has one, which may be gone after a crash: call it again until it returns.
        """
        name = f"attempts/{self.buckets.of(number)}/{receipt_name(number, task, attempt, 'ended')}"
        try:
            if self.files.note(name, encode_record(ended)):
                return True
            # It may be ours, of a call that was not told whether it was on the disk.
            self.files.sync(name.rpartition("/")[0], name)
        except (NotADirectoryError, FileNotFoundError) as error:
            # A packed bucket is a file (see `packing`). That there is nothing is damage.
            if isinstance(error, FileNotFoundError):
                raise CannotWrite(f"attempts of job {number} are gone", errno.ENOENT) from error
        return False

    def settle(self, bucket: int) -> None:
        """Have the receipts of a bucket on the disk, before something follows from them.

        Whoever made one may not have synced it yet, and then a crash of the host takes it back.

        Raises:
            NotSynced: the disk did not confirm it.
        """
        with suppress(NotADirectoryError, FileNotFoundError):
            self.files.sync(f"attempts/{bucket}", "receipts")

    def settle_jobs(self, bucket: int) -> None:
        """Have the jobs of a bucket on the disk, before an attempt of one is handed out.

        Whoever submitted one may not have synced it yet. If it were lost in a crash of the host and
        not its receipt, the next job of that number would seem to have run.

        Raises:
            NotSynced: the disk did not confirm it.
        """
        self.files.sync(f"jobs/{bucket}", "jobs")

    def _may_begin(self, number: int, task: int | None, attempt: int) -> bool:
        try:
            name = receipt_name(number, task, attempt - 1, "ended")
            return (
                # Not by what the caller has read, which may be a minute old: two attempts of a task
                # must never run at the same time.
                attempt == 1
                or self.files.disk.exists(f"attempts/{self.buckets.of(number)}/{name}")
                or self._was_cancelled(number, task, attempt - 1)
            )
        except NotADirectoryError:
            return False

    def _was_cancelled(self, number: int, task: int | None, attempt: int) -> bool:
        begun = self.begun(number, task, attempt)
        return begun is not None and bool(begun.cancelled)

    def _make_safe(self, number: int, *, after_attempt: bool) -> None:
        """Have on the disk what a receipt follows from, though its maker may not have synced it.

        If the host crashed and the job were lost, but not its receipt, the next job of that number
        would seem to have run.
        """
        bucket = self.buckets.of(number)
        folders = [f"jobs/{bucket}"] + [f"attempts/{bucket}"] * after_attempt
        for folder in folders:
            try:
                self.files.sync(folder, folder)
            except NotSynced as error:
                if error.errno == errno.ENOTDIR:
                    continue  # packed; then the link fails as well
                if error.errno == errno.ENOENT:
                    raise NoSuchJob(f"there is no job {number}") from error
                raise CannotWrite(f"it has not begun: {error}", error.errno) from error


def decode_job(content: bytes) -> Job:
    """Return a job from its file.

    Raises:
        QueueError: it cannot be read by this Grain.
    """
    job = _decode(content, Job, "a job")
    if not job.raw_environment:
        return job
    raw = {os.fsdecode(name): os.fsdecode(value) for name, value in job.raw_environment}
    return msgspec.structs.replace(job, environment=job.environment | raw, raw_environment=())


def is_unreadable(job: Job) -> bool:
    """Return True for a job that stands for one which this Grain cannot read."""
    return _UNREADABLE in job.options


def decode_wish(content: bytes) -> Wish:
    """Return a wish from its file.

    Raises:
        QueueError: it cannot be read by this Grain.
    """
    return _decode(content, Wish, "a wish")


def _decode(content: bytes, kind: type[_Record], what: str) -> _Record:
    try:
        return msgspec.json.decode(content, type=kind)
    except UNREADABLE as error:
        raise QueueError(f"{what} cannot be read by this Grain: {error}") from error


def encode_job(job: Job) -> bytes:
    """Return the content of a job's file.

    Raises:
        BadInput: a text in it is not UTF-8, or one that the system gets has a null character.
    """
    # By exec(2) and open(2), which take it for the end.
    given = (
        job.directory, job.stdout, job.stderr, *job.command, *job.environment,
        *job.environment.values(),
    )  # fmt: skip
    if null := next((text for text in given if "\0" in text), None):
        raise BadInput(f"{null!a} has a null character, and no command, path or variable may")
    environment = {name: value for name, value in job.environment.items() if is_text(name + value)}
    if len(environment) < len(job.environment):
        raw = tuple(
            (os.fsencode(name), os.fsencode(value))
            for name, value in job.environment.items()
            if name not in environment
        )
        job = msgspec.structs.replace(job, environment=environment, raw_environment=raw)
    try:
        return msgspec.json.encode(job)
    except UnicodeEncodeError as error:
        raise BadInput(
            f"{error.object!a} is not UTF-8, as the words, files and directories of a job have to "
            "be: rename what has this name"
        ) from error


def is_text(text: str) -> bool:
    """Return True if a text is UTF-8, so that a file of the queue may have it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _script(job: Job) -> bytes:
    # Bytes that are not UTF-8 were read so by the submitter.
    return job.script.encode(errors="surrogateescape")


def _is_inline(script: bytes) -> bool:
    try:
        script.decode()
    except UnicodeDecodeError:
        return False
    return len(script) <= LARGEST_INLINE


def _digest(content: bytes) -> str:
    # Only submitters need it, and `squeue`, which tools call every second, begins without.
    import hashlib

    return hashlib.sha256(content).hexdigest()
