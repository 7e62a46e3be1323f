"""The steps that srun has started in attempts: notes for display, on which nothing relies.

An attempt has one file, to which its worker appends. It is not synced: after a crash of a host the
last lines may be missing, or one may be cut.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from grain.queue.folder import receipt_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from grain.queue.folder import Queue

SCRIPT = -1
"""The number of the script, of which it is noted what it uses while it runs."""

_FOLDER = "steps"


class StepRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that has begun, or ended, or what it uses meanwhile.

    Attributes:
        step: its number; `SCRIPT` for the script, with all that it has started.
        name: its name.
        tasks, cpus: how many it has.
        hosts: the names of its nodes.
        began, ended: Unix seconds; `ended` 0 as long as it has not.
        statuses: how its processes ended: exit statuses, or negative signals.
        state: of a step that was ended: ``"CANCELLED"`` or ``"TIMEOUT"``; else "".
        cpu: CPU seconds of its processes on the first node.
        memory: the peak of one of these with all below it, in GB, as far as it was seen.
    """

    step: int
    name: str
    tasks: int
    cpus: int
    hosts: tuple[str, ...]
    began: float
    ended: float = 0.0
    statuses: tuple[int, ...] = ()
    state: str = ""
    cpu: float = 0.0
    memory: float = 0.0


def note_steps(
    queue: Queue, number: int, task: int | None, attempt: int, steps: Iterable[StepRecord]
) -> None:
    """Append steps to the notes of an attempt.

    Raises:
        OSError: they cannot be written.
    """
    path = _path(queue, number, task, attempt)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = b"".join(msgspec.json.encode(step) + b"\n" for step in steps)
    with path.open("ab") as file:
        file.write(lines)


def steps_of(queue: Queue, number: int, task: int | None, attempt: int) -> list[StepRecord]:
    """Return the steps of an attempt by their numbers, each as it was noted last.

    The first one is `SCRIPT`, if it was noted what that uses.
    """
    found: dict[int, StepRecord] = {}
    with suppress(OSError), _path(queue, number, task, attempt).open("rb") as lines:
        for line in lines:
            with suppress(msgspec.MsgspecError, ValueError):
                step = msgspec.json.decode(line, type=StepRecord)
                found[step.step] = step
    return [found[step] for step in sorted(found)]


def forget_steps(queue: Queue, bucket: int) -> None:
    """Remove the notes of a bucket of jobs."""
    import shutil  # which commands that tools call every second do not need

    shutil.rmtree(queue.folder / _FOLDER / str(bucket), ignore_errors=True)


def _path(queue: Queue, number: int, task: int | None, attempt: int) -> Path:
    name = receipt_name(number, task, attempt, "steps")
    return queue.folder / _FOLDER / str(queue.buckets.of(number)) / name
