"""``python -I -S asking.py COMMAND PATTERN``: ask a command for its numbers, and read its answer.

The command is anyone's, and so is the pattern: one may print without end or hang, the other may
look for hours in what was printed. So both have this process, which the scheduler ends with all
that they have started (`grain.head.gnaw.counting.ask`). It imports nothing of Grain.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from typing import NamedTuple

MOST = 1024 * 1024
"""The most bytes that a command may print."""

MANY = 1_000_000_000
"""A number that a command may tell is less."""

SEARCHING = "searching"
"""The first line of this process, when the command has ended."""

_SHOWN = 200  # characters of what a command printed, in messages
_LOOK = 20  # milliseconds between two looks whether it has ended


class CountFailed(Exception):
    """A command did not tell a number; the text says why."""


class Told(NamedTuple):
    """The numbers that a command has told.

    Attributes:
        used: how many are in use, by tasks and by others; None if it does not tell that.
    """

    total: int
    used: int | None


def read(pattern: str, output: str) -> Told:
    """Return the numbers in the output of a command.

    Raises:
        CountFailed: they are not there.
    """
    match = re.search(pattern, output, re.MULTILINE)
    if match is None:
        raise CountFailed(f"its output does not match the pattern '{pattern}': {_short(output)}")
    groups = match.groupdict()
    try:
        total, used = int(groups["total"]), groups.get("used")
        told = Told(total, None if used is None else int(used))
    except (TypeError, ValueError):
        raise CountFailed(f"its numbers are not whole numbers: {_short(match[0])}") from None
    if told.total < 0 or told.total >= MANY or (told.used or 0) < 0:
        raise CountFailed(f"its numbers cannot be: {_short(match[0])}")
    return told


def output_of(command: str) -> str:
    """Run a shell command to its end; return what it prints.

    What it leaves behind may go on: the caller's caller ends it.

    Raises:
        CountFailed: it fails, or prints too much.
    """
    process = subprocess.Popen(  # noqa: S603 (it is the user's own)
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    written = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    poll = select.poll()
    for fd in written:
        poll.register(fd, select.POLLIN)
    ended = False
    while True:
        # Not until the end of the file: what it leaves behind may have that open.
        ready = [fd for fd, _ in poll.poll(0 if ended else _LOOK)]
        if ended and not ready:
            break
        ended = process.poll() is not None
        for fd in ready:
            data = os.read(fd, 65536)
            if not data:
                poll.unregister(fd)
            written[fd] += data
            if len(written[fd]) > MOST:
                many = f"more than {MOST // 1024**2} MB"
                raise CountFailed(f"it prints {many}: {_shown(written[fd])}")
    out, err = written.values()
    if status := process.returncode:
        how = f"exit status {status}" if status > 0 else signal.Signals(-status).name
        raise CountFailed(f"{how}: {_shown(err or out)}")
    return out.decode(errors="replace")


def _shown(written: bytearray) -> str:
    return _short(written[: 8 * _SHOWN].decode(errors="replace"))


def _short(text: str) -> str:
    """Return the beginning of a text, in one line, and without control characters."""
    line = " ".join(text[: 8 * _SHOWN].split())
    line = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in line)
    return (line if len(line) <= _SHOWN else f"{line[:_SHOWN]} ...") or "(nothing)"


def main(command: str, pattern: str) -> None:
    """Print the numbers, or why there are none, as JSON."""
    try:
        output = output_of(command)
        print(SEARCHING, flush=True)
        total, used = read(pattern, output)
    except (CountFailed, OSError) as error:
        print(json.dumps({"failed": str(error)}))
    else:
        print(json.dumps({"total": total, "used": used}))


if __name__ == "__main__":
    main(*sys.argv[1:])
