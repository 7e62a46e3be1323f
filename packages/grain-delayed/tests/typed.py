"""Declarations for a type checker: read by mypy in test_typing.py, and never run.

Where a line must be an error, a ``type: ignore`` says which: mypy reports those it does not need.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from typing_extensions import assert_type

from grain.combine import exec1, open_waitgroup
from grain.combine import run as run_combine
from grain.delayed import Delayed, DelayedFn, delayed, delayedval, each, mission, run
from grain.resource import Cores
from grain.util import QueueLimiter, as_completed, open_nursery_with_capacity


@delayed
async def plain(x: int, *, name: str = "") -> float:
    return x + len(name)


@delayed(nout=2, copy_on_setitem=False, cache_hfn=lambda x: str(x))
async def options(x: int) -> list[str]:
    return [str(x), ""]


class Owner:
    @delayed
    async def method(self, x: int) -> bytes:
        return bytes(x)


async def functions() -> None:
    """Calls keep the parameters and the result of the function; so does binding."""
    assert_type(plain(1), Delayed[float])
    assert_type(plain(1, name="x"), Delayed[float])
    assert_type(await plain(1), float)
    assert_type((plain @ Cores(1))(1), Delayed[float])
    assert_type(await (plain @ Cores(1) @ Cores(2))(1), float)
    assert_type(options(1), Delayed[list[str]])
    assert_type(await (options @ Cores(1))(1), list[str])

    plain("x")  # type: ignore[arg-type]
    plain()  # type: ignore[call-arg]
    plain(1, 2)  # type: ignore[call-arg, arg-type]
    plain(1, name=3)  # type: ignore[arg-type]
    (plain @ Cores(1))("x")  # type: ignore[arg-type]
    plain(plain(1))  # type: ignore[arg-type]
    plain @ 4  # type: ignore[operator]


async def methods(owner: Owner) -> None:
    """A method is called without its instance."""
    assert_type(await owner.method(1), bytes)
    assert_type((owner.method @ Cores(1))(1), Delayed[bytes])
    assert_type(await Owner.method(owner, 1), bytes)

    owner.method("x")  # type: ignore[arg-type]
    owner.method(1, 2)  # type: ignore[call-arg]


def sync(x: int) -> int:
    return x


def wrapping() -> None:
    """Only async functions are taken."""
    delayed(sync)  # type: ignore[arg-type]
    delayed(nout="2")  # type: ignore[call-overload]


async def values() -> None:
    """Values keep their type; what operations give is not known."""
    assert_type(delayedval(3), Delayed[int])
    assert_type(await delayedval("x"), str)
    assert_type(plain(1) + 1, Delayed[Any])
    assert_type(1 + plain(1), Delayed[Any])
    assert_type(plain(1)[0], Delayed[Any])
    assert_type(plain(1).real, Delayed[Any])
    assert_type(await (plain(1) * 2), Any)
    assert_type(await each([plain(1), plain(2)]), list[float])
    assert_type(await each(plain(1), plain(2)), list[float])
    assert_type(await each(plain(i) for i in range(3)), list[float])

    await each(3)  # type: ignore[call-overload]
    await each([3])  # type: ignore[arg-type]


async def root() -> int:
    return 1


async def rooted(x: str) -> str:
    return x


def running() -> None:
    """`run` gives what its functions return."""
    assert_type(run(root), int)
    assert_type(run(root, Cores(1), config_file=False), int)
    assert_type(run(partial(rooted, "x"), config_file="grain.toml"), str)
    assert_type(run([root, root]), list[int])
    assert_type(run(iter([root]), name="x", prioritized=True, progress=False), list[int])
    assert_type(run(delayed(root)), int)

    run(rooted)  # type: ignore[arg-type]
    run(root())  # type: ignore[call-overload]
    run(root, Cores)  # type: ignore[call-overload]
    run(root, config_file=True)  # type: ignore[call-overload]


async def missions() -> None:
    """A mission takes the same options."""
    async with mission(Cores(1), config_file=False, name="x", prioritized=True, progress=None):
        fn: DelayedFn[[int], list[str]] = options @ Cores(1)
        assert_type(await fn(1), list[str])
        assert_type(await fn.with_urgency(60)(1), list[str])


async def tasklet(x: int, *, name: str = "") -> float:
    return x + len(name)


async def groups() -> None:
    """Jobs of a waitgroup keep the parameters and the result of the function."""
    async with open_waitgroup() as wg:
        assert_type(wg.submit(Cores(1), tasklet, 1, name="x"), Delayed[float])
        assert_type(wg.start_subtask(tasklet, 1), Delayed[float])

        wg.submit(Cores(1), tasklet, "x")  # type: ignore[arg-type]
        wg.submit(tasklet, 1)  # type: ignore[arg-type]
        wg.start_subtask(sync, 1)  # type: ignore[arg-type]
    assert_type(wg.results, list[Any])
    assert_type(await exec1(Cores(1), tasklet, 1), float)
    assert_type(run_combine(root, local=Cores(1)), int)

    await exec1(Cores(1), tasklet)  # type: ignore[call-arg]


async def helpers() -> None:
    """A function that goes through a limiter keeps its parameters and its type."""
    async with QueueLimiter(2) as ql:
        assert_type(await ql(plain)(1, name="x"), Delayed[float])
        assert_type(await ql(plain @ Cores(1))(1), Delayed[float])

        await ql(plain)("x")  # type: ignore[arg-type]
        await ql(tasklet)(1)  # type: ignore[type-var,unused-coroutine]
    async with open_nursery_with_capacity(2) as nursery:
        await nursery.start_once_acquired(tasklet, 1, name="x")

        await nursery.start_once_acquired(tasklet, "x")  # type: ignore[arg-type]
    async for r_ in as_completed(plain(1), plain(2)):
        assert_type(r_, Delayed[float])
    async for s_ in as_completed(options(x) for x in range(3)):
        assert_type(s_, Delayed[list[str]])
