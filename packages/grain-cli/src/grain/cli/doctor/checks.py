"""What a check of ``grain doctor`` finds, and how checks are run.

Each is a function that returns findings; none raises or takes long by itself. What may hang, a
filesystem or a batch system, is run by `within`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 15.0
"""Seconds that a check may take."""


class Finding(NamedTuple):
    """What a check found.

    Attributes:
        check: What was looked at.
        state: How it is.
        says: A sentence.
        fix: What to do; empty if nothing is to be done.
    """

    check: str
    state: Literal["ok", "warn", "fail"]
    says: str
    fix: str = ""


def within(seconds: float, check: str, function: Callable[[], list[Finding]]) -> list[Finding]:
    """Run a check in a thread; one that does not return in time has failed, and is left behind."""
    found: list[Finding] = []

    def run() -> None:
        try:
            found.extend(function())
        # A bug in a check must not hide what the others have found.
        except Exception as error:
            found.append(Finding(check, "fail", f"{type(error).__name__}: {error}"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        what = f"no answer within {seconds:g} s"
        return [Finding(check, "fail", what, "It hangs; ask who runs the cluster.")]
    return found
