"""Objects to bytes and back: the C pickler, and dill for the parts that need it.

A payload is one piece of bytes. Its first byte has four bits:

- `PARTS`: not one pickle, but one and the large buffers (arrays) that it mentions, as pickle
  protocol 5 keeps them apart: 3 bytes of zeros, u32 number n of buffers, n + 1 times u64 size;
  then the pickle and the buffers, each beginning at a multiple of 64 bytes of the payload.
- `VALUE`: it has functions or classes by value.
- `DILL`: dill made the pickle.
- `CODE`: something in it has bytecode, which only the interpreter that made it can run.

The buffers are copied once, into the payload, so later changes of the object do not change what is
sent. Large `bytes` cannot change and are not copied: the payload is `Pieces` then. On arrival only
bytes and strings are copied; arrays lie in the payload itself.
"""

from __future__ import annotations

import io
import pickle
import struct
from pkgutil import resolve_name
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from grain.edge.buffers import LARGE, Buffer, allocate
from grain.edge.messages import Pieces
from grain.worker.pickling.by_value import NAMED, reduces_to_code
from grain.worker.pickling.exceptions import reduce_exception
from grain.worker.pickling.functions import reduce_method
from grain.worker.pickling.in_process import is_in_process, reduce_in_process
from grain.worker.pickling.origin import dilled_code
from grain.worker.pickling.reading import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.worker.pickling.by_value import Classes

PARTS, VALUE, DILL, CODE = 1, 2, 4, 8
_SMALL = {type(None), bool, int, float, complex}
_ATOMS = _SMALL | {str, bytes}
_ALIGN = 64
# Smaller buffers stay within the pickle. This is more than a channel sends inline, so that a large
# array arrives in a buffer of its own, which can be written to.
_APART = 64 * 1024
# The module that paths belong to in Python 3.13, and that older versions do not have.
_HIDDEN = "pathlib._local"
_COUNT = struct.Struct("<B3xI")


class _Pickler(pickle.Pickler):
    def __init__(
        self,
        write: Callable[[Any], Any],
        callback: Callable[[Any], Any],
        classes: Classes,
        copy_all: bool,
    ) -> None:
        super().__init__(SimpleNamespace(write=write), 5, buffer_callback=callback)
        self._classes = classes
        self._copy_all = copy_all
        # The types that were met whose objects are not bound to this process.
        self._free: set[type] = set()
        self.form = 0

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in NAMED or issubclass(kind, type):
            if obj.__module__ == _HIDDEN:
                return resolve_name, (f"pathlib:{obj.__qualname__}",)
            reduction = self._classes.reduce(obj, self._copy_all)
            if reduction is not NotImplemented:
                self.form |= VALUE | CODE if reduces_to_code(reduction) else VALUE
            return reduction
        if issubclass(kind, BaseException):
            return reduce_exception(obj)
        if kind is MethodType:
            return reduce_method(obj)
        if kind in self._free:
            return NotImplemented
        if is_in_process(kind):
            return reduce_in_process(obj, self._copy_all)
        self._free.add(kind)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, buffers: Any, classes: Classes) -> None:
        super().__init__(file, buffers=buffers)
        self._classes = classes

    def find_class(self, module: str, name: str) -> Any:
        return self._classes.find_class(module, name) or super().find_class(module, name)


def dumps(obj: Any, classes: Classes, *, copy_all: bool = False) -> bytes | memoryview:
    """Return an object as bytes, as `dump_pieces` without a head."""
    return together(dump_pieces(obj, classes, copy_all=copy_all))


def dump_small(obj: Any, head: bytes = b"") -> bytes | None:
    """Return an object as bytes, if it is a simple one and small; else None.

    Most calls have such arguments, and this is a fraction of the time of `dump_pieces`.
    """
    if is_simple(obj) and not _is_large(obj):
        return head + b"\0" + pickle.dumps(obj, 5)
    return None


def dump_pieces(
    obj: Any, classes: Classes, head: bytes = b"", *, copy_all: bool = False
) -> list[Buffer]:
    """Return an object in pieces to be joined: large buffers are still those of the object itself.

    Args:
        copy_all: True to copy also what connects threads or tasks of this process, see
            `grain.worker.pickling.in_process`.

    Raises:
        Exception: whatever its classes raise.
    """
    parts: list[Any] = []
    if is_simple(obj):
        if not _is_large(obj):
            return [head + b"\0" + pickle.dumps(obj, 5)]
        # In parts: large strings are copied once, where all is put together.
        pickle.Pickler(SimpleNamespace(write=parts.append), 5).dump(obj)
        return [head, b"\0", *parts]
    buffers: list[pickle.PickleBuffer] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        try:
            inside = buffer.raw().nbytes < _APART
        except BufferError:  # not contiguous
            return True
        if not inside:
            buffers.append(buffer)
        return inside

    pickler = _Pickler(parts.append, keep_inside, classes, copy_all)
    try:
        pickler.dump(obj)
        form = pickler.form
    except Exception:
        # Not only PicklingError: the C pickler raises TypeError or AttributeError for most objects
        # that it cannot pickle.
        buffers.clear()
        dilled = classes.dill(obj, keep_inside, copy_all=copy_all)
        form = DILL | CODE if dilled_code(dilled) else DILL
        parts = [dilled]
    if not buffers:
        return [head, bytes([form]), *parts]
    return _aligned(head, form, b"".join(parts), [buffer.raw() for buffer in buffers])


