"""The account of a run: when it began, and what its external programs have used."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from grain.eventlog.usage import RunReport, Usage
from grain.worker.processes.environment import allocated

if TYPE_CHECKING:
    from grain.resource import Resource

_NOTHING = Usage()


class RunAccount:
    """The account of one run, which its tasklet sees as ``GVAR.usage``.

    One is made for every run, so it has little to do until the first program.

    Args:
        res: the resources of the run.

    Attributes:
        started: when the run began, in Unix seconds.
        ended: when it ended; 0 before.
    """

    __slots__ = ("_res", "ended", "started")

    def __init__(self, res: Resource) -> None:
        self._res = res
        self.started = time.time()
        self.ended = 0.0

    @property
    def usage(self) -> Usage:
        """The usage of the programs that have ended."""
        return _NOTHING

    def close(self) -> None:
        """Note that the run has ended, and nothing of it is left."""
        self.ended = time.time()

    def report(self, host: str, worker: str, cpus: tuple[int, ...] | None = None) -> RunReport:
        """Return the report on a run that has ended.

        Args:
            host: the name of this host.
            worker: the name of this worker.
            cpus: the numbers of the CPUs that it had; None to take them from its resources.
        """
        return RunReport(
            started=self.started,
            # The clock may have been set back meanwhile.
            ended=max(self.started, self.ended),
            host=host,
            worker=worker,
            cpus=cpus_of(self._res) if cpus is None else cpus,
            usage=self.usage,
        )


def cpus_of(res: Resource) -> tuple[int, ...]:
    """Return the numbers of the CPUs that an allocation has; none if it has none, or no numbers."""
    return tuple(allocated(res, "c"))
