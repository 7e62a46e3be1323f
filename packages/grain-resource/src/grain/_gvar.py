"""`GVAR`: the variables by which a running tasklet sees its own run."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.resource import Resource


class GrainVar:
    """The context-local variables of the running tasklet; ``grain.GVAR`` is the only instance.

    Attributes:
        res: The resources allocated to this run. ``ZERO`` (``Ø``) where none were asked for.
        instance: The name of the worker that executes this run, or an empty string outside of a
            worker (as in a branch, which runs in the mission itself).

    Each trio task sees the values of the run it belongs to. Setting an attribute changes it for
    the current task and for the tasks started from it afterwards, as with any
    `contextvars.ContextVar`.

    GVAR pickles by name, so a function that mentions it can travel to a worker.
    """

    __slots__ = ("_instance", "_res")

    def __init__(self) -> None:
        self._res: ContextVar[Resource] = ContextVar("grain.GVAR.res")
        self._instance: ContextVar[str] = ContextVar("grain.GVAR.instance", default="")

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

    @contextmanager
    def scope(self, res: Resource, instance: str = "") -> Iterator[None]:
        """Set both variables for the duration of a ``with`` block, as tests of tasklets need."""
        res_token = self._res.set(res)
        instance_token = self._instance.set(instance)
        try:
            yield
        finally:
            self._instance.reset(instance_token)
            self._res.reset(res_token)

    def __repr__(self) -> str:
        return f"<grain.GVAR res={self.res!r} instance={self.instance!r}>"

    def __reduce__(self) -> str:
        return "GVAR"


# Pickled as the name `grain.GVAR`: the private module is no part of what travels.
GrainVar.__module__ = "grain"

GVAR = GrainVar()
