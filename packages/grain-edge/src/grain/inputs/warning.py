"""The option ``--warn`` of ``grain map`` and ``grain submit``: a file, or a signal."""

from __future__ import annotations

import signal
from pathlib import PurePath

from grain.inputs.errors import InputError

BEFORE = 60.0
"""Seconds from the warning to the end, where none are stated."""


def parse_warning(text: str) -> tuple[str, str] | int:
    """Return the name and the text of a file, or the number of a signal.

    >>> parse_warning("STOPCAR=LSTOP = .TRUE.")
    ('STOPCAR', 'LSTOP = .TRUE.')

    Raises:
        InputError: it is neither, or no program can handle that signal.
    """
    if text in ("SIGKILL", "SIGSTOP"):
        raise InputError(f"--warn {text}: no program can handle that signal")
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
