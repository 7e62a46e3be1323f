"""`CallLabels`: calls as short lines, from which a person knows the input of each again.

An event log has one for each run that failed, and there may be thousands of these in a second. So a
label costs little whatever the arguments are:

1.  Containers are read no further than there is room, and nothing of them is sorted.
2.  Code of the user runs in ``__repr__`` alone, of what is not of a built-in class. A class whose
    ``__repr__`` takes long time after time is not asked again, and shown by its name.
3.  What is left out is ``…``. So a label without it is the whole call, as one would type it.
"""

from __future__ import annotations

import re
import time
from itertools import chain, islice
from pathlib import PosixPath, WindowsPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LONGEST = 160
"""Characters of a label. Most are half as long: the name of a function, and that of a file."""

LEFT_OUT = "…"
"""The character in the place of what is left out."""

_VALUE = 120  # characters of one argument: the path of a file stays whole
_LEAST = 12  # characters of an argument that gives way to others
_ARGUMENTS = 10  # that are shown
_NAME = 60  # characters of a function's name
_DEEPEST = 4  # levels of containers
_SLOW = 0.005  # seconds that are long for the text of an object
_TIMES = 3  # in a row after which its class is not asked again
_CLASSES = 1000  # that are remembered as slow
_BITS = 400  # of an int whose digits are shown

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_PLAIN = (bool, float, complex, type(None), type(...))
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    dict: ("{", "}"),
}


class CallLabels:
    """The labels of calls.

    Args:
        clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        # How often in a row a class was slow; by its name, as one that travels by value is another
        # object with each call.
        self._slow: dict[str, int] = {}

    def of(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return a call in one line of at most `LONGEST` characters. Raises nothing.

        A call of `grain.worker.external.run_external` is shown as its command line. Of others the
        first argument keeps its length as long as it can: most often it says which input it was.

        >>> CallLabels().of("optimise", ("mol7.xyz",), {"level": 2})
        "optimise('mol7.xyz', level=2)"
        >>> CallLabels().of("run_external", (["xtb", "my mol.xyz"],), {})
        "xtb 'my mol.xyz'"
        """
        name = _one_line(name, _NAME)
        if name == "run_external" and args and _is_command(args[0]):
            return _command(args[0])
        given = chain((("", one) for one in args), kwargs.items())
        parts: list[str] = []
        for key, value in islice(given, _ARGUMENTS):
            text = self._shown(value, _VALUE, _DEEPEST)
            parts.append(f"{_one_line(key, _NAME)}={text}" if key else text)
        if len(parts) < len(args) + len(kwargs):
            parts.append(LEFT_OUT)
        return f"{name}({_fitted(parts, LONGEST - len(name) - 2)})"

    def without_arguments(self, name: str) -> str:
        """Return the label of a call whose arguments cannot be shown.

        >>> CallLabels().without_arguments("optimise")
        'optimise(…)'
        """
        return f"{_one_line(name, _NAME)}({LEFT_OUT})"

    def _shown(self, value: Any, most: int, levels: int) -> str:
        """Return a value as one would type it, with at most so many characters or a few more."""
        kind = type(value)
        if kind is str:
            return repr(shortened(value, most))
        if kind is bytes or kind is bytearray:
            return repr(value) if len(value) <= most else f"{value[:most]!r}{LEFT_OUT}"
        if kind is int:
            bits = value.bit_length()
            return repr(value) if bits <= _BITS else f"<int of {bits} bits>"
        if kind in _PLAIN:
            return repr(value)
        if kind is PosixPath or kind is WindowsPath:
            return f"Path({shortened(str(value), most)!r})"
        if kind in _BRACKETS:
            return self._items(value, most, levels - 1) if levels else LEFT_OUT
        return self._of_user(value, most)

    def _items(self, values: Any, most: int, levels: int) -> str:
        """Return the first items of a container, as many as there is room for."""
        kind = type(values)
        if kind is set and not values:
            return "set()"
        texts: list[str] = []
        room = most
        for one in values.items() if kind is dict else values:
            if room <= 0:
                texts.append(LEFT_OUT)
                break
            if kind is dict:
                key, value = (self._shown(part, room, levels) for part in one)
                texts.append(f"{key}: {value}")
            else:
                texts.append(self._shown(one, room, levels))
            room -= len(texts[-1]) + 2
        if kind is tuple and len(values) == 1:
            texts.append("")
        opening, closing = _BRACKETS[kind]
        return f"{opening}{', '.join(texts).rstrip()}{closing}"

    def _of_user(self, value: Any, most: int) -> str:
        """Return what a class of the user says of an object, unless that takes long."""
        kind = type(value)
        name = kind.__qualname__
        by_name = f"<{_one_line(kind.__name__, _NAME)}>"
        times = self._slow.get(name, 0)
        if times >= _TIMES:
            return by_name
        began = self._clock()
        try:
            text = repr(value)
        except (Exception, SystemExit):  # it may raise anything
            text = by_name
        if self._clock() - began <= _SLOW:
            self._slow.pop(name, None)
        elif times or len(self._slow) < _CLASSES:
            self._slow[name] = times + 1
        if len(text) > 4 * _VALUE:
            text = f"{text[: 2 * _VALUE]}{LEFT_OUT}{text[-2 * _VALUE :]}"
        return _one_line(_ADDRESS.sub("", text), most)


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters, without its middle if it is longer."""
    if len(text) <= most:
        return text
    first = (most - 1) // 2
    return f"{text[:first]}{LEFT_OUT}{text[len(text) - (most - 1 - first) :]}"


def _is_command(value: Any) -> bool:
    return type(value) in (list, tuple) and all(
        isinstance(one, str | PosixPath | WindowsPath) for one in value
    )


def _command(words: Iterable[Any]) -> str:
    """Return a command line as one would type it."""
    import shlex  # failures are rare

    text = " ".join(shlex.quote(str(one)) for one in words)
    if text.isprintable():
        return shortened(text, LONGEST)
    # Typed as it is shown, it would be another command: that is as if a part were left out.
    return f"{_one_line(text, LONGEST - 1)}{LEFT_OUT}"


def _one_line(text: str, most: int) -> str:
    """Return a text in one line of so many characters that leaves a terminal as it is."""
    if len(text) <= most and text.isprintable() and "  " not in text:
        return text
    line = " ".join(shortened(text, 4 * LONGEST).split())
    # Among what is replaced are halves of characters, which JSON has not.
    return shortened("".join(one if one.isprintable() else "?" for one in line), most)


def _fitted(parts: list[str], room: int) -> str:
    """Join arguments, the longest of which are shortened as far as that is needed."""
    between = 2 * max(len(parts) - 1, 0)
    if sum(map(len, parts)) + between > room:
        rest = parts[1:]
        width = max(map(len, rest), default=0)
        while width > _LEAST and len(parts[0]) + _width(rest, width) + between > room:
            width -= 1
        parts = [parts[0], *(shortened(one, width) for one in rest)]
        parts[0] = shortened(parts[0], max(room - between - _width(rest, width), _LEAST))
    return shortened(", ".join(parts), room)


def _width(parts: Iterable[str], most: int) -> int:
    return sum(min(len(one), most) for one in parts)
