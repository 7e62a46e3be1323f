"""The functions of a mission as bytes: made once for each, and kept once for each content.

A loop may make a function for each of its calls: a bound method is a new object whenever it is
looked up, and so is every partial. Those are forgotten with the object, and equal bytes are one.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.worker.payload import Function


class Functions:
    """What functions are as bytes, by identity as long as they live.

    Args:
        dump: makes bytes of one.
    """

    def __init__(self, dump: Callable[[Any], Function]) -> None:
        self._dump = dump
        # What returns the function, or None when it is no more; and its bytes.
        self._known: dict[int, tuple[Callable[[], Any], Function]] = {}
        self._by_digest: dict[bytes, Function] = {}

    def find(self, fn: Callable[..., Any]) -> Function:
        """A function as bytes, as it was when it was first asked for.

        Raises:
            Exception: what ``dump`` raises.
        """
        number = id(fn)
        known = self._known.get(number)
        if known is not None and known[0]() is fn:
            return known[1]
        function = self._dump(fn)
        function = self._by_digest.setdefault(function.digest, function)
        held: Callable[[], Any]
        try:
            held = weakref.ref(fn, lambda _: self._known.pop(number, None))
        except TypeError:  # as of an object with slots; so it is kept
            held = lambda: fn  # noqa: E731
        self._known[number] = held, function
        return function
