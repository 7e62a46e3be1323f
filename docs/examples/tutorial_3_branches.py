"""The tutorial's third program: a branch, called several times in parallel, and its leaves."""

from grain import GVAR
from grain.delayed import delayed, each, run
from grain.resource import Cores


@delayed
async def add(x: int) -> int:
    # an import inside the function is made where the function runs
    import trio

    print(f"start adding to {x} with resource {GVAR.res}")
    await trio.sleep(x / 10)  # simulate lengthy calculation
    print(f"done adding to {x}")
    return x + 1


@delayed
async def elevated_sum(l: list[int]) -> None:
    s_ = 0
    for x in l:
        s_ += (add @ Cores(1))(x)
    s = await s_
    print(f"elevated_sum({l}) = {s}")


async def main() -> None:
    data = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    await each(elevated_sum(d) for d in data)


run(
    main,
    local=Cores([0, 1]),
    config_file=False,
)
