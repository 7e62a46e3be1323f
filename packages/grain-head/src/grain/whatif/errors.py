"""What cannot be replayed."""


class WhatIfError(Exception):
    """A log or a scenario cannot be replayed; the text says why, and what to do."""
