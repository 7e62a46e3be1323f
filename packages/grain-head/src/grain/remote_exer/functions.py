"""Functions as bytes: made once for each function object, and forgotten with it.

A loop may make a function for each of its calls: a bound method is a new object whenever it is
looked up, and so is every partial. So what is kept here goes with the object. The bytes themselves
are in `grain.remote_exer.session.MissionSession`, once for each content, as long as the mission
lasts: a task that names them may have to be submitted again.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.worker.payload import Function


class FunctionCache:
    """The function objects seen so far, each with its bytes, by identity as long as they live.

    Args:
        define: makes bytes of a function; the earlier bytes, where they are equal.
    """

    def __init__(self, define: Callable[[Any], Function]) -> None:
        self._define = define
        # By id: what returns the object, or None when it is no more; and its bytes. Another object
        # may get the same id before the callback of the first has run, so it is compared.
        self._seen: dict[int, tuple[Callable[[], Any], Function]] = {}

    def find(self, fn: Callable[..., Any]) -> Function:
        """Return a function as bytes, as it was when it was first passed.

        Raises:
            Exception: as raised by ``define``.
        """
        number = id(fn)
        seen = self._seen.get(number)
        if seen is not None and seen[0]() is fn:
            return seen[1]
        function = self._define(fn)
        held: Callable[[], Any]
        try:
            held = weakref.ref(fn, lambda _: self._seen.pop(number, None))
        except TypeError:  # an object with slots: it is kept alive, or its id would be reused
            held = lambda: fn  # noqa: E731
        self._seen[number] = held, function
        return function
