"""A program whose leaves are the same on each kind of executor; it prints what each returned.

``python same_everywhere.py MODE``, which is ``local``, ``isolated`` or ``worker``. The leaves stand
in this file, which is `__main__` then, and in the module ``kinds_of_leaves``, a copy of their part.
"""

from __future__ import annotations

import functools
import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from grain import GVAR
from grain.delayed import delayed, run
from grain.resource import Cores
from grain.subproc import subprocify
from grain.worker.blocking import in_thread
from grain.worker.external import run_external

if TYPE_CHECKING:
    from collections.abc import Callable

ONE = Cores(1)

# ---- begin of the module


class Base:
    k = 2

    @delayed
    async def times(self, x: int) -> int:
        """Multiply by what each instance has."""
        return x * self.k

    async def plain(self, x: int) -> int:
        return x * self.k


class Calc(Base):
    """Delayed methods of all kinds."""

    def __init__(self) -> None:
        self.k = 3

    @delayed
    async def times(self, x: int) -> int:
        """Override one, and call another."""
        return self.added(x) * self.k

    def added(self, x: int) -> int:
        return x + 1

    @classmethod
    @delayed
    async def of_class(cls, x: int) -> tuple[str, int]:
        return cls.__name__, x * Base.k

    @delayed
    @classmethod
    async def outside_of_class(cls, x: int) -> tuple[str, int]:
        return cls.__name__, x * Base.k

    @staticmethod
    @delayed
    async def of_none(x: int) -> int:
        return x * 5

    @delayed
    @staticmethod
    async def outside_of_none(x: int) -> int:
        return x * 5

    @delayed
    @subprocify
    def computes(self, x: int) -> int:
        return x * self.k

    @delayed
    @in_thread
    def blocks(self, x: int) -> int:
        return x * self.k

    def above(self) -> Any:
        return super().times

    async def __call__(self, x: int) -> int:
        return x + self.k


@dataclass
class Scale:
    """A callable that is equal to others, and has no hash."""

    k: int

    async def __call__(self, x: int) -> int:
        return x * self.k

    @delayed
    async def scaled(self, x: int) -> int:
        return x * self.k


async def product(x: int, y: int = 2, *, z: int = 1) -> int:
    return x * y * z


def doubling(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    async def doubled(*args: Any, **kwargs: Any) -> Any:
        return 2 * await fn(*args, **kwargs)

    return doubled


@delayed
@doubling
async def decorated(x: int) -> int:
    return x + 1


@doubling
async def wrapped(x: int) -> int:
    return x + 1


LEAVES: dict[str, Callable[[], Any]] = {
    "method": lambda: Calc().times,
    "inherited method": lambda: Base().times,
    "method of the base": lambda: Calc().above(),
    "method of the class": lambda: functools.partial(Calc.times @ ONE, Calc()),
    "method of a dataclass": lambda: Scale(4).scaled,
    "bound method": lambda: delayed(Calc().plain),
    "class method": lambda: Calc.of_class,
    "class method, decorated": lambda: Calc.outside_of_class,
    "class method of an instance": lambda: Calc().of_class,
    "static method": lambda: Calc.of_none,
    "static method, decorated": lambda: Calc().outside_of_none,
    "method in a process": lambda: Calc().computes,
    "method in a thread": lambda: Calc().blocks,
    "callable": lambda: delayed(Calc()),
    "callable without a hash": lambda: delayed(Scale(6)),
    "partial": lambda: delayed(functools.partial(product, y=7)),
    "partial of a method": lambda: delayed(functools.partial(Calc().plain)),
    "partial of a callable": lambda: delayed(functools.partial(Scale(3))),
    "decorated": lambda: decorated,
    "delayed later": lambda: delayed(wrapped),
}

# ---- end of the module


def fork(ending: str) -> str:
    """Fork, and end the child in one of several ways; it must not be seen."""
    pid = os.fork()
    if not pid:
        if ending == "raises":
            raise RuntimeError("the child")
        if ending == "exec fails":
            os.execv("/nowhere/program", ["program"])
        if ending == "computes":
            os._exit(sum(range(7)))
        if ending == "runs a program":
            os.execv("/bin/sh", ["sh", "-c", "exit 21"])
        return "child"
    return f"parent {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}"


def square(queue: Any) -> None:
    queue.put(49)


def by_multiprocessing(_: str) -> int:
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=square, args=(queue,))
    process.start()
    value: int = queue.get()
    process.join()
    assert not process.exitcode
    return value


