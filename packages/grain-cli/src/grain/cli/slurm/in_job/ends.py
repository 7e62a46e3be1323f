"""Ends of a step's processes: what signals to ``srun`` do, and what it says of each end."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from grain.cli.slurm_words.steps import SrunWords

# A warning to the whole job reaches the processes by themselves.
WARNINGS = (signal.SIGUSR1, signal.SIGUSR2)

CANCEL = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals that end a step."""

HEARD = {signal.SIGCHLD, *CANCEL, *WARNINGS}
"""Signals that are blocked, and taken one by one, while processes run."""

_GRACE = 30.0  # seconds from SIGTERM to SIGKILL, as ``KillWait`` of Slurm
_AFTER_INTERRUPT = 0.5  # seconds from SIGINT to SIGKILL, for which slurmstepd takes a moment
_AGAIN = 1.0  # seconds within which a second Ctrl-C ends a step
_ENDS = (signal.SIGTERM, signal.SIGKILL)


class StepProcesses:
    """The processes of a step, from their start to the end of the last one.

    Args:
        name: of the step, as ``12.0``.
        ranks: what the desk has given to each process.
        how: the words of ``srun``.
        launched: True if a launcher is the one process of the step.
        own: variables that no process of another step has, as in /proc/PID/environ.
        gather: seconds within which ends of processes are told in one line.

    Attributes:
        statuses: of the processes, as of waitpid(2); 0 while one runs.
        cpu: the CPU seconds of all processes that have ended on this host.
        memory: the largest peak of these processes, in GB.
        cancelled: True if a signal to srun has ended the step.
    """

    def __init__(
        self,
        name: str,
        ranks: Sequence[Mapping[str, Any]],
        how: SrunWords,
        *,
        launched: bool,
        own: set[bytes],
        gather: float,
    ) -> None:
        self._id = name
        self._ranks = ranks
        self._how = how
        self._launched = launched
        self._own = own
        self._gather = gather
        self._pids: dict[int, int] = {}  # of processes that run: their numbers
        self.statuses = [0] * (1 if launched else len(ranks))
        self.cpu = self.memory = 0.0
        self._sent = 0  # the last signal that was passed on
        self._interrupted = -math.inf  # when Ctrl-C was pressed last
        self.cancelled = self._aborted = self._said_over = False

    @property
    def pids(self) -> list[int]:
        """Those that run."""
        return list(self._pids)

    def add(self, rank: int, pid: int) -> None:
        """Note that a process was started."""
        self._pids[pid] = rank

    def wait(self) -> None:
        """Wait for all processes."""
        first = kill_at = 0.0
        terminated = False
        while self._pids:
            until = kill_at or (first + self._how.wait if first and self._how.wait else 0.0)
            heard = self._hear(until)
            if heard is None:
                if not terminated and not kill_at:
                    self._inform(f"First task exited {self._how.wait:.0f}s ago")
                    self._tell_states()
                    self._inform(f"launch/slurm: _step_signal: Terminating StepId={self._id}")
                    self._abort()
                self._say_cancelled()
                self._signal(signal.SIGKILL)
                first = kill_at = 0.0
                terminated = True
                continue
            if heard.si_signo != signal.SIGCHLD:
                if _is_of_user(heard):
                    kill_at = self._obey(heard.si_signo) or kill_at
                continue
            failed = self._reap()
            first = first or time.monotonic()
            if failed and self._how.kills and self._pids and not terminated:
                self._inform(f"launch/slurm: _step_signal: Terminating StepId={self._id}")
                self._say_cancelled()
                self._signal(signal.SIGTERM)
                terminated, kill_at = True, time.monotonic() + _GRACE

    def _obey(self, number: int) -> float:
        """Do what srun does upon a signal; return when to kill what is left, 0 for never.

        Slurm kills at once. Here processes get the signal before, to write what they have, and a
        launcher to end the ranks of other nodes.
        """
        now = time.monotonic()
        again = self._how.quits or now - self._interrupted <= _AGAIN
        if number == signal.SIGINT and self._how.states and not again:
            self._interrupted = now
            self._inform("interrupt (one more within 1 sec to abort)")
            self._tell_states()
            return 0.0
        if number == signal.SIGINT:
            self._inform(f"sending Ctrl-C to StepId={self._id}")
        if number == signal.SIGQUIT:
            self._inform("Quit")
        forced = number not in WARNINGS and (number != signal.SIGINT or self._how.states)
        if forced:
            self._inform("forcing job termination")
            self._abort()
            self.cancelled = True
        self._sent = number
        self._signal(number)
        if not forced:
            return 0.0
        if number == signal.SIGINT:
            return now + _AFTER_INTERRUPT
        self._say_cancelled()
        return now + _GRACE

    def _abort(self) -> None:
        if not self._aborted:
            wait = f"Waiting up to {_GRACE + 2:.0f} seconds for job step to finish."
            self._inform(f"Job step aborted: {wait}")
        self._aborted = True

    def _tell_states(self) -> None:
        """Say which processes run, and which have ended."""
        running = set(self._ranks_of(self._pids.values()))
        others = [rank for rank in range(len(self._ranks)) if rank not in running]
        for ranks, state in (
            (sorted(running), "running"),
            ([rank for rank in others if self.statuses[rank]], "exited abnormally"),
            ([rank for rank in others if not self.statuses[rank]], "exited"),
        ):
            if ranks:
                self._inform(f"StepId={self._id} {_tasks(ranks)}: {state}")

    def _ranks_of(self, started: Collection[int]) -> Collection[int]:
        """Return the ranks of processes that were started here."""
        return range(len(self._ranks)) if self._launched and started else started

    def _hear(self, until: float) -> signal.struct_siginfo | None:
        """Wait for a signal; return None if there is none until a moment, 0 for any time."""
        if not until:
            return signal.sigwaitinfo(HEARD)
        return signal.sigtimedwait(HEARD, max(until - time.monotonic(), 0.0))

    def _reap(self) -> bool:
        """Note and tell how processes have ended; return True if one has failed."""
        ended: dict[tuple[str, int], list[int]] = {}
        self._collect(ended)
        if any(status for _, status in ended):
            until = time.monotonic() + self._gather
            while self._pids and (left := until - time.monotonic()) > 0:
                if signal.sigtimedwait({signal.SIGCHLD}, left):
                    self._collect(ended)
        for (name, status), ranks in ended.items():
            # Slurm says nothing of processes after a second Ctrl-C.
            if status and not (self._aborted and self._sent == signal.SIGINT):
                if self._launched:
                    name = self._ranks[0]["name"]
                tasks = _tasks(sorted(self._ranks_of(ranks)))
                say(f"srun: error: {name}: {tasks}: {_end_text(status)}")
        return any(status for _, status in ended)

    def _collect(self, ended: dict[tuple[str, int], list[int]]) -> None:
        """Add what has ended to ranks by host and status."""
        while self._pids:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if not pid:
                break
            rank = self._pids.pop(pid, None)
            if rank is not None:
                if self._launched or not self._ranks[rank]["member"]:
                    self.cpu += usage.ru_utime + usage.ru_stime
                    self.memory = max(self.memory, usage.ru_maxrss * 1024e-9)
                if self._launched and not status and self._sent in _ENDS:
                    status = self._sent  # mpiexec of MPICH says nothing of a signal that ends it
                self.statuses[rank] = _status(status, bool(self._ranks[rank]["member"]))
                key = self._ranks[rank]["name"], self.statuses[rank]
                ended.setdefault(key, []).append(rank)

    def _signal(self, number: int) -> None:
        for pid in self._pids:
            os.kill(pid, number)  # it is a zombie at least

    def end_rest(self) -> None:
        """End what processes have left behind on this host if a signal has ended the step."""
        by = [os.WTERMSIG(status) for status in self.statuses if os.WIFSIGNALED(status)]
        if not self._sent and not by:
            return
        if not self._aborted and not set(_ENDS).isdisjoint(by):
            say(f"srun: Force Terminated StepId={self._id}")
        left = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        for pid in left:
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - as in `step`
                    if self._own <= set(file.read().split(b"\0")):
                        os.kill(pid, signal.SIGKILL)
            except OSError:  # another user's, or gone
                pass

    def _inform(self, text: str) -> None:
        if not self._how.quiet:
            say(f"srun: {text}")

    def _say_cancelled(self) -> None:
        """Say once that this srun ends the step."""
        if not self._said_over:
            self.say_over("")
        self._said_over = True

    def say_over(self, why: str) -> None:
        """Say that the step was ended.

        Args:
            why: as Slurm says it; "" for no cause but its user.
        """
        at = time.strftime("%Y-%m-%dT%H:%M:%S")
        name = self._ranks[0]["name"]
        say(
            f"slurmstepd-{name}: error: *** STEP {self._id} ON {name} CANCELLED AT {at}"
            f"{why and ' DUE TO '}{why} ***"
        )


