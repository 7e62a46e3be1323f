"""The call of a task in one line, made only when a user asks for it, or when a run has failed.

The mission has the arguments as bytes, as they were at the call. To keep a line for each task would
cost every call, and to read them elsewhere would run code of theirs there.
"""

from __future__ import annotations

import reprlib
from contextlib import suppress
from typing import TYPE_CHECKING

from grain.edge.messages import Pieces
from grain.resource.figures import size_text

if TYPE_CHECKING:
    from grain.edge.messages import WireBytes
    from grain.worker.call import CallLabels
    from grain.worker.payload import Payloads

LARGEST = 1_000_000
"""Bytes of arguments that are read for a description: it takes milliseconds of the mission."""

LABELLED = 100_000
"""Bytes of arguments that are read for a label. There may be very many of these."""

_LONGEST = 1000  # characters of a description

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxlevel = 3


def describe_call(name: str, arguments: WireBytes, payloads: Payloads) -> str:
    """Return a call as a user would write it, with large values shortened. Raises nothing."""
    if len(arguments) > LARGEST:
        return f"{name}(...), with arguments of {size_text(len(arguments))}"
    if isinstance(arguments, Pieces):
        arguments = b"".join(arguments.parts)
    try:
        args, kwargs = payloads.load_arguments(arguments)
        parts = [_SHORT.repr(value) for value in args]
        parts += [f"{key}={_SHORT.repr(value)}" for key, value in kwargs.items()]
    # A class of the user may raise anything where it is loaded or shown.
    except Exception as error:
        return f"{name}(...), whose arguments cannot be shown: {type(error).__name__}"
    text = f"{name}({', '.join(parts)})"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def label_of(name: str, arguments: WireBytes, payloads: Payloads, labels: CallLabels) -> str:
    """Return a call as an event log has it, without arguments that are large. Raises nothing."""
    if len(arguments) <= LABELLED:
        # A class of the user may raise anything where it is loaded.
        with suppress(Exception):
            return labels.of(name, *payloads.load_arguments(arguments))
    return labels.without_arguments(name)