def by_subprocess(_: str) -> str:
    done = subprocess.run(
        ["sh", "-c", "pwd"],
        cwd="/",
        preexec_fn=os.getpid,
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout


@delayed
async def in_loop(fn: Callable[[str], object], ending: str) -> object:
    value = fn(ending)
    await trio.lowlevel.checkpoint()
    return value


@delayed
async def at_once(fn: Callable[[str], object], ending: str) -> object:
    return fn(ending)


ENDINGS = ("returns", "raises", "exec fails", "computes", "runs a program")


async def forks() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for ending in ENDINGS:
        found[f"{ending}, in the loop"] = await (in_loop @ ONE)(fork, ending)
        found[f"{ending}, at once"] = await (at_once @ ONE)(fork, ending)
        found[f"{ending}, in a thread"] = await (delayed(in_thread(fork)) @ ONE)(ending)
        found[f"{ending}, in a process"] = await (delayed(subprocify(fork)) @ ONE)(ending)
        found[f"{ending}, in a branch"] = await at_once(fork, ending)
    found["multiprocessing"] = await (in_loop @ ONE)(by_multiprocessing, "")
    found["subprocess"] = await (in_loop @ ONE)(by_subprocess, "")
    found["in the root function"] = fork("returns")
    return found


PROGRAM = ("directory", "umask", "of a leaf", "of the root")


async def seen_by_program() -> dict[str, str]:
    """Return what a program sees."""
    text = "pwd; umask; echo ${OF_LEAF-none} ${OF_ROOT-none}"
    directory, *words = (await run_external(["sh", "-c", text])).stdout_text.split()
    return dict(zip(PROGRAM, [Path(directory).name, *words], strict=True))


async def seen() -> dict[str, Any]:
    """Return what a leaf and its programs see."""
    mask = os.umask(0)
    os.umask(mask)
    return {
        "program": await seen_by_program(),
        "directory": Path.cwd().name,
        "GVAR.cwd": Path(GVAR.cwd).name,
        "umask": f"{mask:04o}",
        "log level": logging.getLogger().level,
        "words": len(sys.argv),
        "globals": list(DATA),
        "signals": heard_now(),
    }


def heard_now() -> list[str]:
    """Return what the root function's handler hears of a signal to this process."""
    if signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL:  # which would end the process
        signal.raise_signal(signal.SIGUSR1)
    return list(HEARD)


async def changes() -> None:
    """Change what belongs to the process."""
    Path("elsewhere").mkdir()
    os.chdir("elsewhere")
    os.umask(0o077)
    os.environ["OF_LEAF"] = "leaf"


DATA: list[str] = []
HEARD: list[str] = []


async def surroundings() -> dict[str, Any]:
    found = {"before": await (delayed(seen) @ ONE)()}
    await (delayed(changes) @ ONE)()
    found["after a leaf"] = await (delayed(seen) @ ONE)()
    os.chdir(HOME.parent)
    os.environ["OF_ROOT"] = "root"
    logging.basicConfig(level="DEBUG")
    DATA.append("changed")
    signal.signal(signal.SIGUSR1, lambda number, _: HEARD.append(signal.Signals(number).name))
    found["after the root function"] = await (delayed(seen) @ ONE)()
    return found


async def main() -> None:
    import kinds_of_leaves  # type: ignore[import-not-found]  # the program has written it

    results: dict[str, dict[str, Any]] = {"script": {}, "module": {}}
    for place, leaves in (("script", LEAVES), ("module", kinds_of_leaves.LEAVES)):
        for name, make in leaves.items():
            fn = make()
            try:
                fn = fn if isinstance(fn, functools.partial) else fn @ ONE
                results[place][name] = await fn(5)
            except Exception as error:
                results[place][name] = f"{type(error).__name__}: {error}"
    results["surroundings"] = await surroundings()
    results["forks"] = await forks()
    if os.getpid() == PROCESS:
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    PROCESS, HOME = os.getpid(), Path.cwd()
    source = Path(__file__).read_text()
    begin, end = source.index("# ---- begin"), source.index("# ---- end")
    imports = source[source.index("from __future__") : source.index("ONE = ")]
    module = f"{imports}ONE = Cores(1)\n{source[begin:end]}"
    Path("kinds_of_leaves.py").write_text(module)
    sys.path.insert(0, os.getcwd())  # noqa: PTH109
    options: dict[str, Any] = {"progress": False}
    if sys.argv[1] != "worker":
        options |= {"local": ONE, "isolated": sys.argv[1] == "isolated", "config_file": False}
    run(main, **options)