def say(text: str) -> None:
    """Write a line to the user, at once.

    On a full disk the line is lost, and the step goes on: its status is that of its processes.
    """
    with suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def _status(status: int, elsewhere: bool) -> int:
    """Return the status of a process as waitpid(2) has it; rsh exits as shells do for a signal."""
    if elsewhere and os.WIFEXITED(status) and 128 < status >> 8 < 128 + 65:
        return (status >> 8) - 128
    return status


def _end_text(status: int) -> str:
    if os.WIFSIGNALED(status):
        text = signal.strsignal(os.WTERMSIG(status)) or f"Signal {os.WTERMSIG(status)}"
        return text + " (core dumped)" * os.WCOREDUMP(status)
    return f"Exited with exit code {status >> 8}"


def _tasks(ranks: Sequence[int]) -> str:
    return f"task{'s' * (len(ranks) > 1)} {_ranges(ranks)}"


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as ``0-2,5``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][-1] == number - 1:
            found[-1] = [found[-1][0], number]
        else:
            found.append([number])
    return ",".join("-".join(map(str, one)) for one in found)


def _is_of_user(heard: signal.struct_siginfo) -> bool:
    """Return True if a signal is for this process only, from the job itself.

    What a terminal, or the worker, sends to the job reaches all processes by itself. A process of
    the job may have another session, as what Python starts with ``start_new_session``.
    """
    if not heard.si_pid:
        return False
    own = f"GRAIN_JOB_ID={os.environ.get('GRAIN_JOB_ID', '')}".encode()
    try:
        if os.getsid(heard.si_pid) == os.getsid(0):
            return True
        with open(f"/proc/{heard.si_pid}/environ", "rb") as file:  # noqa: PTH123 - as in `step`
            return own in file.read().split(b"\0")
    except OSError:  # it has gone since
        return True
