"""Hosts that end the processes of a user who logs out: systemd with ``KillUserProcesses=yes``.

logind.conf(5) has the rule: the processes of the session's scope end with the session. A process in
a scope of the user's own manager stays, if the user may *linger*: systemd-run(1), loginctl(1).
"""

from __future__ import annotations

import shutil
import subprocess
from typing import NamedTuple

from grain.files.processes import user_name

_PATIENCE = 5.0  # seconds for an answer of logind


class Logout(NamedTuple):
    """The rule of a host for the processes of a user who logs out.

    Attributes:
        lingers: True if the user's own manager goes on.
    """

    ends: bool
    lingers: bool

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words before a command line that is to outlive the session."""
        return ("systemd-run", "--user", "--scope", "--quiet", "--") if self.ends else ()

    def problem(self, otherwise: str) -> str:
        """Return why nothing outlives the session, with remedies; "" if something does.

        Args:
            otherwise: the other remedy, as the end of a sentence.
        """
        if not self.ends or self.lingers:
            return ""
        return (
            "this host ends your processes when you log out (KillUserProcesses=yes in logind.conf);"
            f" run `loginctl enable-linger` once and try again, or {otherwise}"
        )


def at_logout() -> Logout:
    """Ask this host; one without systemd ends nothing."""
    if shutil.which("loginctl") is None:
        return Logout(ends=False, lingers=False)
    user = user_name()
    manager = _properties(["loginctl", "show-session"])
    own = _properties(["loginctl", "show-user", user])
    return judge(manager, own, user)


def judge(manager: dict[str, str], own: dict[str, str], user: str) -> Logout:
    """Return what happens at logout, by the properties of logind and of the user.

    >>> judge({"KillUserProcesses": "yes", "KillExcludeUsers": "root"}, {"Linger": "no"}, "me")
    Logout(ends=True, lingers=False)
    """
    only = manager.get("KillOnlyUsers", "").split()
    ends = (
        manager.get("KillUserProcesses") == "yes"
        and user not in manager.get("KillExcludeUsers", "").split()
        and (not only or user in only)
    )
    return Logout(ends=ends, lingers=own.get("Linger") == "yes")


def _properties(command: list[str]) -> dict[str, str]:
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = (line.partition("=") for line in done.stdout.splitlines())
    return {name: value for name, _, value in lines}
