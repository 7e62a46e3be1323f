"""The errors that end ``grain map`` itself, as opposed to a job that failed."""

from __future__ import annotations

import os


class MapError(Exception):
    """Base of the errors of this package; the sentence says what to change."""


class RequestError(MapError, ValueError):
    """The text of a request is not a resource."""


class ResultLogError(MapError):
    """The result log is another run's, in use, or no result log at all."""


def sentence_of(error: Exception) -> str | None:
    """Return the message for an error that the user can act upon; None for any other."""
    from grain.config import ConfigError
    from grain.edge.errors import EdgeError
    from grain.files.whole import FULL
    from grain.inputs.errors import InputsError
    from grain.resource import Infeasible, ResourceError

    if isinstance(error, OSError) and error.strerror:
        name = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        advice = "; make room there" if error.errno in FULL else ""
        return f"{name}{error.strerror}{advice}"
    if isinstance(error, Infeasible):
        return with_options(str(error))
    if isinstance(error, EdgeError):
        return f"{error}\nTo run only on this machine, without a scheduler, add -j N."
    if isinstance(error, (MapError, InputsError, ConfigError, ResourceError, OSError)):
        return str(error)
    return None


def with_options(why: str) -> str:
    """Return why no worker can run a job, with the options of ``grain map`` to change."""
    # What follows these words is advice for a program, which calls run().
    problem, advice, _ = why.partition(": ask for less")
    return f"{problem}{advice} by -r, or give more by --local" if advice else problem
