"""Factor numbers of the Cunningham table, 2^p - 1 and 2^p + 1 for primes p, on all cores.

The leaves run the external program `factor` (GNU coreutils), each bound to the one CPU that it was
given. The branches check the products. It takes from a millisecond to a few seconds a number; the
numbers 2^p - 1 are the Mersenne numbers. It is run twice, on one core and on all of them.

    python factor.py [LARGEST]

LARGEST is the largest p; without it, 167.
"""

from __future__ import annotations

import math
import os
import sys
import time
from functools import partial

from grain.delayed import delayed, each, run
from grain.resource import Cores

LARGEST = int(sys.argv[1]) if sys.argv[1:] else 167
# Left out: primes between 127 and 170 whose numbers take minutes, for want of a small factor.
PRIMES = [p for p in range(2, 128) if all(p % q for q in range(2, p))]
MINUS = [*PRIMES, 131, 139, 151, 157, 163, 167]
PLUS = [*PRIMES, 131, 139, 149, 151, 167]

Row = tuple[str, list[int], float, int]


@delayed
async def factor(n: int) -> tuple[list[int], float, int]:
    # an import inside the function is made where the function runs
    from grain import GVAR
    from grain.worker.external import run_external

    done = await run_external(["factor", str(n)])
    _, _, factors = done.stdout_text.partition(":")
    (cpu,) = GVAR.res.c
    return [int(f) for f in factors.split()], done.elapsed, cpu


@delayed
async def checked(name: str, n: int) -> Row:
    factors, seconds, cpu = await (factor @ Cores(1))(n)
    if math.prod(factors) != n:
        raise ArithmeticError(f"the factors of {name} multiply to {math.prod(factors)}")
    return name, factors, seconds, cpu


async def table() -> list[Row]:
    numbers = {f"2^{p} - 1": 2**p - 1 for p in MINUS if p <= LARGEST}
    numbers |= {f"2^{p} + 1": 2**p + 1 for p in PLUS if p <= LARGEST}
    # The hardest first: what is submitted first starts first, and the short ones fill the gaps.
    hard = sorted(numbers, key=lambda name: numbers[name], reverse=True)
    return await each(checked(name, numbers[name]) for name in hard)


def timed(cpus: list[int]) -> tuple[list[Row], float]:
    began = time.perf_counter()
    rows = run(partial(table), local=Cores(cpus), config_file=False)
    return rows, time.perf_counter() - began


def main() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    _, alone = timed(cpus[:1])
    rows, together = timed(cpus)
    print(f"{'number':>10}  {'seconds':>7}  CPU  factors")
    for name, factors, seconds, cpu in sorted(rows, key=lambda row: math.prod(row[1])):
        print(f"{name:>10}  {seconds:7.3f}  {cpu:>3}  {' x '.join(map(str, factors))}")
    work = sum(seconds for _, _, seconds, _ in rows)
    print(f"{len(rows)} numbers, {work:.1f} s of work; all products are right")
    print(
        f"{alone:.2f} s on 1 core, {together:.2f} s on {len(cpus)}: "
        f"{alone / together:.2f} times as fast"
    )


if __name__ == "__main__":
    main()
