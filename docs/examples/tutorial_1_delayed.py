"""The tutorial's first program: three tasklets in parallel, with no resources asked for."""

from functools import partial

from grain import GVAR
from grain.delayed import delayed, run


@delayed
async def add(x: int) -> int:
    # an import inside the function is made where the function runs
    import trio

    print(f"start adding to {x} with resource {GVAR.res}")
    await trio.sleep(x / 10)  # simulate lengthy calculation
    print(f"done adding to {x}")
    return x + 1


async def elevated_sum(l: list[int]) -> None:
    s_ = 0
    for x in l:
        s_ += add(x)
    s = await s_
    print(f"elevated_sum({l}) = {s}")


run(
    partial(elevated_sum, [1, 2, 3]),
    config_file=False,
)
