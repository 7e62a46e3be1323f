"""Functions whose results are kept, and a list of their runs; tests need the fixture `here`."""

from __future__ import annotations

from typing import Any

from grain.delayed import delayed, each, run
from grain.resource import Cores

# What ran. A global, as what a function closes over is part of its key.
CALLS: list[Any] = []


def again(fn: Any, *calls: tuple[Any, ...], **options: Any) -> list[Any]:
    """Return the results of some calls in a mission of their own."""

    async def main() -> list[Any]:
        return await each((fn @ Cores(1))(*call) for call in calls)

    return run(main, Cores(2), config_file=False, **options)


@delayed(cache_hfn="args")
async def square(x: int) -> int:
    CALLS.append(x)
    return x * x
