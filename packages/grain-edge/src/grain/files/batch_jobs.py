"""`jobs_over`: which batch jobs of workers are over, as their batch systems say.

Asking them is the business of grain-cli, which this package starts as a child and does not import.
The scheduler asks while a worker is away, and the dispatcher of a queue about its attempts.
"""

from __future__ import annotations

import importlib.util
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from grain.files.trust import python_command

if TYPE_CHECKING:
    from collections.abc import Sequence

_PATIENCE = 150.0  # seconds for all batch systems; each command has one minute

_log = logging.getLogger("grain.files")


class WorkerJob(NamedTuple):
    """The batch job of a worker.

    Attributes:
        system: the name of its batch system.
        job: the job, as the commands of that system name it.
        host: the worker's host.
    """

    system: str
    job: str
    host: str


async def jobs_over(jobs: Sequence[WorkerJob]) -> list[str | None]:
    """Return for each job that is over how it has ended, as its batch system says; else None.

    The batch system may give no reason: "".

    Without grain-cli, and if a batch system does not answer, nothing is known. On cancellation the
    child is ended.
    """
    import trio  # which the child, that has the same questions, does without

    nothing: list[str | None] = [None] * len(jobs)
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
        with suppress(msgspec.MsgspecError):  # nothing, if the child has failed
            found = msgspec.json.decode(done.stdout, type=list[str | None])
            if len(found) == len(jobs):
                return found
    return nothing
