"""The tutorial's second program: each tasklet asks for one CPU core, of which there are two."""

from functools import partial

from grain import GVAR
from grain.delayed import delayed, run
from grain.resource import Cores


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
        s_ += (add @ Cores(1))(x)
    s = await s_
    print(f"elevated_sum({l}) = {s}")


run(
    partial(elevated_sum, [1, 2, 3]),
    local=Cores([0, 1]),
    config_file=False,
)
