"""Failures in a few words: what alike messages have in common, and the line that says why. Pure.

A failed program has a long message: its command, how it ended, where it ran, and the last lines of
what it wrote. One of these lines says why; the ones around it are banners and traces of calls.
`headline` puts it first, behind how the program ended. Displays and logs, and the worker that
reports a failure, all have it from here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grain.resource.figures import span

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST = 120  # characters of the line that says why

_OUTPUTS = ("the last lines of stderr:", "the last lines of stdout:")

# Words of a line that says what was wrong, and of one that only says that something was.
_TELLS = re.compile(
    r"\b(?:did not|does not|do not|doesn't|not (?:converged?|found|enough|defined|supported|allowed"
    r"|a valid)|no (?:such|space|room|more)|cannot|can't|could not|couldn't|unable to|out of"
    r"|failed to|missing|invalid|unknown|undefined|denied|exceed\w*|too (?:many|large|small|long"
    r"|short|few)|illegal|unrecogni[sz]ed|unexpected|mismatch|diverg\w*|convergence failure"
    r"|refused|timed out)\b",
    re.IGNORECASE,
)
_COMPLAINS = re.compile(
    r"(?:error|exception)\b|\b(?:abort\w*|abnormal\w*|fatal|fail\w*|killed|segmentation|panic)\b",
    re.IGNORECASE,
)

# How a program ended: behind its command, and before the line that says why, if that is there.
_ENDED = re.compile(
    r": (?:killed for want of memory: )?(?:exit (?:code|status) (\d+)|ended by signal (SIG\w+))"
    r"(?: \([^)]*\))?(?:: |; |\n|$)"
)
_WANT = "killed for want of memory"


def decisive_line(lines: Sequence[str]) -> str:
    """Return the line of a program's last ones that says why it failed; "" if there is none.

    Of lines that say what was wrong, or else of those that say that something was, it is the last.

    >>> decisive_line(["cycle 250", "SCF did not converge", "abnormal termination of xtb"])
    'SCF did not converge'
    """
    best, most = "", 0
    for line in lines:
        words = _bare(line)
        rate = 2 * bool(_TELLS.search(words)) + bool(_COMPLAINS.search(words))
        if rate >= most and rate:
            best, most = words, rate
    return _cut(best)


def decisive_line_of(text: str) -> str:
    """Return the decisive line of what a failed program wrote, as its exception's text has that.

    Args:
        text: of several lines, or in one with semicolons, as in an event log.

    Returns:
        The line of stderr if that has any, else of stdout; "" if the text has neither. Where no
        line of stderr stands out it is the last one.
    """
    outputs = _outputs(text)
    for name in _OUTPUTS:
        if line := decisive_line(outputs.get(name, ())):
            return line
    written = [words for line in outputs.get(_OUTPUTS[0], ()) if (words := _bare(line))]
    return _cut(written[-1]) if written else ""


def headline(text: str) -> str:
    """Return the text of a failure with what matters first: how a program ended, and why.

    Args:
        text: the class of the exception and its text, or only its text.

    >>> headline("ExternalError: xtb a.xyz --opt: exit code 128: SCF did not converge")
    'exit 128: SCF did not converge'
    >>> headline("ExternalError: xtb a.xyz: ended by signal SIGSEGV")
    'SIGSEGV: xtb a.xyz'
    >>> headline("ValueError: 3 imaginary frequencies are left")
    'ValueError: 3 imaginary frequencies are left'
    """
    ended = _ENDED.search(text)
    if ended is None:
        return text
    how = f"exit {ended[1]}" if ended[1] else ended[2]
    if _WANT in ended[0]:
        how = f"out of memory, {how}"
    # Behind how it ended stands the line that says why, or where it ran and what it wrote.
    rest = text[ended.end() :] if ended[0].endswith(": ") else ""
    why = decisive_line_of(text) or rest
    command = text[: ended.start()].rpartition("Error: ")[2]
    return f"{how}: {why or command}"


def cause_of(text: str) -> str:
    """Return the headline of a failure without what differs between failures that are alike.

    Args:
        text: the class of the exception, a colon and its text; or only the class.

    >>> cause_of("ExternalError: xtb a.xyz: exit code 2: no such file a.xyz")
    'exit 2: no such file …'
    """
    kind, colon, message = text.partition(": ")
    return headline(f"{kind}{colon}{pattern_of(message)}")


def pattern_of(message: str) -> str:
    """Return a message without what differs: dots for paths, numbers, and arguments of programs.

    The name of the program stays, though it may look like a number or the name of a file.

    >>> pattern_of("/opt/pw.x -in si.in: exit code 128; on host nodea; pw.x did not converge")
    'pw.x …: exit code 128; on host …; pw.x did not converge'
    """
    command = _COMMAND.match(message)
    program = "" if command is None else command[1]
    first = "" if command is None else program + (" …" if command[2] else "")

    def varied(match: re.Match[str]) -> str:
        return program if match[0] == program else _dots(match)

    rest = message if command is None else message[command.end() :]
    return first + _VARIES.sub(varied, _PLACE.sub(r"\1…", rest))


# A failed program, as `grain.worker.errors.ExternalError` puts it: its name, and its arguments.
_COMMAND = re.compile(
    r"^(?:[^\s:]*/)?([^\s/:]+)( .*?)?(?=: (?:killed for want|exit code|exit status|ended by signal"
    r"|ended after) )"
)

# Where it ran, as a line of its own, which the log has after a semicolon.
_PLACE = re.compile(r"((?:^|; )(?:on host|in directory) )[^;]*")

# A word with a slash, a dot or a digit: a path, the name of a file, a number, an id, a name of a
# worker; but not the exit status of a program, nor a signal.
_VARIES = re.compile(
    r"(?<!exit code )(?<!exit status )(?<![^\s'\"(,:;=])[^\s'\",:;=]*(?:[\d/]|\w\.\w)[^\s'\",:;=]*"
)


def _dots(match: re.Match[str]) -> str:
    """Return dots in place of a word; brackets around it stay, so that all are still in pairs."""
    word = match[0].lstrip("([{")
    before = match[0][: len(match[0]) - len(word)]
    bare = word.rstrip(")]}")
    opened = sum(bare.count(one) for one in "([{") - sum(bare.count(one) for one in ")]}")
    return f"{before}…{word[len(bare) + max(opened, 0) :]}"


def _outputs(text: str) -> dict[str, list[str]]:
    """Return the last lines of stderr and of stdout that the text of an exception has."""
    outputs: dict[str, list[str]] = {}
    name = ""
    for part in re.split(r"\n|; ", text):
        line = part.strip()
        for output in _OUTPUTS:
            if line.startswith(output):
                name, line = output, line[len(output) :]
        if name:
            outputs.setdefault(name, []).append(line)
    return outputs


def _bare(line: str) -> str:
    """Return a line without its frame, as of ``### error ###``, and without its number."""
    return " ".join(_NUMBERED.sub("", line.strip(" \t#*=|!")).strip(" -").split())


_NUMBERED = re.compile(r"^-?\d+[-:.)] ")


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


# ---- places where tasks fail that succeed elsewhere

_ASIDE = re.compile(r"(?:^|: )([^:]+) is set aside for ")


def set_aside(place: str, seconds: float, function: str, failures: int) -> str:
    """Return the sentence on a place that is set aside, as missions print it and logs have it.

    >>> set_aside("n02", 60.0, "step", 7)
    'n02 is set aside for 1 min: step failed there 7 times in a row, and succeeds elsewhere'
    """
    return (
        f"{place} is set aside for {span(seconds)}: {function or 'a function'} failed there "
        f"{failures} times in a row, and succeeds elsewhere"
    )


def place_set_aside(text: str) -> str:
    """Return the place of which a remark says that it is set aside; empty for any other remark.

    >>> place_set_aside("warning: " + set_aside("n02", 60.0, "step", 7))
    'n02'
    """
    found = _ASIDE.search(text)
    return found[1] if found else ""
