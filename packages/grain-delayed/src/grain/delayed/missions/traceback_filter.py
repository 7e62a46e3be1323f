"""Short tracebacks for errors that the user's configuration, files or cluster cause.

A directory that lets others in, a scheduler that takes no more missions, a misspelt key: the
sentence of such an error says what to do. A hundred lines of frames of Grain and trio above it hide
the sentence, and whoever reads them cannot change anything there. So Python shows such an error as
if it began where the user's program called Grain. The whole traceback stays with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class WholeTraceback(Exception):
    """The traceback, cause and context that a shortened error had before.

    It is the ``__context__`` of that error, which Python does not show.
    """


class TracebackFilter:
    """A ``with`` block that shortens the tracebacks of such errors.

    It is a class, since `contextlib` gives an exception that passes a generator its old traceback.

    Args:
        untouched: exceptions that the user's own code raised, whatever their class.
    """

    def __init__(self, untouched: Sequence[BaseException]) -> None:
        self._untouched = untouched

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Raise the exception of the block shortened, if it is such an error."""
        if error is None or any(error is one for one in self._untouched):
            return
        if _is_of_environment(error):
            raise shortened(error) from None


def shortened(error: BaseException) -> BaseException:
    """Return an exception without its traceback, to be raised ``from None``.

    The traceback moves to its context; a traceback that moved there before stays.
    """
    if not is_shortened(error):
        whole = WholeTraceback("before it was shortened").with_traceback(error.__traceback__)
        whole.__cause__, whole.__context__ = error.__cause__, error.__context__
        error.__context__ = whole
    return error.with_traceback(None)


def is_shortened(error: BaseException) -> bool:
    """Return True if an exception has been shortened."""
    return isinstance(error.__context__, WholeTraceback)


def _is_of_environment(error: BaseException) -> bool:
    if not isinstance(error, Exception):
        return False
    # Imported when there is an error: a mission that keeps to itself needs no network.
    from grain.config import ConfigError
    from grain.delayed.errors import CacheError
    from grain.edge.errors import EdgeError

    return isinstance(error, ConfigError | CacheError | EdgeError)
