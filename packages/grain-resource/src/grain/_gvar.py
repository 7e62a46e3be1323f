"""`GVAR`: the variables by which a running tasklet sees its own run."""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextvars import Context

    from grain.resource import Resource


_NONE: Mapping[str, str | None] = MappingProxyType({})


class Surroundings(Protocol):
    """The surroundings of a run, as its worker gives them: `GrainVar` has them by their names."""

    @property
    def cwd(self) -> str:
        """See `GrainVar`; empty for the directory of the process."""

    @property
    def env(self) -> Mapping[str, str | None]:
        """See `GrainVar`."""


class PlainSurroundings(NamedTuple):
    """The surroundings of a test, or of code that runs outside of a worker."""

    cwd: str = ""
    env: Mapping[str, str | None] = _NONE


class UsageOnWorker(Protocol):
    """The use of the external programs of a run on one worker."""

    @property
    def user(self) -> float:
        """CPU seconds in user mode."""

    @property
    def system(self) -> float:
        """CPU seconds in the kernel."""

    @property
    def cpu(self) -> float:
        """CPU seconds, both together."""

    @property
    def peak_memory(self) -> float:
        """The largest memory at one time, in GB, of all programs together."""

    @property
    def measured_by(self) -> str:
        """The way in which ``peak_memory`` was measured; ``"none"`` if it was not."""

    @property
    def cpu_measured_by(self) -> str:
        """The way in which ``user`` and ``system`` were measured."""

    @property
    def read(self) -> float:
        """GB read from files and devices."""

    @property
    def written(self) -> float:
        """GB written to them."""

    @property
    def programs(self) -> int:
        """The number of programs that have ended."""

    @property
    def exit_statuses(self) -> Mapping[int, int]:
        """The number of them that ended with each status; a signal is negative."""


class RunUsage(UsageOnWorker, Protocol):
    """The use of the external programs of a run; on a worker a `grain.eventlog.usage.Usage`."""

    @property
    def members(self) -> Sequence[UsageOnWorker]:
        """The use on each of several workers; empty for one."""


class NoUsage(NamedTuple):
    """The usage where nothing is counted: outside of a run."""

    user: float = 0.0
    system: float = 0.0
    cpu: float = 0.0
    peak_memory: float = 0.0
    measured_by: str = "none"
    cpu_measured_by: str = "rusage"
    read: float = 0.0
    written: float = 0.0
    programs: int = 0
    exit_statuses: Mapping[int, int] = MappingProxyType({})
    members: tuple[UsageOnWorker, ...] = ()


class LastAttempt(Protocol):
    """The attempt before a run; on a worker a `grain.worker.messages.PastAttempts`."""

    @property
    def end(self) -> str:
        """The way in which it ended, as `GrainVar.last` lists them."""

    @property
    def text(self) -> str:
        """The same in words."""

    @property
    def stopped_softly(self) -> bool:
        """True if a program of it has stopped softly, after a warning."""


class AttemptsBefore(LastAttempt, Protocol):
    """The attempts before a run: how many, and the last one."""

    @property
    def count(self) -> int:
        """The number of them."""


class Account(Protocol):
    """The account of a run, which its worker keeps: see `GrainVar.usage`."""

    @property
    def past(self) -> AttemptsBefore | None:
        """The attempts at the same task before; None if this is the first."""

    @property
    def usage(self) -> RunUsage:
        """The usage up to now."""


class NoAccount:
    """The account where nothing is counted: outside of a run."""

    usage: RunUsage = NoUsage()
    past: AttemptsBefore | None = None


class RunVariables:
    """The values of `GrainVar` in one context; none of them changes.

    One object for one context variable: to set one costs about as much as to make the object, and
    a worker does both for every run.
    """

    __slots__ = ("account", "instance", "res", "surroundings")

    def __init__(
        self, res: Resource | None, instance: str, surroundings: Surroundings, account: Account
    ) -> None:
        self.res = res  # None for ZERO, so that the name GVAR does not cost the import of it
        self.instance = instance
        self.surroundings = surroundings
        self.account = account


_OUTSIDE = RunVariables(None, "", PlainSurroundings(), NoAccount())


