"""Failures by their cause, so that fifty of a kind take one line."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from grain.eventlog.causes import RunFailure
from grain.eventlog.usage import RunMember
from grain.facts.rows import Run
from grain.head import flattened
from grain.worker.errors import ExternalError

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from grain.facts.rows import Cause, Causes
    from grain.head.events import TaskFailed

_FEW = 3  # exceptions in a group that are printed one by one
_CAUSES = 3  # causes that are named
_WIDTH = 100  # characters of the message of an exception


def cause_of(error: BaseException) -> str:
    """Return the cause of a failure in a few words, equal for failures that are alike.

    An external program that ended by itself has its exit code or signal; other exceptions have
    their class.
    """
    name = type(error).__qualname__
    if isinstance(error, ExternalError) and error.returncode is not None:
        return f"{name} {error.signal or f'exit {error.returncode}'}"
    return name


def count_failure(causes: Causes, failed: TaskFailed) -> None:
    """Count a task that has failed. The first one of each cause has its call."""
    cause = causes.add(_alike(failed.error))
    if cause.runs == 1:
        members = (RunMember(worker=failed.worker),) if failed.worker else ()
        cause.first = replace(cause.first, call=failed.call(), members=members)


def take_back(causes: Causes, error: BaseException) -> None:
    """Forget the failure that was counted last: another attempt of the task follows it."""
    causes.take_back(_alike(error))


def _alike(error: BaseException) -> Run:
    """Return a run that has failed so, without what tells it from others."""
    return Run(task=0, state="error", failure=RunFailure(error=cause_of(error)))


def causes_text(causes: Causes) -> str:
    """Return the causes in words, the most frequent first."""
    found = causes.frequent()
    texts = [_text(cause) for cause in found[:_CAUSES]]
    if len(found) > _CAUSES:
        rest = sum(cause.runs for cause in found[_CAUSES:])
        texts.append(_rest(rest, len(found) - _CAUSES))
    return "; ".join(texts)


def _text(cause: Cause) -> str:
    first = cause.first
    where = f" on {first.worker}" if first.worker else ""
    return f"{cause.runs} x {cause.kind}, first: {first.call}{where}"


class GroupedFailures(Exception):
    """A stand-in for a large group that Python is to print: one entry for each cause.

    It is printed under the name of the class whose place it takes.
    """

    __module__ = "builtins"
    __qualname__ = "ExceptionGroup"


def grouped(error: BaseException) -> BaseException:
    """Return what is to be printed for an exception: for a large group, a stand-in.

    The stand-in has the same traceback.
    """
    errors = flattened(error)
    if len(errors) <= _FEW or not isinstance(error, BaseExceptionGroup):
        return error
    by_cause: dict[str, list[BaseException]] = {}
    for one in errors:
        by_cause.setdefault(cause_of(one), []).append(one)
    alike = sorted(by_cause.items(), key=lambda item: -len(item[1]))
    lines = [f"{error.message} (GRAIN_TRACEBACK=full shows all of them)"]
    for cause, members in alike[:_CAUSES]:
        first = members[0]
        lines += [f"  {len(members)} x {cause}{_place(first)}", f"      {_sentence(first)}"]
    if len(alike) > _CAUSES:
        rest = sum(len(members) for _, members in alike[_CAUSES:])
        lines.append(f"  {_rest(rest, len(alike) - _CAUSES)}")
    stand_in = GroupedFailures("\n".join(lines))
    return stand_in.with_traceback(error.__traceback__)


def _rest(failures: int, causes: int) -> str:
    """Return how many failures are not described.

    >>> _rest(9, 3), _rest(1, 1)
    ('9 more for 3 other causes', '1 more for another cause')
    """
    return f"{failures} more for {'another cause' if causes == 1 else f'{causes} other causes'}"


def _place(error: BaseException) -> str:
    """Return the line of code where an exception was raised, as far as its frames show it."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ", the first:"
    last = frames[-1]
    return f", the first in {last.name} ({Path(last.filename).name}, line {last.lineno}):"


def _sentence(error: BaseException) -> str:
    """Return the first line of an exception's message, shortened."""
    try:
        line = str(error).strip().partition("\n")[0]
    except Exception:  # a __str__ of the user's may raise anything
        line = ""
    line = line or "(it has no message)"
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
