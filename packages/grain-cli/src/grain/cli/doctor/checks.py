"""The findings of ``grain doctor``, and a time limit for its checks.

A check is a function that returns findings. It may hang, on a filesystem or a batch system:
`within` limits its time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 15.0
"""Seconds that a check may take."""


class CheckResult(NamedTuple):
    """The result of a check."""

    check: str
    state: Literal["ok", "warn", "fail"]
    says: str
    fix: str = ""


def ok(check: str, says: str) -> CheckResult:
    """Return the result that all is well."""
    return CheckResult(check, "ok", says)


def warn(check: str, says: str, fix: str = "") -> CheckResult:
    """Return the result that something may go wrong."""
    return CheckResult(check, "warn", says, fix)


def fail(check: str, says: str, fix: str = "") -> CheckResult:
    """Return the result that something goes wrong."""
    return CheckResult(check, "fail", says, fix)


def within(
    seconds: float, check: str, function: Callable[[], list[CheckResult]]
) -> list[CheckResult]:
    """Run a check in a thread; a check that exceeds its time has failed, and its thread goes on."""
    findings: list[CheckResult] = []

    def run() -> None:
        try:
            findings.extend(function())
        # A bug in one check must not hide the findings of the others.
        except Exception as error:
            findings.append(fail(check, f"{type(error).__name__}: {error}"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        what = f"no answer within {seconds:g} s"
        return [fail(check, what, "It hangs; ask who runs the cluster.")]
    return findings
