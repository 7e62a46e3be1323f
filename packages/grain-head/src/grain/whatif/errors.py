"""The errors of replays."""


class WhatIfError(Exception):
    """A log or a scenario cannot be replayed; the text says why, and what to do."""
