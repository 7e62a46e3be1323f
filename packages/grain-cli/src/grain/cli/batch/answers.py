"""Read the answers of batch systems. Pure."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from grain.cli.batch.base import JobPhase, JobState
from grain.cli.batch.errors import BatchUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


def unreadable(command: str, output: str) -> BatchUnreadable:
    """Make the error for an answer that is not in the expected form."""
    return BatchUnreadable(
        f"{command} printed something that Grain cannot read",
        "\n".join(output.strip().splitlines()[:5]) or "(nothing)",
        "Grain may not know this version. Please report it, together with this text.",
    )


@contextmanager
def reading(command: str, output: str) -> Iterator[None]:
    """Read an answer in the block.

    Raises:
        BatchUnreadable: it is not in the form that the block expects.
    """
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError):
        raise unreadable(command, output) from None


def last_line(output: str) -> str:
    """Return the last line of an output, without blanks around it; "" if there is none."""
    return (output.strip().splitlines() or [""])[-1].strip()


def complains_only(pattern: str, output: str) -> bool:
    """Return True if each line of an error message matches, as that for a job that has ended."""
    return all(re.search(pattern, line) for line in output.splitlines() if line.strip())


def or_gone(listed: Mapping[str, JobState], ids: Iterable[str]) -> dict[str, JobState]:
    """Return the state of each job; one that the batch system does not list has ended."""
    return {one: listed.get(one, JobState(JobPhase.GONE)) for one in ids}


def by_name(
    listed: Iterable[tuple[str, str]],
    names: Iterable[str],
    written: Callable[[str], str] = lambda name: name,
) -> dict[str, list[str]]:
    """Return the ids of the jobs of each name, the answer of `BatchSystem.find`.

    Args:
        written: returns a job's name as the batch system knows it.
    """
    jobs = list(listed)
    return {name: [one for one, other in jobs if other == written(name)] for name in names}
