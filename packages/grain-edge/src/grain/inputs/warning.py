"""The option ``--warn`` of ``grain map`` and ``grain submit``: a file, or a signal."""

from __future__ import annotations

import re
import signal
from pathlib import PurePath

from grain.inputs.errors import InputError

BEFORE = 60.0
"""Seconds from the warning to the end, where none are stated."""


_OTHERWISE = re.compile(r"(?a)(?:B:)?(?:SIG)?([A-Z]+\d?)(?:@\d*)?")  # as for --signal


def meant_signal(text: str) -> str:
    """Return the signal that a text names as ``kill`` or ``--signal`` do, which no file is called.

    It is "" for the name of a file, and for the signal as it is to be written. A program may look
    for a file STOP, and can handle no such signal.

    >>> meant_signal("B:USR2@60")
    'SIGUSR2'
    """
    match = _OTHERWISE.fullmatch(text)
    name = f"SIG{match[1]}" if match is not None else ""
    return name if name in signal.Signals.__members__ and text not in (name, "STOP") else ""


def parse_warning(text: str) -> tuple[str, str] | int:
    """Return the name and the text of a file, or the number of a signal.

    >>> parse_warning("STOPCAR=LSTOP = .TRUE.")
    ('STOPCAR', 'LSTOP = .TRUE.')

    Raises:
        InputError: it is neither, or a signal that is written otherwise, or that no program can
            handle.
    """
    if text in ("SIGKILL", "SIGSTOP"):
        raise InputError(f"--warn {text}: no program can handle that signal")
    if text in signal.Signals.__members__:
        return int(signal.Signals[text])
    if meant := meant_signal(text):
        raise InputError(
            f"--warn {text}: for the signal write {meant}, and its seconds as --warn-before; for a "
            f"file of that name, ./{text}"
        )
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