def has_code(payload: Buffer, start: int = 0) -> bool:
    """Return True if a payload of `dumps` has bytecode; ``start`` is the length of its head."""
    return bool(payload[start] & CODE)


def is_simple(obj: Any) -> bool:
    """Return True if an object, or each member of a tuple, is a number, a string, bytes or None."""
    return type(obj) in _ATOMS or (type(obj) is tuple and _ATOMS.issuperset(map(type, obj)))


def _is_large(obj: Any) -> bool:
    for one in obj if type(obj) is tuple else (obj,):
        if type(one) not in _SMALL and len(one) > _APART:
            return True
    return False


def _aligned(head: bytes, form: int, main: bytes, buffers: list[memoryview]) -> list[Buffer]:
    sizes = [len(main), *map(len, buffers)]
    table = struct.pack(f"<{len(sizes)}Q", *sizes)
    pieces: list[Buffer] = [head, _COUNT.pack(form | PARTS, len(buffers)), table]
    at = sum(map(len, pieces))
    following: list[Buffer] = [main, *buffers]
    for piece in following:
        pieces += (bytes(-at % _ALIGN), piece)
        at += -at % _ALIGN + len(piece)
    return pieces


def together(pieces: list[Any]) -> bytes | memoryview:
    """Return pieces of `dump_pieces` joined: the one copy of large buffers."""
    if len(pieces) == 1:
        only: bytes = pieces[0]
        return only
    views = [memoryview(piece) for piece in pieces]
    size = sum(view.nbytes for view in views)
    if size < LARGE:
        return b"".join(pieces)
    whole, at = allocate(size), 0
    for view in views:
        whole[at : at + view.nbytes] = view.cast("B")
        at += view.nbytes
    # Read-only: two runs in this process must not see each other's changes of one array.
    return whole.toreadonly()


def gathered(pieces: list[Any]) -> bytes | memoryview | Pieces:
    """Return pieces as a payload to send, with as little copying as a snapshot needs."""
    if len(pieces) == 1:
        only: bytes = pieces[0]
        return only
    if all(type(piece) is bytes for piece in pieces):
        payload = Pieces(pieces)
        if len(payload) >= _APART:
            return payload
    return together(pieces)


def whole(payload: Buffer | Pieces) -> Buffer:
    """Return a payload in one piece, as it arrives after its travel."""
    return together(list(payload.parts)) if isinstance(payload, Pieces) else payload


def loads(data: Buffer, classes: Classes, start: int = 0) -> Any:
    """Return the object behind bytes of `dumps`; ``start`` is the length of their head.

    Arrays in it may share the memory of ``data``.

    Raises:
        ValueError: these bytes are not from `dumps`.
        ForeignCode: they have bytecode of another interpreter, which was not loaded.
        Exception: whatever the object's classes raise, or importing them does.
    """
    view = memoryview(data)
    if len(view) <= start or view[start] > PARTS | VALUE | DILL | CODE:
        raise ValueError("not a payload, or damaged")
    form = view[start]
    buffers: list[memoryview] = []
    main = view[start + 1 :]
    if form & PARTS:
        if view.readonly:
            view = memoryview(bytearray(view))  # an array can be written to, however it came
        main, *buffers = _split(view, start)
    if form & DILL:
        return classes.undill(main, buffers)
    if form & VALUE:
        file: Any = Reader(main) if len(main) >= LARGE else io.BytesIO(main)
        return _Unpickler(file, buffers, classes).load()
    if len(main) >= LARGE:
        file = Reader(main)
        return pickle.Unpickler(file, buffers=buffers).load()  # noqa: S301 - as below
    return pickle.loads(main, buffers=buffers)  # noqa: S301 - from an authenticated peer


def _split(view: memoryview, start: int) -> list[memoryview]:
    try:
        _, count = _COUNT.unpack_from(view, start)
        at = start + _COUNT.size
        sizes = struct.unpack_from(f"<{count + 1}Q", view, at)
    except (struct.error, MemoryError, OverflowError) as error:
        raise ValueError("not a payload, or damaged") from error
    at += 8 * len(sizes)
    parts = []
    for size in sizes:
        at += -at % _ALIGN
        parts.append(view[at : at + size])
        at += size
    if at != len(view):
        raise ValueError("not a payload, or damaged")
    return parts
