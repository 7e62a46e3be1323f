"""The option ``--warn`` of ``grain map`` and ``grain submit``: a file, or a signal."""

from __future__ import annotations

import signal
from pathlib import PurePath

from grain.inputs.errors import InputError

BEFORE = 60.0
"""Seconds from the warning to the end, where none are stated."""

STOPPED_SOFTLY = "its program has stopped after a warning"
"""The reason, as text, for which a run was handed back."""

MANY = 10
"""Attempts after which it is doubtful that a program goes on from what it has stored."""


SOFT_STOPS = 100
"""Attempts in a row that may be handed back so, after which the task fails.

A program that begins from the start each time would take workers without end. One that goes on
has had a hundred lives of workers by then, which is three months where these last a day.
"""


def soft_stop_text(attempts: int) -> str:
    """Return a clause on a run that was handed back so, the last one of so many attempts."""
    doubt = (
        f"; if it does not go on from what it has stored, it fails after {SOFT_STOPS} of these in "
        "a row"
    )
    return STOPPED_SOFTLY + (doubt if attempts >= MANY else "")


def parse_warning(text: str) -> tuple[str, str] | int:
    """Return the name and the text of a file, or the number of a signal.

    >>> parse_warning("STOPCAR=LSTOP = .TRUE.")
    ('STOPCAR', 'LSTOP = .TRUE.')

    Raises:
        InputError: it is neither.
    """
    if text in signal.Signals.__members__:
        return int(signal.Signals[text])
    name, _, content = text.partition("=")
    if not PurePath(name).name or "\0" in text or name.startswith("SIG"):
        raise InputError(
            f"--warn {text}: write the name of a file that the program looks for, as EXIT, or "
            "STOPCAR=TEXT; or a signal, as SIGTERM"
        )
    return name, content


def check_before(before: float, limit: float | None, option: str) -> None:
    """Refuse a warning that would be given as the program begins.

    Args:
        before: the seconds of ``--warn-before``.
        limit: the time limit in seconds; None without one.
        option: the option that states it.

    Raises:
        InputError: it would.
    """
    if limit is not None and limit <= before:
        raise InputError(
            f"--warn-before {before:g} is not shorter than {option} {limit:g}, so the program "
            "would be warned as it begins"
        )
