"""From the text of a value to its meaning: ``$HOME`` and ``~``, ``{{HHMMSS}}``, ``defer``.

Everything here is a pure function of its arguments, among them the environment and the time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Mapping

_VARIABLE = re.compile(r"\$(?:(\$)|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\}|(\{))")
_OWN_HOME = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*://)?)~(?=/|$)")
_OTHER_HOME = re.compile(r"(?:edge://)?(~[^/]+)")
_PLACEHOLDER = re.compile(r"\{\{\s*(\w*)\s*\}\}")
_DEFER = "defer"


class Unfit(ValueError):
    """A value does not fit its key; the text, if any, adds to what the key's kind expects."""


def expand_place(text: str, env: Mapping[str, str]) -> str:
    """Expand ``~``, ``$NAME`` and ``${NAME}`` in a path or an address.

    ``~`` counts at the start of a path and right after ``scheme://``. Any variable may be named,
    for clusters whose shared file systems are known as ``$SCRATCH`` or ``$WORK``. ``$$`` stands
    for a dollar sign, and so does a ``$`` that no name follows.

    Raises:
        Unfit: a variable is not set. Left empty, as the shell does, ``$SCRATCH/edge`` would
            quietly mean ``/edge``; left as it is, a directory of the name ``$SCRATCH``.
    """
    if other := _OTHER_HOME.match(text):
        raise Unfit(f"only your own home directory can be written as ~, not {other[1]!r}")

    def value(name: str) -> str:
        if name not in env:
            raise Unfit(f"the environment variable {name} is not set here, where the file is read")
        return env[name]

    def replace(match: re.Match[str]) -> str:
        dollar, plain, braced, unclosed = match.groups()
        if unclosed:
            raise Unfit("only ${NAME} may follow a dollar sign and a brace")
        return "$" if dollar else value(plain or braced)

    # First the tilde: a value of the environment that begins with one is not to be expanded again.
    home = _OWN_HOME.match(text)
    rest = text[home.end() :] if home else text
    start = home[1] + value("HOME") if home else ""
    return start + _VARIABLE.sub(replace, rest)


def placeholders(text: str) -> list[str]:
    """Return the names between double braces in a text, in order."""
    return _PLACEHOLDER.findall(text)


def stamp(text: str, now: datetime.datetime | datetime.time) -> str:
    """Fill in ``{{HHMMSS}}``, in a name or the path of a log file, when a job is submitted.

    Args:
        now: the time of submission, local as people read it off their clocks.
    """
    return _PLACEHOLDER.sub(
        lambda match: now.strftime("%H%M%S") if match[1] == "HHMMSS" else match[0], text
    )


def entries(text: str) -> tuple[str, ...]:
    """Cut a block of shell lines into entries, one per command line.

    A line that ends in a backslash and the next are one entry; empty lines are left out. The
    indentation common to all lines goes, so that a block may be indented in its file.
    """
    from textwrap import dedent

    commands: list[str] = []
    open_line = False
    for line in dedent(text).splitlines():
        if open_line:
            commands[-1] += f"\n{line}"
        elif line.strip():
            commands.append(line.rstrip(" \t"))
        open_line = (open_line or bool(line.strip())) and line.endswith("\\")
    return tuple(commands)


def check_defer(entry: str) -> None:
    """Refuse a ``defer`` that would not do what it seems to say.

    Raises:
        Unfit: it defers nothing; or it stands in the middle of a shell construct, from where
            taking its line away would leave, say, an ``if`` without a body.
    """
    first, *others = entry.splitlines() or [""]
    if any(line.split()[:1] == [_DEFER] for line in others):
        raise Unfit(f"the line {_DEFER!r} inside {first!r} must be an entry of its own")
    if first.split()[:1] != [_DEFER]:
        return
    if not first.startswith(_DEFER):
        raise Unfit(
            f"{first.strip()!r} is indented, but {_DEFER} cannot depend on a condition; "
            f"write the condition into the command: {_DEFER} [ CONDITION ] && COMMAND"
        )
    if entry.split() == [_DEFER]:
        raise Unfit(f"{_DEFER} needs a command after it")


def split_defer(commands: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split shell commands into set-up and clean-up; ``defer`` marks the latter.

    Clean-up comes in reverse order, as in Go: what was set up last may depend on what was set up
    first, so it is taken down first. Variables in a deferred command are the shell's, which
    looks them up when the command runs.

    Returns:
        The commands before the job's main command, and those after it, without the ``defer``.
    """
    setup: list[str] = []
    cleanup: list[str] = []
    for command in commands:
        if command.split(maxsplit=1)[:1] == [_DEFER]:
            cleanup.insert(0, command.split(maxsplit=1)[1])
        else:
            setup.append(command)
    return tuple(setup), tuple(cleanup)
