"""`delayed` and `DelayedFn`: async functions whose calls become tasks."""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Awaitable, Callable
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    overload,
)

from grain.delayed.missions.current import current_mission
from grain.delayed.value import Delayed
from grain.resource import ZERO, Resource, learns
from grain.worker.call import Call, name_of, not_async
from grain.worker.undelayed import Undelayed

if TYPE_CHECKING:
    from typing_extensions import Self

    from grain.delayed.leaves.policy import LeafPolicy
    from grain.delayed.leaves.retry import RetryOn, RetryWith

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")

CacheKey = Callable[..., str | bytes] | Literal["args"]


class DelayedFn(Generic[P, T]):
    """An async function whose call submits it and returns a `Delayed` at once.

    Bind resources to it with ``@``: ``(fn @ Cores(4))(x)`` runs on a worker with four cores for
    it (a leaf); ``fn(x)``, without resources, runs in the mission's own process (a branch), where
    it may call delayed functions itself. Binding makes another `DelayedFn` and leaves this one as
    it is.

    Do not construct this directly, use the `delayed` decorator.
    """

    __slots__ = ("__weakref__", "copy_on_setitem", "fn", "nout", "policy", "res", "urgency")

    def __init__(
        self,
        fn: Callable[P, Awaitable[T]],
        nout: int | None,
        copy_on_setitem: bool,
        policy: LeafPolicy | None,
        res: Resource = ZERO,
        urgency: float = 0.0,
    ) -> None:
        self.fn = fn
        self.nout = nout
        self.copy_on_setitem = copy_on_setitem
        self.policy = policy  # None for most functions
        self.res = res
        self.urgency = urgency

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Delayed[T]:
        """Submit a call; return the delayed object of its result.

        Raises:
            NotInMission: no mission runs here.
            TypeError: an argument is a delayed object, or holds one; or the call has no key.
            grain.resource.Infeasible: no worker can ever meet the request, and none can join.
        """
        mission = current_mission(self.fn)
        for arg in args:
            if type(arg) not in _PLAIN:
                check_argument(arg, self.fn)
        for arg in kwargs.values():
            check_argument(arg, self.fn)
        call = Call(self.fn, args, kwargs)
        if self.res is ZERO:
            node = mission.branch(call, self.policy)
        else:
            node = mission.leaf(self.res, call, self.policy, self.urgency)
        return Delayed(node, self.nout, self.copy_on_setitem)

    def __matmul__(self, res: Resource) -> DelayedFn[P, T]:
        """Return this function with resources bound to it, beside its present ones.

        Raises:
            TypeError: res is not a resource.
            ValueError: a resource of this kind is bound already.
        """
        if not isinstance(res, Resource):
            raise self._not_bound(res)
        if self.res is not ZERO:
            res = self.res & res
        policy = self.policy
        if policy is None and learns(res):
            from grain.delayed.leaves.policy import LEARNING  # few functions need it

            policy = LEARNING
        return DelayedFn(self.fn, self.nout, self.copy_on_setitem, policy, res, self.urgency)

    def with_urgency(self, urgency: float) -> DelayedFn[P, T]:
        """Return this function with an urgency: of the calls that wait, which goes first.

        Among the calls of a mission that ask for the same resources, those of larger urgency start
        first, and those of equal urgency in the order of the calls; 0 is that of all others. The
        best number is the expected time in seconds from the start of the call to the end of all
        that depends on it: the length of the longest path. It does not matter for branches, which
        wait for nothing, nor for the turns that missions take.

        Args:
            urgency: the number, for all calls of the function that this returns.

        Raises:
            TypeError: urgency is not a number.
            ValueError: it is not finite.
        """
        from numbers import Real  # rarely needed

        if not isinstance(urgency, Real) or isinstance(urgency, bool):
            raise TypeError(f"with_urgency({urgency!r}): give a number, such as expected seconds")
        number = float(urgency)
        if not math.isfinite(number):
            raise ValueError(f"with_urgency({urgency!r}): give a finite number")
        return DelayedFn(self.fn, self.nout, self.copy_on_setitem, self.policy, self.res, number)

    def _not_bound(self, res: object) -> TypeError:
        name, write = self.__name__, "Cores(4)"
        if isinstance(res, int) and not isinstance(res, bool) and res > 0:
            write = f"Cores({res})"
        elif isinstance(res, list | tuple) and all(isinstance(part, Resource) for part in res):
            write = f"({' & '.join(part.ask() for part in res)})"
        return TypeError(
            f"cannot bind {res!r} to {name}: after @ comes a resource; write {name} @ {write}"
        )

    if not TYPE_CHECKING:  # type checkers are to find these mistakes by themselves

        def __and__(self, res):
            if not isinstance(res, Resource):
                return NotImplemented
            asked = f"{self.res.ask()} & {res.ask()}" if self.res is not ZERO else res.ask()
            raise TypeError(
                f"@ binds tighter than &: write {self.__name__} @ ({asked}), with brackets"
            )

        def __or__(self, res):
            if not isinstance(res, Resource):
                return NotImplemented
            asked = f"{self.res.ask()} | {res.ask()}" if self.res is not ZERO else res.ask()
            raise TypeError(
                f"@ binds tighter than |: write {self.__name__} @ ({asked}), with brackets"
            )

        def __rmatmul__(self, res):
            if not isinstance(res, Resource):
                return NotImplemented
            raise TypeError(f"the function comes first: write {self.__name__} @ {res.ask()}")

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(
                f"a delayed function has no attribute {name!r}: call it, and await what it "
                f"returns, as in r_ = {self.__name__}(...); r = await r_"
            )

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(
        self: DelayedFn[Concatenate[Any, Q], T], instance: object, owner: type | None = None
    ) -> DelayedFn[Q, T]: ...

    def __get__(self, instance: object, owner: type | None = None) -> object:
        """Bind the function to an instance, as a method."""
        if instance is None:
            return self
        # Not a partial: two partials always differ, and would never share a task by cache_hfn.
        method = types.MethodType(self.fn, instance)
        return DelayedFn(
            method, self.nout, self.copy_on_setitem, self.policy, self.res, self.urgency
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # It travels to a worker as the plain function: a worker needs no frontend.
        return (Undelayed, (self.fn,))

    def __repr__(self) -> str:
        bound = "" if self.res is ZERO else f" @ ({self.res.ask()})"
        return f"<DelayedFn {name_of(self.fn)}{bound}>"

    @property
    def __wrapped__(self) -> Callable[P, Awaitable[T]]:
        return self.fn

    @property
    def __name__(self) -> str:
        return getattr(self.fn, "__name__", name_of(self.fn))


@overload
def delayed(
    fn: Callable[P, Awaitable[T]],
    nout: int | None = None,
    copy_on_setitem: bool = True,
    cache_hfn: CacheKey | None = None,
    *,
    cache_version: str | int = "",
    retries: int = 0,
    retry_on: RetryOn | None = None,
    retry_with: RetryWith | None = None,
    retry_wait: float = 1.0,
) -> DelayedFn[P, T]: ...


@overload
def delayed(
    fn: None = None,
    nout: int | None = None,
    copy_on_setitem: bool = True,
    cache_hfn: CacheKey | None = None,
    *,
    cache_version: str | int = "",
    retries: int = 0,
    retry_on: RetryOn | None = None,
    retry_with: RetryWith | None = None,
    retry_wait: float = 1.0,
) -> Callable[[Callable[P, Awaitable[T]]], DelayedFn[P, T]]: ...


def delayed(
    fn: Callable[P, Awaitable[T]] | None = None,
    nout: int | None = None,
    copy_on_setitem: bool = True,
    cache_hfn: CacheKey | None = None,
    *,
    cache_version: str | int = "",
    retries: int = 0,
    retry_on: RetryOn | None = None,
    retry_with: RetryWith | None = None,
    retry_wait: float = 1.0,
) -> DelayedFn[P, T] | Callable[[Callable[P, Awaitable[T]]], DelayedFn[P, T]]:
    """Wrap an async function into a delayed function: a decorator, with arguments or without.

    Args:
        fn: the async function.
        nout: the number of items of the result; needed for iterating and unpacking the result.
        copy_on_setitem: if true, assigning an item of the result (``r[0] = 1``) works on a copy.
            This is safe: values taken out before, as by ``a, b = r``, are not affected.
            Turn it off for speed with large results.
        cache_hfn: the key under which the result of a leaf is kept: a function of the call's
            arguments that returns a str or bytes; or "args", for a digest of the arguments. Leaves
            with the same key share one task within a mission, and a result that is kept on disk,
            see `mission`, is not computed again. The code of the function is part of the key, too.
            Failures are not kept, and branches are not looked up.
        cache_version: part of the key; change it to have everything computed again.
        retries: the number of attempts after the first one, for a task that fails.
        retry_on: the exceptions after which a task is retried: a type, a tuple of types, or a
            predicate of the exception. By default all exceptions but mistakes in the program
            (TypeError, NameError, AttributeError, NotImplementedError, SyntaxError) and
            `grain.head.errors.TaskCrashed`.
        retry_with: a function of the request and the exception that returns the request of the
            next attempt, or None to give up. Only leaves have a request.
        retry_wait: seconds before the first retry, twice that before the second, and so on; but
            not more than 300 s, unless retry_wait itself is more, and each wait shortened by up to
            a half at random.

    Raises:
        TypeError: fn is not an async function, or an option has the wrong type.
        ValueError: retry_wait is negative, or no finite number.
    """
    if nout is not None and (not isinstance(nout, int) or isinstance(nout, bool) or nout < 0):
        raise TypeError(f"nout={nout!r}: the number of items is an int, not negative")
    options = (cache_hfn, cache_version, retries, retry_on, retry_with, retry_wait)
    if options != _USUAL:
        from grain.delayed.leaves.policy import make_policy

        make_policy(*options)  # so that a wrong option is an error here, and not at the `wrap`

    def wrap(fn: Callable[P, Awaitable[T]]) -> DelayedFn[P, T]:
        if isinstance(fn, DelayedFn):
            raise TypeError(f"{name_of(fn.fn)} is a delayed function already")
        if isinstance(fn, classmethod | staticmethod):
            method: Any = type(fn)(wrap(fn.__func__))  # in the order in which both work
            return method  # type: ignore[no-any-return]
        if not is_async(fn):
            raise not_async(fn)
        policy = None if options == _USUAL else make_policy(*options)
        return DelayedFn(fn, nout, copy_on_setitem, policy)

    return wrap if fn is None else wrap(fn)


# The options on caching and retries of most functions.
_USUAL = (None, "", 0, None, None, 1.0)


def is_async(fn: Any) -> bool:
    """Return True if a call of a function can be awaited, as far as one can tell before it."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not callable(fn):
        return False
    if not inspect.isroutine(fn):
        fn = type(fn).__call__
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(inspect.unwrap(fn))


_PLAIN = frozenset({int, float, str, bytes, bool, type(None)})
_CONTAINERS = (list, tuple, set, frozenset)


def check_argument(arg: object, fn: object, depth: int = 2) -> None:
    """Refuse a delayed object as an argument, also in containers down to a depth.

    Raises:
        TypeError: the argument is or contains a delayed object.
    """
    if isinstance(arg, Delayed):
        raise TypeError(
            f"a delayed object was passed to {name_of(fn)}: await it first and pass the value, as "
            "in `r1 = await f(); r2 = await g(r1)`"
        )
    if not depth:
        return
    if isinstance(arg, dict):
        arg = [*arg, *arg.values()]
    if isinstance(arg, _CONTAINERS):
        for item in arg:
            if type(item) not in _PLAIN:
                check_argument(item, fn, depth - 1)
