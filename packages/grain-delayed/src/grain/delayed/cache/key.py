"""The key of a result: the parts of a call that its result depends on."""

from __future__ import annotations

import functools
import hashlib
import inspect
import reprlib
import sys
import types
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from grain.delayed.cache.digest import Undigestible, code_digest, digest
from grain.worker.call import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from grain.worker import Call

    CacheKey = Callable[..., str | bytes] | Literal["args"]


class Key(NamedTuple):
    """The parts that a result depends on; two results with equal parts are the same.

    Attributes:
        function: module (or script) and name of the function.
        code: digest of the code of the function, with its defaults.
        bound: digest of the variables that the function closes over, of the instance of a method,
            and of the arguments of a partial; empty if there is none of that.
        call: digest of the return value of `cache_hfn`, or of the arguments.
        shown: the same for display, shortened; not part of the key.
        by_arguments: True if `call` is a digest of the arguments; no part of the key, either.
    """

    function: str
    code: str
    bound: str
    version: str
    call: str
    shown: str
    by_arguments: bool = False

    @property
    def name(self) -> str:
        """The name of the result: 64 hexadecimal digits."""
        return hashlib.sha256("\0".join(self[:5]).encode("utf-8", "surrogatepass")).hexdigest()


class Caching:
    """The caching options of one delayed function, and the keys of its calls."""

    def __init__(self, hfn: CacheKey, version: str) -> None:
        self._hfn = hfn
        self.by_arguments = hfn == "args"
        self.version = version
        # The function, its name and the digest of its code, computed at the first call.
        self._function_parts: tuple[object, str, str] | None = None
        self._signatures: dict[type, inspect.Signature] = {}

    def shared(self, call: Call) -> str | bytes:
        """Return the value of `cache_hfn` for a call; calls of one function share a task by it.

        Raises:
            TypeError: it returned neither str nor bytes, or an argument has no digest.
        """
        if self._hfn == "args":
            return self._digest_arguments(call)
        key = self._hfn(*call.args, **call.kwargs)
        if not isinstance(key, str | bytes):
            raise TypeError(
                f"cache_hfn of {name_of(call.fn)} returned {key!r}; it returns str or bytes"
            )
        return key

    def bound(self, fn: Any) -> str:
        """Return the digest of what a function is bound to now; empty if that is nothing.

        Raises:
            Undigestible: something that it is bound to has no digest.
        """
        fn, bound = _unbound(fn)
        if getattr(fn, "__closure__", None):
            bound += ((name_of(fn), fn),)
        return "".join(digest(what, name).hex() for name, what in bound)

    def owner(self, fn: Any, bound: str | None) -> Hashable:
        """Return what two calls must have in common to share a task by `shared`.

        With "args" that is the function, bound to equal things; else the function or instance.

        Args:
            bound: the digest of what it is bound to; None if there is none.
        """
        if self.by_arguments and bound is not None:
            return _unbound(fn)[0], bound
        try:
            hash(fn)
        except TypeError:  # such as most dataclasses; a bound method is hashed by identity
            return types.MethodType(type(fn).__call__, fn)
        owner: Hashable = fn
        return owner

    def key(self, call: Call, shared: str | bytes, bound: str) -> Key:
        """Return the key under which the result is kept on disk.

        Raises:
            Undigestible: a default of the function has no digest.
        """
        fn, _ = _unbound(call.fn)
        if self._function_parts is None or self._function_parts[0] is not fn:
            name = function_name(fn)
            self._function_parts = (fn, name, code_digest(fn, name_of(fn)).hex())
        _, function, code = self._function_parts
        if self.by_arguments:
            shown = show_call(call)
        else:
            shown = shared if isinstance(shared, str) else shared.hex()
            if not shown.isprintable():  # a list shows it as one line
                shown = ascii(shown)[1:-1]
        data = shared.encode("utf-8", "surrogatepass") if isinstance(shared, str) else shared
        kind = "args" if self.by_arguments else type(shared).__name__
        call_digest = hashlib.sha256(f"{kind}:".encode() + data).hexdigest()
        return Key(function, code, bound, self.version, call_digest, shown[:100], self.by_arguments)

    def _digest_arguments(self, call: Call) -> bytes:
        """Return a digest that is equal however the same arguments were passed.

        That is by position or by name; and a default by not passing it, which the digest of the
        code has as well.
        """
        given: dict[Any, Any] = {**dict(enumerate(call.args)), **call.kwargs}
        parameters: Mapping[str, inspect.Parameter] = {}
        try:
            # Kept by type: a method has one argument less when it is bound to an instance.
            signature = self._signatures.get(type(call.fn))
            if signature is None:
                signature = self._signatures[type(call.fn)] = inspect.signature(call.fn)
            given = dict(signature.bind(*call.args, **call.kwargs).arguments)
            parameters = signature.parameters
        except (TypeError, ValueError):
            pass  # the call itself will raise
        whole = hashlib.sha256()
        for name in sorted(given, key=str):
            value = digest(given[name], f"argument {name} of {name_of(call.fn)}")
            if name not in parameters or not _is_default(parameters[name], given[name], value):
                whole.update(digest(name, "a name"))
                whole.update(value)
        return whole.digest()


def _is_default(parameter: inspect.Parameter, value: object, digest_of_value: bytes) -> bool:
    if parameter.default is value or parameter.default is parameter.empty:
        return parameter.default is value
    try:
        return digest(parameter.default, "a default") == digest_of_value
    except Undigestible:
        return False


def function_name(fn: Any) -> str:
    """Return module and name of a function; for one of the program itself the file's name."""
    # The code of a wrapper stands in the decorator's file.
    code = getattr(inspect.unwrap(fn), "__code__", None)
    module = getattr(fn, "__module__", None) or "?"
    if module == "__main__" and code is not None:
        if not hasattr(sys.modules["__main__"], "__file__"):
            # In a notebook or an interactive session each cell has a file name of its own, which
            # changes with anything in the cell.
            return f"__main__:{name_of(fn)}"
        # Several programs may use one cache, and all of them are `__main__`.
        return f"{PurePath(code.co_filename).name}:{name_of(fn)}"
    return f"{module}.{name_of(fn)}"


def _unbound(fn: Any) -> tuple[Any, tuple[tuple[str, object], ...]]:
    """Return the function itself, and what it is bound to: an instance, a partial's arguments."""
    bound: tuple[tuple[str, object], ...] = ()
    while True:
        if isinstance(fn, functools.partial):
            bound += (("an argument of the partial", (fn.args, fn.keywords)),)
            fn = fn.func
        elif isinstance(fn, types.MethodType):
            bound += (("self", fn.__self__),)
            fn = fn.__func__
        elif not hasattr(fn, "__code__") and hasattr(type(fn).__call__, "__code__"):
            bound += (("self", fn),)
            fn = type(fn).__call__
        else:
            return fn, bound


def show_call(call: Call) -> str:
    """Return the arguments of a call for display, shortened."""
    parts = [_show(arg) for arg in call.args]
    return ", ".join([*parts, *(f"{name}={_show(arg)}" for name, arg in call.kwargs.items())])


def _show(arg: object) -> str:
    # The repr of any other object may be long or slow, or raise.
    if type(arg) in (int, float, complex, bool, str, bytes, type(None)):
        return reprlib.repr(arg)
    size = f" of {len(arg)}" if isinstance(arg, list | tuple | dict | set) else ""
    return f"<{type(arg).__qualname__}{size}>"
