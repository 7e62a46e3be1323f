"""`jobs_over`: which batch jobs of workers are over, as their batch systems say.

Asking them is the business of grain-cli, which this package starts as a child and does not import.
"""

from __future__ import annotations

import importlib.util
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio

from grain.files.trust import python_command
from grain.queue.records import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

_PATIENCE = 150.0  # seconds for all batch systems; each command has one minute

_log = logging.getLogger("grain.dispatcher")


class WorkerJob(NamedTuple):
    """The batch job of a worker, see `grain.queue.records.Begun`.

    Attributes:
        system: the name of its batch system.
        job: the job, as its commands name it.
        host: the worker's host.
    """

    system: str
    job: str
    host: str


async def jobs_over(jobs: Sequence[WorkerJob]) -> list[str]:
    """Return for each job how it is known that it is over; "" if it is not known.

    Without grain-cli, and if a batch system does not answer, nothing is known. On cancellation the
    child is ended.
    """
    nothing = [""] * len(jobs)
    if importlib.util.find_spec("grain.cli") is None:
        return nothing
    with trio.move_on_after(_PATIENCE):
        try:
            done = await trio.run_process(
                python_command("grain.cli.batch.ended"),
                stdin=msgspec.json.encode(jobs),
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
        except OSError as error:
            _log.info("batch systems cannot be asked: %s", error)
            return nothing
        if done.stderr:
            text = done.stderr.decode(errors="replace").strip()
            _log.info("batch systems do not say whether jobs are over: %s", text)
        with suppress(*UNREADABLE):  # nothing, if the child has failed
            found = msgspec.json.decode(done.stdout, type=list[str])
            if len(found) == len(jobs):
                return found
    return nothing
