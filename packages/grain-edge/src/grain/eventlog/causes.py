"""Why runs failed: the facts of a failure, the line that says why, what alike ones have in common.

A failed program has a long message: its command, how it ended, where it ran, and the last lines of
what it wrote. One of these lines says why; the ones around it are banners and traces of calls. The
worker that has the exception takes the message apart, once: logs and displays have the parts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LONGEST = 120  # characters of the line that says why

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

# No worker sends a longer text, and no log has one: readers refuse it.
Words = Annotated[str, msgspec.Meta(max_length=4096)]


class RunFailure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Why a run failed, or came to nothing.

    Attributes:
        error: the class of the exception, or empty.
        message: its text, in one line, with a semicolon for each end of a line; a long text loses
            its middle.
        program: the name of the program that failed; empty for all other failures.
        status: its exit code; None if it has none.
        signal: the name of the signal that ended it; empty if none did.
        out_of_memory: True if it failed for want of memory.
        line: the one of its last lines that says why it failed. If the program has neither an exit
            code nor a signal, what happened. Empty if that is not known.
    """

    error: Words = ""
    message: Words = ""
    program: Words = ""
    status: int | None = None
    signal: Words = ""
    out_of_memory: bool = False
    line: Words = ""

    def words(self, kind: str = "", vary: Callable[[str], str] = str) -> str:
        """Return the failure in a few words, what matters first: how a program ended, and why.

        Args:
            kind: stands for the class of the exception where there is none.
            vary: changes what differs between failures that are alike, as `pattern_of` does.

        >>> RunFailure(program="xtb", status=128, line="SCF did not converge").words()
        'exit 128: SCF did not converge'
        >>> RunFailure(error="ValueError", message="3 imaginary frequencies are left").words()
        'ValueError: 3 imaginary frequencies are left'
        """
        how = self._ended("exit ")
        if not self.program:
            parts = [self.error or kind, vary(self.message)]
        elif how:
            memory = "out of memory, " if self.out_of_memory else ""
            parts = [f"{memory}{how}", vary(self.line) or self.program]
        else:
            parts = [self.error or kind, self.program, vary(self.line)]
        return ": ".join(filter(None, parts))

    @property
    def pattern(self) -> str:
        """The message without what differs between failures that are alike."""
        ended = self._ended("exit code ", "ended by signal ")
        parts = (f"{self.program} …", ended, pattern_of(self.line))
        return ": ".join(filter(None, parts)) if self.program else pattern_of(self.message)

    def _ended(self, status: str, signal: str = "") -> str:
        """Return how a program ended, behind these words; "" if that is not known."""
        if self.signal:
            return f"{signal}{self.signal}"
        return "" if self.status is None else f"{status}{self.status}"


NO_FAILURE = RunFailure()


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
    return cut(best)


def decisive_line_of(stderr: str, stdout: str) -> str:
    """Return the decisive line of what a failed program wrote last; "" if there is none.

    It is one of stderr if any of them stands out, else of stdout; else the last one of stderr.
    """
    for text in (stderr, stdout):
        if line := decisive_line(text.splitlines()):
            return line
    written = [words for line in stderr.splitlines() if (words := _bare(line))]
    return cut(written[-1]) if written else ""


def pattern_of(message: str) -> str:
    """Return a message without what differs: dots for paths and numbers.

    >>> pattern_of("no file /scratch/m7.xyz: exit status 2")
    'no file …: exit status 2'
    """
    return _VARIES.sub(_dots, message)


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


def _bare(line: str) -> str:
    """Return a line without its frame, as of ``### error ###``, and without its number."""
    return " ".join(_NUMBERED.sub("", line.strip(" \t#*=|!")).strip(" -").split())


_NUMBERED = re.compile(r"^-?\d+[-:.)] ")


def cut(line: str) -> str:
    """Return a line, or the beginning of a long one."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
