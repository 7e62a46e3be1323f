"""The environment variables that a start keeps for the next one.

A start that is made again, perhaps on another host and from another terminal, needs what modules
and environments of packages have set, but not what belongs to the terminal and the login. Secrets
are not written to a file: they are taken from the shell in which `grain resume` is typed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_THE_LOGIN = re.compile(
    r"(SSH_.*|XDG_(SESSION|SEAT|VTNR|RUNTIME).*|DBUS_.*|DISPLAY|WAYLAND_.*|XAUTHORITY|TERM.*"
    r"|COLORTERM|TMUX.*|STY|WINDOW.*|COLUMNS|LINES|SHLVL|PWD|OLDPWD|_|GPG_.*|LS_COLORS"
    r"|KRB5CCNAME|HISTFILE|PROMPT_.*|PS[1-4]|VTE_.*|KITTY_.*|INVOCATION_ID|JOURNAL_STREAM|GRAIN_RESUMED)"
)
_SECRET = re.compile(r"(?i)(.*_|)(token|secret|password|passwd|passphrase|credentials?|key)(_.*|)")


def is_secret(name: str) -> bool:
    """Return True if a variable of that name may hold a secret.

    >>> [is_secret(one) for one in ("GITHUB_TOKEN", "API_KEY", "KEYBOARD", "PASSWORD_FILE")]
    [True, True, False, True]
    """
    return _SECRET.fullmatch(name) is not None


def kept(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a further start gets again."""
    return {
        name: value
        for name, value in env.items()
        if not _OF_THE_LOGIN.fullmatch(name) and not is_secret(name)
    }


def restored(start: Mapping[str, str], here: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a further start."""
    own = {
        name: value
        for name, value in here.items()
        if _OF_THE_LOGIN.fullmatch(name) or is_secret(name)
    }
    return {**start, **own}
