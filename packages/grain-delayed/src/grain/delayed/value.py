"""`Delayed`: a placeholder for a value to come, on which operations are recorded."""

from __future__ import annotations

import copy
import math
import operator
import reprlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

import outcome

from grain.delayed.graph import (
    Constant,
    Nested,
    Node,
    Operation,
    TaskNode,
    gather,
    name_behind,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

_set = object.__setattr__

# NumPy's functions that change an argument or a file, and return nothing to await instead.
_WRITING = frozenset(
    {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "save", "savetxt"}
    | {"savez", "savez_compressed"}
)


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Delayed[Any]]:
    def method(self: Delayed[Any], other: Any) -> Delayed[Any]:
        return record(self, function, (self, other))

    return method


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Delayed[Any]]:
    def method(self: Delayed[Any], other: Any) -> Delayed[Any]:
        return record(self, function, (other, self))

    return method


def _called_on(function: Callable[..., Any]) -> Callable[..., Delayed[Any]]:
    def method(self: Delayed[Any], *args: Any) -> Delayed[Any]:
        return record(self, function, (self, *args))

    return method


class Delayed(Generic[T_co]):
    """A value to be computed by Grain; ``await`` it for the value.

    It supports most operations of Python, and each gives another `Delayed`: operators
    (``+=`` is treated as ``+``), indexing and slicing, iteration and unpacking (where the number of
    items is known, see ``nout``), item assignment, attributes, method calls, and NumPy's functions
    and ufuncs. All of them are computed when the result is awaited, in the process that awaits it.

    Not supported, and an error at once: the use as a predicate (``if a:``), the assignment of
    attributes, and passing it to a delayed function. ``a == b`` is an operation like others; as a
    key of a dict, a delayed object stands for itself.

    Do not construct this directly: call a `DelayedFn`, or use `delayedval`.
    """

    __slots__ = ("__weakref__", "_copy", "_length", "_node")

    _node: Node
    _length: int | None
    _copy: bool

    def __init__(self, node: Node, length: int | None, copy_on_setitem: bool) -> None:
        _set(self, "_node", node)
        _set(self, "_length", length)
        _set(self, "_copy", copy_on_setitem)

    def __await__(self) -> Generator[Any, Any, T_co]:
        __tracebackhide__ = True
        return (yield from gather([self._node]).__await__())[0]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        node = self._node
        name = name_behind(node)
        if not node.done:
            state = "not known yet, await it"
        elif isinstance(node, TaskNode) and isinstance(node.outcome, outcome.Error):
            state = f"raised {_short(node.outcome.error)}"
        else:
            state = _short(node.value)
        return f"<{type(self).__name__} {name}: {state}>" if name else f"<Delayed: {state}>"

    # ---- operations, which are recorded

    def __getattr__(self, name: str) -> Delayed[Any]:
        if name.startswith("_"):
            # Python and libraries look for optional methods by such names.
            raise AttributeError(f"a delayed object has no attribute {name!r}; await it first")
        return record(self, getattr, (self, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Delayed[Any]:
        """Record a call of the value."""
        return record(self, _call, (self, *args), kwargs)

    def __getitem__(self, key: Any) -> Delayed[Any]:
        length = None
        if self._length is not None:
            if isinstance(key, slice) and not _is_delayed((key.start, key.stop, key.step)):
                length = len(range(self._length)[key])
            elif isinstance(key, int) and not -self._length <= key < self._length:
                raise IndexError(f"index {key} of a delayed object with {self._length} items")
        item = record(self, operator.getitem, (self, key))
        _set(item, "_length", length)
        return item

    def __setitem__(self, key: Any, value: Any) -> None:
        function = _set_item_of_copy if self._copy else _set_item
        _set(self, "_node", record(self, function, (self, key, value))._node)

    def __iter__(self) -> Iterator[Delayed[Any]]:
        if self._length is None:
            raise TypeError(
                f"how many items {_called(self)} has is not known yet, so it cannot be iterated "
                "or unpacked: declare it with @delayed(nout=...), or await it first"
            )
        return (self[i] for i in range(self._length))

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError(
                f"the length of {_called(self)} is not known yet: declare it with "
                "@delayed(nout=...), or await it first"
            )
        return self._length

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: tuple[Any, ...] | None = None, **kw: Any
    ) -> Delayed[Any]:
        # An array's `a += r_` asks for out=(a,); as on all delayed objects, it is treated as `+`.
        in_place = out is not None and method == "__call__" and out[0] is inputs[0]
        if method == "at" or (out is not None and (not in_place or isinstance(out[0], Delayed))):
            _refuse_writing(ufunc)
        return record(self, getattr(ufunc, method), inputs, kw)

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Delayed[Any]:
        if kwargs.get("out") is not None or function.__name__ in _WRITING:
            _refuse_writing(function)
        return record(self, function, args, kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError(
            "a delayed object cannot be stored in a NumPy array, as its value is not known yet: "
            "await it first, or make the array delayed as well, with delayedval(array)"
        )

    __add__ = _binary(operator.add)
    __sub__ = _binary(operator.sub)
    __mul__ = _binary(operator.mul)
    __matmul__ = _binary(operator.matmul)
    __truediv__ = _binary(operator.truediv)
    __floordiv__ = _binary(operator.floordiv)
    __mod__ = _binary(operator.mod)
    __lshift__ = _binary(operator.lshift)
    __rshift__ = _binary(operator.rshift)
    __and__ = _binary(operator.and_)
    __xor__ = _binary(operator.xor)
    __or__ = _binary(operator.or_)
    __divmod__ = _binary(divmod)
    __radd__ = _reflected(operator.add)
    __rsub__ = _reflected(operator.sub)
    __rmul__ = _reflected(operator.mul)
    __rmatmul__ = _reflected(operator.matmul)
    __rtruediv__ = _reflected(operator.truediv)
    __rfloordiv__ = _reflected(operator.floordiv)
    __rmod__ = _reflected(operator.mod)
    __rpow__ = _reflected(operator.pow)
    __rlshift__ = _reflected(operator.lshift)
    __rrshift__ = _reflected(operator.rshift)
    __rand__ = _reflected(operator.and_)
    __rxor__ = _reflected(operator.xor)
    __ror__ = _reflected(operator.or_)
    __rdivmod__ = _reflected(divmod)
    __lt__ = _binary(operator.lt)
    __le__ = _binary(operator.le)
    __gt__ = _binary(operator.gt)
    __ge__ = _binary(operator.ge)
    __eq__ = _binary(operator.eq)  # type: ignore[assignment]
    __ne__ = _binary(operator.ne)  # type: ignore[assignment]
    __pow__ = _called_on(pow)  # with an optional modulus
    __neg__ = _called_on(operator.neg)
    __pos__ = _called_on(operator.pos)
    __abs__ = _called_on(abs)
    __invert__ = _called_on(operator.invert)
    __round__ = _called_on(round)
    __trunc__ = _called_on(math.trunc)
    __floor__ = _called_on(math.floor)
    __ceil__ = _called_on(math.ceil)

    # ---- operations that cannot be recorded, as Python wants their result at once

    def __format__(self, spec: str) -> NoReturn:
        _refuse(self, "be formatted (in an f-string, or by str.format)")

    def __fspath__(self) -> NoReturn:
        _refuse(self, "be used as a path, or as a word of a command")

    def __bytes__(self) -> NoReturn:
        _refuse(self, "be made bytes")

    def __bool__(self) -> NoReturn:
        _refuse(self, "be used as a predicate (in if, while, and, or, not)")

    def __contains__(self, item: object) -> NoReturn:
        _refuse(self, "be searched for an item (with in)")

    def __int__(self) -> NoReturn:
        _refuse(self, "be made an int")

    def __float__(self) -> NoReturn:
        _refuse(self, "be made a float")

    def __complex__(self) -> NoReturn:
        _refuse(self, "be made a complex")

    def __index__(self) -> NoReturn:
        _refuse(self, "be used as an index or a count")

    def __delitem__(self, key: object) -> NoReturn:
        _refuse(self, "have an item deleted")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise TypeError(
            f"a delayed object cannot be given the attribute {name!r}: await it, and set the "
            "attribute of the value"
        )

    def __delattr__(self, name: str) -> NoReturn:
        _refuse(self, "have an attribute deleted")

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a delayed object cannot be passed to a worker or pickled: await it, and pass the value"
        )

    __hash__ = object.__hash__


def record(
    like: Delayed[Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
) -> Delayed[Any]:
    """Record a call whose arguments may be, or contain, delayed objects; return its result."""
    needs: list[Node] = []
    bound = tuple([_bound(arg, needs) for arg in args])
    named = {name: _bound(arg, needs) for name, arg in kwargs.items()} if kwargs else {}
    return Delayed(Operation(function, bound, named, needs), None, like._copy)


def _bound(arg: Any, needs: list[Node]) -> Any:
    """Return an argument with each delayed object replaced by its present node; collect these."""
    if isinstance(arg, Delayed):
        needs.append(arg._node)
        return arg._node
    kind = type(arg)
    if kind is list or kind is tuple:
        items = arg
    elif kind is dict:
        items = [x for pair in arg.items() for x in pair]
    elif kind is slice:
        items = (arg.start, arg.stop, arg.step)
    else:
        return arg
    before = len(needs)
    bound = [_bound(item, needs) for item in items]
    return Nested(kind, bound) if len(needs) > before else arg


def _is_delayed(items: Iterable[Any]) -> bool:
    return any(isinstance(item, Delayed) for item in items)


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _set_item(target: Any, key: Any, value: Any) -> Any:
    target[key] = value
    return target


def _set_item_of_copy(target: Any, key: Any, value: Any) -> Any:
    return _set_item(copy.copy(target), key, value)


def _refuse(value: Delayed[Any], what: str) -> NoReturn:
    done = value._node.done
    name = f"the value of {_called(value)}"
    reason = f"only an await gives {name}" if done else f"{name} is not known yet"
    raise TypeError(f"a delayed object cannot {what}: {reason}; await it first")


def _called(value: Delayed[Any]) -> str:
    """Return a name for a delayed object in messages: that of its function, if it has one."""
    return name_behind(value._node).removeprefix("of ") or "this delayed object"


class _Short(reprlib.Repr):
    """The representation of values in a line; what is large is cut."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = 4
        self.maxstring = self.maxother = self.maxlong = 80
        self.maxlevel = 3


def _short(value: object) -> str:
    text = " ".join(_Short().repr(value).split())
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


_LONG = 160


def _refuse_writing(function: Any) -> NoReturn:
    raise TypeError(
        f"np.{function.__name__} cannot write a delayed result into an array: await it first, or "
        "assign what the function returns"
    )


def delayedval(v: T, length: int | None = None, copy_on_setitem: bool = True) -> Delayed[T]:
    """Wrap a value into a delayed object that is done from the beginning.

    Useful in tests, and where NumPy would have to store a delayed object in an array::

        a = delayedval(np.arange(3))
        a[[0, 1]] += r_

    Args:
        v: the value; it is not copied.
        length: the number of its items, for iteration and unpacking.
        copy_on_setitem: if true, assigning an item copies the value first, see `delayed`.
    """
    return Delayed(Constant(v), length, copy_on_setitem)


@overload
async def each(*dos: Delayed[T]) -> list[T]: ...


@overload
async def each(*dos: Delayed[T] | Iterable[Delayed[T]]) -> list[T]: ...


async def each(*dos: Delayed[T] | Iterable[Delayed[T]]) -> list[T]:
    """Await several delayed objects, given one by one or as iterables of them.

    Returns:
        Their values, in order.

    Raises:
        Exception: the exception of the first task that failed, at once; the others go on.
        TypeError: an argument is not a delayed object.
    """
    __tracebackhide__ = True
    return await gather([item._node for item in flat(dos, "each")])


def flat(dos: Iterable[Delayed[T] | Iterable[Delayed[T]]], caller: str) -> list[Delayed[T]]:
    """Return as one list delayed objects that were given one by one or as iterables of them.

    Raises:
        TypeError: an argument is not a delayed object; the message names the caller.
    """
    wrong = f"{caller}() takes delayed objects or iterables of them, not "
    items: list[Delayed[T]] = []
    for given in dos:
        if isinstance(given, Delayed):
            items.append(given)
            continue
        if not isinstance(given, Iterable):
            raise TypeError(f"{wrong}{_not_delayed([given])}")
        items.extend(given)
    for at, item in enumerate(items):
        if not isinstance(item, Delayed):
            raise TypeError(f"{wrong}{_not_delayed(items[at:])}")
    return items


def _not_delayed(given: Sequence[object]) -> str:
    """Return the words for the first of some objects, with what to do where that is clear.

    Coroutines are closed: Python would complain besides that they were never awaited.
    """
    import inspect

    coroutines = [one for one in given if inspect.iscoroutine(one)]
    if not coroutines or coroutines[0] is not given[0]:
        return repr(given[0])
    for one in coroutines:
        one.close()
    name = coroutines[0].__name__
    return f"a coroutine of {name}: decorate {name} with @delayed (from grain.delayed)"
