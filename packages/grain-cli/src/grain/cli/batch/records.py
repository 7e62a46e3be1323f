"""What was submitted, and by whom: the files from which `grain` knows its own jobs.

One file per submission, one line of JSON per job, in a directory that only its owner may read. A
file is made under a name that nobody else uses, and after that only its maker writes to it, so
commands that run at the same time, on other hosts with the same home directory too, need no lock.
A line is written as soon as its job is accepted. One that was cut off, by a full disk say, is
passed over.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class JobRecord:
    """One job that was submitted.

    Attributes:
        id: The batch system's, or ``host:pid:start`` for a process.
        system: ``slurm``, ``pbs``, ``custom`` or ``local``.
        name: Of the worker and its job.
        log_file: Its output.
        address: Where the worker looks for the scheduler.
        config: Absolute path of the configuration, or empty for the defaults.
        submitted: Seconds since the epoch.
        cpus: CPU ids it was confined to by Grain.
        kind: ``worker`` or ``mission``.
        by: Who keeps it alive: ``scale`` for a job of `grain scale`, ``gnaw`` for one of a
            scheduler that does so itself, otherwise empty.
        file: The file that this record is in; empty before it is written.
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
    file: str = ""


class JobRecords:
    """The records of a user.

    Args:
        folder: Where they are; made, for its owner alone, when the first is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new_file(self) -> Path:
        """Make the file of one submission, empty.

        Raises:
            OSError: It cannot be made.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp = time.strftime("%Y%m%dT%H%M%S")
        path = self._folder / f"{stamp}-{secrets.token_hex(6)}.jsonl"
        path.touch(mode=0o600, exist_ok=False)
        return path

    def add(self, file: Path, record: JobRecord) -> None:
        """Write a record to a file that `new_file` made.

        Raises:
            OSError: It cannot be written.
        """
        data = {name: value for name, value in asdict(record).items() if name != "file"}
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(data) + "\n")
            out.flush()
            os.fsync(out.fileno())

    def read(self) -> list[JobRecord]:
        """All records, oldest first."""
        try:
            files = sorted(self._folder.glob("*.jsonl"))
        except OSError:
            return []
        return [record for file in files for record in _records(file)]

    def forget(self, file: str) -> None:
        """Remove a submission's file, when all its jobs are gone."""
        path = self._folder / file
        path.unlink(missing_ok=True)


def _records(file: Path) -> Iterator[JobRecord]:
    known = {field.name for field in fields(JobRecord)}
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            data = json.loads(line)
            given = {name: value for name, value in data.items() if name in known}
            given["cpus"] = tuple(given.get("cpus", ()))
            yield JobRecord(**{**given, "file": file.name})
        except (ValueError, TypeError, AttributeError):
            # Cut off, or of a version that wrote other things.
            continue
