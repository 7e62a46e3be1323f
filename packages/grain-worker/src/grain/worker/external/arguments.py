"""The arguments of calls: what is wrong with one, and what to write instead."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from enum import Enum
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    StrPath = str | os.PathLike[str]


class Stream(Enum):
    """A place for output other than a file."""

    CAPTURE = "CAPTURE"
    STDOUT = "STDOUT"


CAPTURE: Final = Stream.CAPTURE
"""The default of ``stdout=`` and ``stderr=``: into the `Completed`."""

STDOUT: Final = Stream.STDOUT
"""For ``stderr=``: the same place as stdout, in the order of writing."""


def argv_text(argv: Sequence[StrPath]) -> str:
    """Return the message for a command that is not a list of words, with the list to write."""
    text = "argv must be a sequence of strings: the program and its arguments"
    line = os.fsdecode(argv) if isinstance(argv, (str, bytes)) else ""
    try:
        words = shlex.split(line)
    except ValueError:  # a quote that is not closed
        words = line.split()
    if not words:
        return f'{text}, as in ["echo", "a"]'
    return f"{text}; write [{', '.join(map(json.dumps, words))}]"


def check_types(
    argv: object,
    cwd: object,
    env: object,
    stdin: object,
    stdout: object,
    stderr: object,
    grace: object,
    threads: object,
) -> None:
    """Raise an error that names the argument of a wrong type, and what to write."""
    if not isinstance(argv, Sequence):
        raise TypeError(f'argv={argv!r}: write a list of strings, as in ["echo", "a"]')
    for word in argv:
        if not isinstance(word, str | os.PathLike):
            text = os.fsdecode(word) if isinstance(word, bytes) else str(word)
            raise TypeError(f"argv: {word!r} is not a string; write {text!r} instead of it")
    if not isinstance(env, Mapping):
        raise TypeError(f'env={env!r}: write names and values, as in env={{"A": "1"}}')
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str | None):
            right = None if value is None else str(value)
            raise TypeError(
                f"env: {name!r}: {value!r}: a variable has a string as its name and as its value; "
                f"write env={{{str(name)!r}: {right!r}}}, or None to remove it"
            )
    for which, path in ("cwd", cwd), ("stdout", stdout), ("stderr", stderr):
        if not isinstance(path, str | os.PathLike | Stream) and (path, which) != (None, "cwd"):
            raise TypeError(f'{which}={path!r}: write the path of a file, as in {which}="out"')
    if stdin is not None and not isinstance(stdin, bytes | str | os.PathLike):
        raise TypeError(f"stdin={stdin!r}: write bytes, as in stdin=b'text', or the path of a file")
    if not isinstance(grace, Real):
        raise TypeError(f"grace={grace!r}: write a number of seconds, as in grace=10")
    if threads is not None and not isinstance(threads, Integral):
        raise TypeError(f"threads={threads!r}: write a number, as in threads=1")


def check_memory(enforce: object, memory_signs: Any) -> None:
    """Raise an error if `enforce` or `memory_signs` is of a wrong type."""
    if not isinstance(enforce, bool | None):
        raise TypeError(f"enforce={enforce!r}: write True or False")
    texts = isinstance(memory_signs, Sequence) and not isinstance(memory_signs, str | bytes)
    if not texts or not all(isinstance(sign, str) and sign for sign in memory_signs):
        raise TypeError(
            f"memory_signs={memory_signs!r}: write a list of texts, as in "
            'memory_signs=["not enough memory"]'
        )


def check_timeout(timeout: object) -> None:
    """Raise an error for a time limit that no program can have."""
    if timeout is None:
        return
    if not isinstance(timeout, Real):
        raise TypeError(f"timeout={timeout!r}: write a number of seconds, as in timeout=60")
    if not float(timeout) >= 0:  # nor a number at all
        raise ValueError(f"timeout={timeout!r}: write a number of seconds that is not negative")
