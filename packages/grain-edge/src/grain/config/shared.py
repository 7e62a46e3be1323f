"""The resources of the whole cluster, ``[head.res]``, and what workers have beside their jobs.

Where a number of the cluster stands, a table with a ``command`` may stand, with the ``pattern`` for
its output and the time between two commands, ``every``: one of these is a *count*.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from grain.config.expansion import Unfit
from grain.config.walltime import parse_walltime

if TYPE_CHECKING:
    from collections.abc import Callable

_COUNT = frozenset({"command", "pattern", "every"})
_JOB = "state it in [script], or in [worker.res]"
_OF_WORKERS = {
    **dict.fromkeys(("Cores", "Memory", "WTime"), _JOB),
    **dict.fromkeys(("GPUs", "Token", "Host", "Capacity", "Node"), "state it in [worker.res]"),
}


def counted(name: str, data: object) -> object:
    """Return what the cluster has of a kind, with all counts complete.

    Raises:
        Unfit: the kind belongs to workers, a number is negative, or a count makes no sense.
    """
    if name in _OF_WORKERS:
        raise Unfit(f"{name} belongs to a worker: {_OF_WORKERS[name]}")
    return _counted(name, data)


def with_counts(data: Any, count: Callable[[dict[str, Any]], int]) -> Any:
    """Return what the cluster has of a kind, with a number in the place of each count.

    Args:
        data: as `counted` returns it.
        count: returns the number for a count: a table of command, pattern and every.
    """
    if isinstance(data, dict):
        if data.keys() & _COUNT:
            return count(data)
        return {name: with_counts(one, count) for name, one in data.items()}
    return [with_counts(one, count) for one in data] if isinstance(data, list) else data


def check_shared(value: object) -> None:
    """Refuse what is not a resource of its kind, where that kind is known here.

    Raises:
        Unfit: it is not one.
    """
    from grain.resource import UnknownKind, from_data

    assert isinstance(value, dict)
    for name, data in value.items():
        try:
            from_data({name: with_counts(data, lambda _: 1)})
        except (UnknownKind, ImportError):
            continue  # of a package that only the host of the scheduler has, or can import
        except ValueError as error:
            raise Unfit(str(error)) from None


def check_offered(value: object) -> None:
    """Refuse what a worker cannot offer, of the kinds that are known here.

    Raises:
        Unfit: it is not a resource of its kind, or only a task can ask for it.
    """
    from grain.resource import UnknownKind, check_offer, from_data

    assert isinstance(value, dict)
    for name, data in value.items():
        if name == "auto" or data == "auto" or (isinstance(data, dict) and "auto" in data):
            continue  # the worker finds out how many there are
        try:
            check_offer(from_data({name: data}))
        except (UnknownKind, ImportError):
            continue  # of a package that only the workers have, or can import
        except (TypeError, ValueError) as error:
            raise Unfit(str(error)) from None


def _counted(where: str, data: object) -> object:
    if isinstance(data, list):
        return [_counted(where, one) for one in data]
    if isinstance(data, dict):
        if data.keys() & _COUNT:
            return _complete(where, data)
        return {name: _counted(f"{where}.{name}", one) for name, one in data.items()}
    if isinstance(data, int | float) and data < 0:
        raise Unfit(f"{where} = {data} is negative: state how many there are, 0 or more")
    return data


def _complete(where: str, count: dict[str, object]) -> dict[str, object]:
    """Return a count with its defaults."""
    others = ", ".join(sorted(count.keys() - _COUNT))
    if others:
        raise Unfit(f"{where} has a command and {others}: state one of them, a command or a number")
    command, pattern = count.get("command"), count.get("pattern", "(?P<total>[0-9]+)")
    if not isinstance(command, str) or not command.strip() or not command.isprintable():
        raise Unfit(f"{where}: the command is one line, as in command = 'lmstat -f VASP'")
    try:
        groups = re.compile(str(pattern)).groupindex
    except re.error as error:
        raise Unfit(f"{where}: the pattern is not a regular expression: {error}") from None
    if "total" not in groups or not isinstance(pattern, str):
        raise Unfit(
            f"{where}: the pattern has a group total, as in 'Total of (?P<total>[0-9]+) licenses', "
            "for the number of all, and may have a group used, for those in use"
        )
    try:
        every = parse_walltime(count.get("every", 60))
    except Unfit:
        every = 0
    if not every:
        raise Unfit(
            f"{where}: the time between two commands, every, is a span of time of 1 s or more, as "
            "in every = '60s'"
        )
    return {"command": command.strip(), "pattern": pattern, "every": every}
