"""The words of a log of runs: requests, amounts of resources, and texts in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.resource import Cores, Either, Gang, Resource, to_data

if TYPE_CHECKING:
    from collections.abc import Iterable

_MESSAGE = 500  # characters of an exception's text


class RequestWords:
    """Requests as they stand in a log; most tasks bring the same object as the one before.

    Args:
        most: how many are remembered: each task of a mission may ask for something else.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._last: Resource | None = None
        self._words: tuple[dict[str, float], str] = ({}, "")
        self._all: dict[Resource, tuple[dict[str, float], str]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def of(self, request: Resource) -> tuple[dict[str, float], str]:
        """Return the amounts of a request by kind, and its text.

        Of alternatives the amounts are those of the first one, and of several workers those of
        each.
        """
        if request is not self._last:
            words = self._all.get(request)
            if words is None:
                if len(self._all) >= self._most:
                    self._all.clear()
                first = request.alternatives()[0]
                words = self._all[request] = (_each(first), request.ask())
            self._last, self._words = request, words
        return self._words

    @staticmethod
    def others(request: Either) -> tuple[dict[str, float], ...]:
        """Return the amounts of the alternatives of a request behind the first one."""
        return tuple(_each(one) for one in request.alternatives()[1:])

    @staticmethod
    def members(request: Resource) -> tuple[int, ...]:
        """Return the number of workers that each alternative takes; nothing if all take one."""
        counts = tuple(members_of(one) for one in request.alternatives())
        return counts if max(counts) > 1 else ()


def members_of(request: Resource) -> int:
    """Return the number of workers that a request without alternatives takes at once."""
    return request.count if isinstance(request, Gang) else 1


def cores_held(request: Resource, worker: float) -> float:
    """Return how many cores a task has that asks for all of a worker; 0 if it does not.

    Args:
        request: without alternatives.
        worker: the cores of its worker. Of a task on several, the others count as this one.
    """
    part = request.get(Cores)
    is_all = isinstance(part, Cores) and part.is_all
    return worker * members_of(request) if is_all else 0.0


def _each(request: Resource) -> dict[str, float]:
    """Return the amounts of a request without alternatives on each worker."""
    return amounts(to_data(request.member if isinstance(request, Gang) else request))


def amounts(data: dict[str, Any]) -> dict[str, float]:
    """Return resources as numbers by kind, from plain data: GB, seconds, or how many there are.

    A kind that is not a quantity, as a token, counts as 1. Left out are a time without a limit, and
    the memory of a group that states no maximum.
    """
    numbers: dict[str, float] = {}
    for kind, part in data.items():
        match part:
            case bool() | str() | None:
                numbers[kind] = 1
            case int() | float():
                numbers[kind] = part
            case list():  # of ids, some with the part of it that counts
                numbers[kind] = sum(one[1] if isinstance(one, list) else 1 for one in part)
            case {"N": int() as number} | {"ids": int() as number}:
                numbers[kind] = number
            case {"ids": list() as ids}:
                numbers[kind] = len(ids)
            case {"T": float() | int() as seconds}:
                numbers[kind] = seconds
            case {"M": float() | int() as gb}:
                numbers[kind] = gb
            case dict() if kind in ("WTime", "Memory"):
                pass
            case dict() if kind == "Licences":
                numbers[kind] = sum(part.values())
            case _:
                numbers[kind] = 1
    return numbers


def one_line(text: str) -> str:
    """Return a text in one line, with a semicolon for each end of a line, and shortened.

    What is left out is in the middle: a program that fails often says why in its last lines.
    """
    lines = [words for line in text.splitlines() if (words := " ".join(line.split()))]
    whole = _joined(lines)
    if len(whole) <= _MESSAGE:
        return whole
    first = _whole_lines(lines)
    last = _whole_lines(lines[:0:-1])[::-1]
    if not first or not last or len(lines) < 3:
        half = (_MESSAGE - 3) // 2
        return f"{whole[:half]}...{whole[half + 3 - _MESSAGE :]}"
    return f"{_joined(first)}; ...; {_joined(last)}"


def _joined(lines: Iterable[str]) -> str:
    text = ""
    for line in lines:
        between = "" if not text else " " if text.endswith((":", ";", ",")) else "; "
        text = f"{text}{between}{line}"
    return text


def _whole_lines(lines: Iterable[str]) -> list[str]:
    """Return as many lines from the first on as are half a message at most."""
    room = _MESSAGE // 2 - 5
    some: list[str] = []
    for line in lines:
        room -= len(line) + 2
        if room < 0:
            break
        some.append(line)
    return some
