"""`GVAR`: the variables by which a running tasklet sees its own run."""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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


_PLAIN: Surroundings = PlainSurroundings()


class GrainVar:
    """The context-local variables of the running tasklet; ``grain.GVAR`` is the only instance.

    Attributes:
        res: The resources allocated to this run. ``ZERO`` (``Ø``) where none were asked for.
        instance: The name of the worker that executes this run, or an empty string outside of a
            worker (as in a branch, which runs in the mission itself).
        cwd: The directory in which the run's external programs start: that of the mission, where
            the worker has it, else the worker's own; outside of a worker that of the process. Use
            it for relative paths in Python code, as in ``open(f"{GVAR.cwd}/energy.out")``:
            `os.getcwd` returns the worker's directory, as all tasks of a worker share a process.
        env: The environment variables that the mission passes to its programs, ``run(env=...)``;
            None as a value removes one. `grain.worker.external.run_external` applies them.

    Each trio task sees the values of the run it belongs to. Setting an attribute changes it for
    the current task and for the tasks started from it afterwards, as with any
    `contextvars.ContextVar`.

    GVAR pickles by name, so a function that mentions it can travel to a worker.
    """

    __slots__ = ("_instance", "_res", "_surroundings")

    def __init__(self) -> None:
        self._res: ContextVar[Resource] = ContextVar("grain.GVAR.res")
        self._instance: ContextVar[str] = ContextVar("grain.GVAR.instance", default="")
        # One variable, as to set one costs about as much as all else that a worker does for a run.
        self._surroundings: ContextVar[Surroundings] = ContextVar(
            "grain.GVAR.surroundings", default=_PLAIN
        )

    @property
    def res(self) -> Resource:
        """The resources allocated to this run."""
        try:
            return self._res.get()
        except LookupError:
            # Imported here, so that the name GVAR alone does not cost the import of the algebra.
            from grain.resource import ZERO

            return ZERO

    @res.setter
    def res(self, value: Resource) -> None:
        self._res.set(value)

    @property
    def instance(self) -> str:
        """The name of the worker that executes this run."""
        return self._instance.get()

    @instance.setter
    def instance(self, value: str) -> None:
        self._instance.set(value)

    @property
    def cwd(self) -> str:
        """The directory in which this run's external programs start, absolute."""
        cwd = self._surroundings.get().cwd
        return cwd or os.getcwd()  # noqa: PTH109 - pathlib takes long to import

    @property
    def env(self) -> Mapping[str, str | None]:
        """The environment variables that the mission passes to this run's external programs."""
        return self._surroundings.get().env

    @property
    def surroundings(self) -> Surroundings:
        """All that a worker gives a run beside resources and name: at least the two above."""
        return self._surroundings.get()

    @surroundings.setter
    def surroundings(self, value: Surroundings) -> None:
        self._surroundings.set(value)

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
        res_token = self._res.set(res)
        instance_token = self._instance.set(instance)
        token = self._surroundings.set(PlainSurroundings(cwd, env))
        try:
            yield
        finally:
            self._surroundings.reset(token)
            self._instance.reset(instance_token)
            self._res.reset(res_token)

    def __repr__(self) -> str:
        return f"<grain.GVAR res={self.res!r} instance={self.instance!r}>"

    def __reduce__(self) -> str:
        return "GVAR"


# Pickled as the name `grain.GVAR`: the private module is no part of what travels.
GrainVar.__module__ = "grain"

GVAR = GrainVar()
