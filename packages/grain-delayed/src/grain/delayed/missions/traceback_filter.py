"""An error of the user's surroundings is shown by its sentence, not by the way it took through us.

A directory that lets others in, a scheduler that takes no more missions, a key that is misspelt:
such an error says itself what to do. A hundred lines of our own frames above it, and of trio's,
hide that; nobody who reads them can change anything there.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_log = logging.getLogger("grain.delayed")


class Plainly:
    """Around what we do for the user: such errors are raised anew, as if they began here.

    What was cut off goes to the log, at level DEBUG; an `OSError` behind it stays its context.
    It is no generator, since `contextlib` gives an exception that passes its traceback back.

    Args:
        theirs: what the user's own code has raised meanwhile, which is not touched.
    """

    def __init__(self, theirs: Callable[[], Iterable[BaseException]]) -> None:
        self._theirs = theirs

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Raise it anew, if it is one."""
        if error is None or not _of_surroundings(error):
            return
        if any(error is one for one in self._theirs()):
            return
        _log.debug("the way of the error that ends the mission", exc_info=error)
        raise error.with_traceback(None) from None


def _of_surroundings(error: BaseException) -> bool:
    if not isinstance(error, Exception):
        return False
    # Imported when there is an error: a mission that keeps to itself needs no network.
    from grain.config import ConfigError
    from grain.delayed.errors import CacheError
    from grain.edge.errors import EdgeError

    return isinstance(error, ConfigError | CacheError | EdgeError)
