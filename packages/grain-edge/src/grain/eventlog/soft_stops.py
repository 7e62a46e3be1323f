"""Runs that workers have interrupted: for what, and how many may have stopped softly."""

from __future__ import annotations

from typing import Literal

Interruption = Literal["", "short", "stopped"]
"""For what a worker has interrupted a run, apart from the end of its time.

``"short"``: its node was short of memory. ``"stopped"``: its program has stopped softly, after a
warning, and goes on elsewhere. Empty for any other end. Sentences only display it.
"""

STOPPED_SOFTLY = "its program has stopped after a warning"
"""``"stopped"`` as text."""

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
