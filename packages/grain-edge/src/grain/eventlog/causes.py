"""Failures by their cause, so that fifty of a kind take one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grain.eventlog.schema import RunEnded

# What differs between failures that are alike: paths, quoted texts, addresses, numbers.
_DIFFERENT = re.compile(
    r"(?:~|\.{0,2})/[\w./+@%-]+|'[^']*'|\"[^\"]*\"|0x[0-9a-fA-F]+|\d+(?:\.\d+)?"
)
# These numbers are the cause.
_KEPT = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: code| status)?|status|signal) -?\d+", re.IGNORECASE
)
_WORDS = {"crashed": "its process died", "lost": "its worker is gone", "cancelled": "cancelled"}


def cause_of(end: RunEnded) -> str:
    """Return the cause of a failure: its class and message without what differs between likes.

    Paths, quoted texts and numbers become ``...``, but for exit statuses and signals.
    """
    text = end.message or _WORDS.get(end.outcome, "")
    pieces = []
    at = 0
    for kept in _KEPT.finditer(text):
        pieces += [_DIFFERENT.sub("...", text[at : kept.start()]), kept[0]]
        at = kept.end()
    pieces.append(_DIFFERENT.sub("...", text[at:]))
    message = "".join(pieces)
    return f"{end.error}: {message}" if end.error and message else end.error or message