class GrainVar:
    """The context-local variables of the running tasklet; ``grain.GVAR`` is the only instance.

    Attributes:
        res: the resources allocated to this run. ``ZERO`` (``Ø``) where none were asked for.
        instance: the name of the worker that executes this run, or an empty string outside of a
            worker (as in a branch, which runs in the mission itself).
        cwd: the directory in which the run's external programs start: that of the mission, where
            the worker has it, else the worker's own; outside of a worker that of the process. Use
            it for relative paths in Python code, as in ``open(f"{GVAR.cwd}/energy.out")``:
            `os.getcwd` returns the worker's directory, as all tasks of a worker share a process.
        env: the environment variables that the mission passes to its programs, ``run(env=...)``;
            None as a value removes one. `grain.worker.external.run_external` applies them.
        usage: what the external programs that this run has called so far have used: CPU seconds,
            peak memory, GB read and written, exit statuses. Ended subprocesses count; all is zero
            outside of a run. Subprocesses that Grain did not start are not in it.
        attempt: the number of this attempt at the task: 1, then 2, ...
        last: how the attempt before it ended; None if this is the first. ``last.end`` is
            ``"failed"``, ``"memory"`` or ``"time"`` (it had too little of these), ``"crashed"``,
            ``"returned"`` (its worker handed it back), or ``"stopped"``: a program of it has
            stopped softly after a warning (``last.stopped_softly``). ``last.text`` says so in
            words.

    Each trio task sees the values of the run it belongs to. Setting an attribute changes it for
    the current task and for the tasks started from it afterwards, as with any
    `contextvars.ContextVar`.

    GVAR pickles by name, so a function that mentions it can travel to a worker.
    """

    __slots__ = ("_variables",)

    def __init__(self) -> None:
        self._variables: ContextVar[RunVariables] = ContextVar("grain.GVAR", default=_OUTSIDE)

    def enter(
        self, res: Resource, instance: str, surroundings: Surroundings | None, account: Account
    ) -> None:
        """Begin a run in the current context, as a worker does.

        Args:
            instance: the name of the worker.
            surroundings: what else it is given; None for those of the current context.
            account: counts what its programs use.
        """
        if surroundings is None:
            surroundings = self._variables.get().surroundings
        self._variables.set(RunVariables(res, instance, surroundings, account))

    @property
    def res(self) -> Resource:
        """The resources allocated to this run."""
        res = self._variables.get().res
        if res is None:
            # Imported here, so that the name GVAR by itself does not cost the import of the
            # algebra.
            from grain.resource import ZERO

            return ZERO
        return res

    @res.setter
    def res(self, value: Resource) -> None:
        now = self._variables.get()
        self._variables.set(RunVariables(value, now.instance, now.surroundings, now.account))

    @property
    def instance(self) -> str:
        """The name of the worker that executes this run."""
        return self._variables.get().instance

    @instance.setter
    def instance(self, value: str) -> None:
        now = self._variables.get()
        self._variables.set(RunVariables(now.res, value, now.surroundings, now.account))

    @property
    def cwd(self) -> str:
        """The directory in which this run's external programs start, absolute."""
        cwd = self._variables.get().surroundings.cwd
        return cwd or os.getcwd()  # noqa: PTH109 - pathlib takes long to import

    @property
    def env(self) -> Mapping[str, str | None]:
        """The environment variables that the mission passes to this run's external programs."""
        return self._variables.get().surroundings.env

    @property
    def usage(self) -> RunUsage:
        """The use of the run's external programs that have ended."""
        return self._variables.get().account.usage

    @property
    def attempt(self) -> int:
        """The number of this attempt at the task, from 1."""
        past = self._variables.get().account.past
        return 1 if past is None else 1 + past.count

    @property
    def last(self) -> LastAttempt | None:
        """The end of the attempt before this one; None if this is the first."""
        return self._variables.get().account.past

    @property
    def account(self) -> Account:
        """The account of this run, to which its external programs are charged."""
        return self._variables.get().account

    def account_in(self, context: Context) -> Account:
        """Return the account of the run that a context belongs to.

        Unlike `account` it also answers for another task, as by ``task.context``, and in a thread
        that may not enter the context.
        """
        return context.get(self._variables, _OUTSIDE).account

    def is_all_but(self, before: Context) -> bool:
        """Return True if the current context differs from another one in these variables only."""
        own, now = self._variables, copy_context()
        if len(now) - (own in now) != len(before) - (own in before):
            return False
        return all(before.get(one) is value or one is own for one, value in now.items())

    @property
    def surroundings(self) -> Surroundings:
        """All that a worker gives a run beside resources and name: at least ``cwd``, ``env``."""
        return self._variables.get().surroundings

    @surroundings.setter
    def surroundings(self, value: Surroundings) -> None:
        now = self._variables.get()
        self._variables.set(RunVariables(now.res, now.instance, value, now.account))

    @contextmanager
    def scope(
        self,
        res: Resource,
        instance: str = "",
        *,
        cwd: str = "",
        env: Mapping[str, str | None] = _NONE,
    ) -> Iterator[None]:
        """Set the variables for the duration of a ``with`` block, as tests of tasklets need."""
        account = self._variables.get().account
        surroundings = PlainSurroundings(cwd, env)
        token = self._variables.set(RunVariables(res, instance, surroundings, account))
        try:
            yield
        finally:
            self._variables.reset(token)

    def __repr__(self) -> str:
        return f"<grain.GVAR res={self.res!r} instance={self.instance!r}>"

    def __reduce__(self) -> str:
        return "GVAR"


# Pickled as the name `grain.GVAR`: the private module is not part of what travels.
GrainVar.__module__ = "grain"

GVAR = GrainVar()
