"""The error of a submission."""

from __future__ import annotations

from grain.queue.errors import BadInput


class BadSubmission(BadInput):
    """A submission that makes no sense; the message says what to write."""
