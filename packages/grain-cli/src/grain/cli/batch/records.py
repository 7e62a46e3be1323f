"""The records of submitted jobs: `grain` recognises its own jobs by them.

Each submission has one file with one line of JSON per job, in a directory that only its owner may
read. No other command uses the name of a file, and only the command that made it writes to it: so
commands need no lock, even on several hosts that share a home directory. Before it submits
anything, the command writes a line for each job with a mark in place of the id, so that a job is
looked for, by its name, whose command was killed in between. When the batch system has accepted the
job, another line has the id, and the mark that it replaces. If it is unknown whether the batch
system has the job, the mark stays, and the command that finds the job rewrites the file with its
id. If two commands do so at once, either result will do. The reader skips a line that was cut off,
for instance by a full disk.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from grain.eventlog.files import read_plain
from grain.files.trust import check_private, private_folder, remove_files
from grain.files.whole import naming, whole_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

_CLAIM = re.compile(r"[^/]+-\d+")  # the name of a claim's file, which is empty
_NODE = re.compile(r"\.\d+$")  # the mark of a worker in the job's name, for its node
_CLAIMED = 3600.0  # seconds for which a name is taken, whatever the names of other days


@dataclass(frozen=True)
class JobRecord:
    """One submitted job.

    Attributes:
        id: the batch system's id, or ``host:pid:start`` for a process; a mark, see `mark_of`, if
            it is not known whether the batch system has the job.
        address: the address at which the worker looks for the scheduler.
        config: absolute path of the configuration, or empty for the defaults.
        submitted: seconds since the epoch.
        cpus: the ids of the CPUs to which Grain confined it.
        kind: ``worker``, ``mission`` or ``dispatcher``.
        by: the program that keeps it alive: ``scale`` for a job of `grain scale`, ``gnaw`` for one
            that a scheduler submitted; otherwise empty.
        shape: the name of the worker's ``[[shape]]``; empty where there is none.
        queue: the name of the dispatcher's queue of jobs; empty for others.
        mark: the mark that was its id before it was submitted; empty if there was none.
        nodes: of the job, with a worker on each.
        file: the file of this record; empty before it is written.
    """

    id: str
    system: str
    name: str
    log_file: str
    address: str
    config: str
    submitted: float
    cpus: tuple[int, ...] = ()
    kind: str = "worker"
    by: str = ""
    shape: str = ""
    queue: str = ""
    mark: str = ""
    nodes: int = 1
    file: str = ""


def mark_of(name: str) -> str:
    """Return a mark in place of an id, for a job that may or may not exist."""
    return f"?{name}.{secrets.token_hex(3)}"


def is_mark(one: str) -> bool:
    """Return True if an id is a mark in place of one.

    >>> is_mark("?w093015.1f3a5b"), is_mark("6_0")
    (True, False)
    """
    return one.startswith("?")


def name_of(mark: str) -> str:
    """Return the name of the job that a mark stands for.

    >>> name_of("?w093015.1f3a5b")
    'w093015'
    """
    return mark[1:].rpartition(".")[0]


def submitted_name(worker: str) -> str:
    """Return the name under which a job was submitted that Slurm has started again.

    >>> submitted_name("w1-r2"), submitted_name("w1-r2.3")
    ('w1', 'w1')
    """
    return re.sub(r"-r\d+$", "", job_name(worker))


def job_name(worker: str) -> str:
    """Return the name that the job of one of its several workers gives to itself.

    >>> job_name("w1.3"), job_name("w1")
    ('w1', 'w1')
    """
    return _NODE.sub("", worker)


def submitted_names(workers: Iterable[str]) -> set[str]:
    """Return the names under which the jobs of workers may have been submitted.

    A job that Slurm has started again runs a worker with a mark in its name, and a job of several
    nodes workers with a number behind it.

    >>> sorted(submitted_names(["w0", "w1-r2", "w3.1"]))
    ['w0', 'w1', 'w1-r2', 'w3', 'w3.1']
    """
    names = set(workers)
    names |= {job_name(name) for name in names}
    return names | {submitted_name(name) for name in names}


class JobRecords:
    """The records of a user.

    Args:
        folder: their directory; made with the first record; only its owner can read it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new_file(self) -> Path:
        """Make the file of one submission, empty.

        Raises:
            OSError: it cannot be made.
        """
        private_folder(self._folder)
        stamp = time.strftime("%Y%m%dT%H%M%S")
        path = self._folder / f"{stamp}-{secrets.token_hex(6)}.jsonl"
        path.touch(mode=0o600, exist_ok=False)
        return path

    def claim(self, name: str) -> str:
        """Return a mark that makes the name of a submission unique; empty if it is so without.

        Several commands may choose a name in the same second, also on several hosts.

        Raises:
            OSError: no file can be made.
        """
        folder = self._folder.parent / "names"
        private_folder(folder)
        before = time.time() - _CLAIMED
        remove_files(
            folder,
            lambda file, status: (
                _CLAIM.fullmatch(file) is not None
                and not status.st_size
                and status.st_mtime < before
            ),
        )
        number = 1
        while not _claimed(folder / f"{name}-{number}"):
            number += 1
        # With a letter: `BatchJob.members` has numbers.
        return "" if number == 1 else f"n{number}"

    def add(self, file: Path, *new: JobRecord) -> None:
        """Write records to a file that `new_file` made.

        Raises:
            OSError: they cannot be written.
        """
        with naming(file), file.open("a", encoding="utf-8") as out:
            for record in new:
                data = msgspec.to_builtins(record)
                del data["file"]
                out.write(json.dumps(data) + "\n")
            out.flush()
            os.fsync(out.fileno())

    def settle(self, file: Path, keep: Collection[str] = ()) -> None:
        """Remove the marks of a submission that is over, but for some.

        Where nothing can be written, they stay.
        """

        def settled(data: dict[str, Any]) -> dict[str, Any] | None:
            given = data.get("id", "")
            return data if not is_mark(given) or given in keep else None

        self._write_anew(file, settled)

    def adopt(self, record: JobRecord, number: str) -> None:
        """Put a job's id in the place of the mark that its record has."""
        self._rewrite(record, {"id": number, "mark": record.id})

    def drop(self, record: JobRecord) -> None:
        """Remove the record of a job that does not exist."""
        self._rewrite(record, None)

    def _rewrite(self, record: JobRecord, changes: dict[str, str] | None) -> None:
        """Change or remove the line of a record; where nothing can be written, it stays."""

        def changed(data: dict[str, Any]) -> dict[str, Any] | None:
            if data.get("id") != record.id:
                return data
            return None if changes is None else {**data, **changes}

        self._write_anew(self._folder / record.file, changed)

    @staticmethod
    def _write_anew(file: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        """Write a file with other lines, or remove it where none is left."""
        with suppress(OSError):
            kept = []
            for line in read_plain(file).decode(errors="replace").splitlines():
                with suppress(ValueError, AttributeError):
                    if (data := change(json.loads(line))) is not None:
                        kept.append(json.dumps(data))
            if not kept:
                file.unlink(missing_ok=True)
                return
            with whole_file(file, sync=True) as out:
                out.writelines(f"{line}\n".encode() for line in kept)

    def read(self) -> list[JobRecord]:
        """Read all records, the oldest first.

        Raises:
            PermissionError: another user may have written them: they say which processes to end.
        """
        try:
            check_private(self._folder)
            files = sorted(self._folder.glob("*.jsonl"))
        except PermissionError:
            raise
        except OSError:
            return []
        found = [record for file in files for record in _without_replaced(list(_records(file)))]
        # The names of files that were made in one second are in no order.
        return sorted(found, key=lambda one: one.submitted)

    def forget(self, file: str) -> None:
        """Remove a submission's file, when all its jobs are gone."""
        (self._folder / file).unlink(missing_ok=True)


def _claimed(path: Path) -> bool:
    try:
        path.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return False
    return True


def _without_replaced(records: list[JobRecord]) -> Iterator[JobRecord]:
    """Yield the records of a file, without marks that another record has replaced by an id."""
    replaced = {one.mark for one in records if one.mark}
    # Two commands may have found the id of the same job.
    last = {one.id: one for one in records if one.id not in replaced}
    yield from last.values()


def _records(file: Path) -> Iterator[JobRecord]:
    try:
        lines = read_plain(file).decode(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        # The line was cut off, or another version wrote it.
        with suppress(msgspec.MsgspecError, ValueError):
            record = msgspec.convert(json.loads(line), JobRecord)
            yield replace(record, file=file.name)
