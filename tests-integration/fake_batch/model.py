"""The model of a cluster: nodes, jobs, delays, and how batch systems differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import signal
    from pathlib import Path

OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


@dataclass
class Timing:
    """Delays in seconds of the cluster.

    Attributes:
        kill_wait: From SIGTERM to SIGKILL.
        check: Time limits are looked at this often.
        requeue: How long a requeued job stays where it is.
        node_timeout: From the death of a node's daemon to the loss of its jobs.
        memory: How often memory is measured.
        keep: How long ended jobs are known.
    """

    kill_wait: float = 30
    check: float = 30
    requeue: float = 120
    node_timeout: float = 36
    memory: float = 2
    keep: float = 300


@dataclass
class Node:
    """A node that is counted, not there.

    Attributes:
        state: ``up``, ``down``, or ``lost``: its daemon is gone, and nobody noticed yet.
        since: When it got lost.
        strays: Runs of jobs that go on without a daemon: their keys.
    """

    name: str
    cores: int
    memory: int
    state: str = "up"
    since: float = 0.0
    strays: list[str] = field(default_factory=list)


@dataclass
class Job:
    """A job.

    Attributes:
        number: Its id; of an array's task, once it started, its own.
        array: The array's id, and the task's index; None if it is not such a task.
        throttle: How many tasks of the array may run at a time; 0 for any number.
        limit: Seconds; None without one.
        warning: Signal to the shell, and seconds before the end.
        never: Why it will never start; empty if it may.
        not_before: It does not start earlier.
        finals: State and reason that it gets when its processes are gone, or None.
        kill_at: When they are killed.
        code: Exit code and signal.
    """

    number: int
    name: str
    script: str
    cores: int
    memory: int
    limit: float | None
    queue: str
    output: str
    cwd: str
    env: dict[str, str]
    submitted: float
    array: tuple[int, int] | None = None
    throttle: int = 0
    append: bool = False
    requeues: bool = True
    warning: tuple[signal.Signals, float] | None = None
    never: str = ""
    not_before: float = 0.0
    state: str = "PENDING"
    reason: str = ""
    node: str = ""
    pid: int = 0
    started: float = 0.0
    ended: float = 0.0
    restarts: int = 0
    finals: tuple[str, str] | None = None
    kill_at: float = 0.0
    code: tuple[int, int] = (0, 0)
    nodes: int = 1

    @property
    def key(self) -> str:
        """Names this run of this job."""
        task = f"[{self.array[1]}]" if self.array else ""
        return f"{self.number}{task}.{self.restarts}"


class Manners(Protocol):
    """The differences between batch systems when a job starts, is ended and has ended."""

    def place(self, job: Job) -> tuple[dict[str, str], str, Path]:
        """Environment, directory and output file of a job that starts."""
        ...

    def notice(self, job: Job, why: str) -> str:
        """Return the text for its output when it is ended; ``why`` is a state."""
        ...

    def warn_now(self, job: Job, now: float) -> bool:
        """Return True if it is time for the warning."""
        ...

    def task_number(self, job: Job) -> int:
        """The number of an array's task that starts."""
        ...

    def over(self, job: Job) -> None:
        """Look after the output of a job that ended."""
        ...
