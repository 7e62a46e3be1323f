"""Runs whose programs have stopped softly, after a warning: the words, and how many may be."""

from __future__ import annotations

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
