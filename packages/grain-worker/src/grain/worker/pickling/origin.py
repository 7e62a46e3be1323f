"""The origin of bytecode: the interpreter that made it, and that only may load it.

Bytecode differs between minor versions of Python. An interpreter that runs that of another crashes,
or returns wrong results without an error. So what dill makes begins with the origin of the bytecode
in it, and is refused before anything of it is loaded where the interpreter is another one.
"""

from __future__ import annotations

import functools
import socket
from typing import TYPE_CHECKING

from grain.edge.version import INTERPRETER

if TYPE_CHECKING:
    Buffer = bytes | memoryview

_OWN = INTERPRETER.encode()


class ForeignCode(Exception):
    """Bytecode of another interpreter, which was not loaded."""


def with_origin(pickle: bytes, *, code: bool) -> bytes:
    """Return a pickle by dill with its origin in front; with none if it has no bytecode."""
    origin = _own_origin() if code else b""
    return bytes([len(origin)]) + origin + pickle


def dilled_code(data: Buffer) -> bool:
    """Return True if bytes of `with_origin` have bytecode."""
    return data[0] != 0


def without_origin(data: Buffer) -> memoryview:
    """Return the pickle in bytes of `with_origin`.

    Raises:
        ForeignCode: it has bytecode of another interpreter.
    """
    view = memoryview(data)
    end = 1 + view[0]
    if end > 1:
        interpreter, _, host = bytes(view[1:end]).partition(b"\n")
        if interpreter != _OWN:
            maker = interpreter.decode(errors="replace")
            raise ForeignCode(
                f"it has functions or classes by value, which are bytecode of {maker}, made on "
                f"host {host.decode(errors='replace')}; this is {INTERPRETER} on host "
                f"{socket.gethostname()}. Use the same Python on both; or put these functions, "
                "undecorated, and classes into a module that both can import, as then they travel "
                "by name"
            )
    return view[end:]


@functools.cache
def _own_origin() -> bytes:
    return b"%s\n%s" % (_OWN, socket.gethostname().encode(errors="replace")[:100])
