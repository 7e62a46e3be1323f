"""Functions in processes of a pool: calls, their results, what they find around them."""

from __future__ import annotations

import functools
import gc
import inspect
import math
import os
import signal
import sys
import threading
import types
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from grain import GVAR
from grain.resource import ZERO, Cores
from grain.subproc import subprocess_pool_scope, subprocify
from grain.subproc._output import Output
from grain.worker.errors import PayloadError, TaskletAborted

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path


@asynccontextmanager
async def pool(**arguments: Any) -> AsyncGenerator[None]:
    """A scope; no test waits for ever."""
    with trio.fail_after(300):
        async with subprocess_pool_scope(**arguments):
            yield


@subprocify
def where() -> int:
    return os.getpid()


@subprocify
def scaled(x: float, *, by: float = 2.0) -> float:
    """A docstring."""
    return x * by


@subprocify
def same(x: Any) -> Any:
    return x


@subprocify
def surroundings() -> tuple[set[int], str | None, Any, str]:
    return os.sched_getaffinity(0), os.environ.get("OMP_NUM_THREADS"), GVAR.res, GVAR.instance


# ---- calls


async def test_call() -> None:
    """In another process, with positional and named arguments; used again."""
    async with pool():
        assert 6.0 == await scaled(3.0)
        assert 15.0 == await scaled(3.0, by=5.0)
        first = await where()
        assert first == await where() != os.getpid()


async def test_two_at_a_time() -> None:
    """The event loop goes on: one call waits for what the other gives."""
    read, write = os.pipe()
    try:
        path_in, path_out = f"/proc/{os.getpid()}/fd/{read}", f"/proc/{os.getpid()}/fd/{write}"
        got: list[bytes] = []

        @subprocify
        def take(path: str) -> bytes:
            with open(path, "rb") as file:  # noqa: PTH123
                return file.read(1)

        @subprocify
        def give(path: str) -> None:
            with open(path, "wb") as file:  # noqa: PTH123
                file.write(b"x")

        async def keep() -> None:
            got.append(await take(path_in))

        async with pool(), trio.open_nursery() as nursery:
            nursery.start_soon(keep)
            await trio.testing.wait_all_tasks_blocked()
            await give(path_out)
    finally:
        os.close(read)
        os.close(write)
    assert [b"x"] == got


async def test_limit() -> None:
    """No more processes than calls may run at a time."""
    pids: set[int] = set()

    async def one() -> None:
        pids.add(await where())

    async with pool(limit=1), trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(one)
    assert 1 == len(pids)


def test_it_looks_like_the_function() -> None:
    """Name, documentation and signature are the function's; and it is async."""
    assert "scaled" == scaled.__name__
    assert "A docstring." == scaled.__doc__
    assert ["x", "by"] == list(inspect.signature(scaled).parameters)
    assert inspect.iscoroutinefunction(scaled)


async def test_functions_of_all_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a module (decorated or not), of the standard library, closures, callable objects."""
    (tmp_path / "some_functions.py").write_text(
        "from grain.subproc import subprocify\n"
        "def plain(): return __name__\n"
        "@subprocify\n"
        "def decorated(): return plain()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import some_functions  # type: ignore[import-not-found]

    factor = 3

    def closure(x: int) -> int:
        return x * factor

    async with pool():
        assert "some_functions" == await subprocify(some_functions.plain)()
        assert "some_functions" == await some_functions.decorated()
        assert 3 == await subprocify(len)([1, 2, 3])
        assert 12 == await subprocify(closure)(4)
        assert "ab" == await subprocify("a".__add__)("b")


async def test_many_functions_and_a_long_search_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """More functions than a process keeps; more to search than a message has room for."""
    monkeypatch.setattr(sys, "path", [*sys.path, *(f"{tmp_path}/{i}" for i in range(2000))])
    made = [functools.partial(int, n) for n in range(120)]
    async with pool():
        assert list(range(120)) == [await subprocify(fn)() for fn in made]
        functions = [subprocify(fn) for fn in made]
        for _ in range(2):
            assert list(range(120)) == [await fn() for fn in functions]
        assert len(sys.path) == await subprocify(lambda: len(sys.path))()


# ---- what travels


@pytest.mark.parametrize("size", [0, 1000, 32_000, 33_000, 100_000, 5_000_000])
async def test_sizes(size: int) -> None:
    """In the message, and in a file beside it."""
    async with pool():
        data = os.urandom(size)
        assert data == await same(data)
        assert [data, 1, data[::-1]] == await same([data, 1, data[::-1]])


@pytest.mark.parametrize("size", [10, 1000, 100_000, 2_000_000])
async def test_arrays(size: int) -> None:
    """They can be written to, there and here; those of the caller stay as they are."""
    numpy = pytest.importorskip("numpy")

    @subprocify
    def incremented(arrays: list[Any]) -> list[Any]:
        for array in arrays:
            array += 1
        return arrays

    sent = [numpy.arange(size, dtype="f8"), numpy.zeros((2, size // 2), order="F")]
    async with pool():
        got = await incremented(sent)
    for before, after in zip(sent, got, strict=True):
        assert (before + 1 == after).all()
        after += 1


async def test_open_files_stay_the_same() -> None:
    """What large objects travel in is closed, in both processes."""

    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    there = subprocify(count)
    async with pool():
        data = os.urandom(5_000_000)
        await same(data)
        gc.collect()  # or it closes files of earlier tests meanwhile
        before = await there(), count()
        kept = [await same(data[i:]) for i in range(10)]
        assert before == (await there(), count())
        assert 10 == len(kept)


class Unwanted:
    """Does not travel."""

    def __reduce__(self) -> Any:
        raise TypeError("stays at home")


class UnwantedError(Exception):
    """Nor does this."""

    def __reduce__(self) -> Any:
        raise TypeError("stays at home")


async def test_what_cannot_travel_fails_its_own_call() -> None:
    """Argument, result, exception and function: a PayloadError that names it; no process dies."""

    def bad_result() -> Unwanted:
        return Unwanted()

    def bad_error() -> None:
        raise UnwantedError("the reason")

    unwanted = Unwanted()

    def bad_function() -> Unwanted:
        return unwanted

    async with pool():
        pid = await where()
        with pytest.raises(PayloadError, match=r"argument 0 cannot.*stays at home"):
            await same(Unwanted())
        with pytest.raises(PayloadError, match=r"result of .*bad_result.*stays at home"):
            await subprocify(bad_result)()
        with pytest.raises(PayloadError, match="the reason"):
            await subprocify(bad_error)()
        with pytest.raises(PayloadError, match="bad_function"):
            await subprocify(bad_function)()
        assert pid == await where()


# ---- exceptions


async def test_an_exception_comes_back() -> None:
    """With its type and arguments, not in a group; the traceback of there is its note."""

    def faulty() -> None:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise OSError(28, "no space") from error

    async with pool():
        pid = await where()
        with pytest.raises(OSError, match="no space") as caught:
            await subprocify(faulty)()
        assert pid == await where()
    assert 28 == caught.value.errno
    note = caught.value.__notes__[-1]
    assert f"pid {pid}" in note
    assert "in faulty" in note
    assert "inner" in note


async def test_exit_is_no_end_of_the_process() -> None:
    """`sys.exit` in a function fails its call."""
    async with pool():
        pid = await where()
        with pytest.raises(TaskletAborted, match="SystemExit"):
            await subprocify(sys.exit)(3)
        assert pid == await where()


async def test_nor_is_an_interrupt_of_its_own() -> None:
    """Ctrl-C does not reach the process, so a KeyboardInterrupt concerns the call alone."""

    def interrupt(in_group: bool) -> None:
        error = KeyboardInterrupt()
        raise BaseExceptionGroup("several", [error]) if in_group else error

    async with pool():
        pid = await where()
        for in_group in (False, True):
            with pytest.raises(TaskletAborted, match="KeyboardInterrupt"):
                await subprocify(interrupt)(in_group)
        assert pid == await where()


@pytest.mark.parametrize(("how", "status"), [("return", 0), ("raise", 1), ("exit", 7), ("say", 1)])
async def test_a_forked_process_does_not_answer(how: str, status: int) -> None:
    """One that comes back from the function ends there, or its answer would be the next call's."""

    def fork() -> tuple[int, int]:
        pid = os.fork()
        if pid == 0:
            match how:
                case "raise":
                    raise ValueError("in the fork")
                case "exit":
                    sys.exit(7)
                case "say":
                    sys.exit("a reason")
            return 0, 0
        return pid, os.waitpid(pid, 0)[1]

    async with pool():
        pid = await where()
        forked, ended = await subprocify(fork)()
        assert forked not in (0, pid)
        assert status == os.waitstatus_to_exitcode(ended)
        assert pid == await where()


async def test_an_exception_of_the_block_is_in_no_group() -> None:
    """Nor is its type changed."""
    with pytest.raises(ZeroDivisionError):
        async with pool():
            await where()
            raise ZeroDivisionError


async def test_without_a_pool() -> None:
    """Before and after: the error says what to open."""
    with pytest.raises(RuntimeError, match=r"^where runs in .*subprocess_pool_scope\(\)"):
        await where()
    async with pool():
        pass
    with pytest.raises(RuntimeError, match="subprocess_pool_scope"):
        await where()


async def test_the_inner_scope_serves() -> None:
    """And the outer one again, when it is left."""
    async with pool():
        outer = await where()
        async with pool():
            assert outer != await where()
        assert outer == await where()


# ---- bad input


@pytest.mark.parametrize("thing", [3, None, "len"])
def test_no_function(thing: Any) -> None:
    with pytest.raises(TypeError, match="takes a function"):
        subprocify(thing)


def test_an_async_function() -> None:
    """It could not await anything there; a function that runs one by itself may be called."""

    async def tasklet(x: int) -> int:
        return x

    for fn in (tasklet, functools.partial(tasklet, 1), where):
        with pytest.raises(TypeError, match="is an async function"):
            subprocify(fn)

    @functools.wraps(tasklet)
    def by_itself(x: int) -> int:
        return trio.run(tasklet, x)

    assert "tasklet" in subprocify(by_itself).__qualname__


@pytest.mark.parametrize(
    "arguments",
    [
        {"idle_timeout": 0},
        {"idle_timeout": -1.0},
        {"idle_timeout": float("nan")},
        {"grace": -1.0},
        {"grace": float("inf")},
        {"limit": 0},
    ],
)
async def test_scopes_that_make_no_sense(arguments: dict[str, Any]) -> None:
    """The message names the argument."""
    with pytest.raises(ValueError, match=next(iter(arguments))):
        async with pool(**arguments):
            pass


# ---- the allocation


async def test_the_cpus_of_the_allocation() -> None:
    """Set for each call, on all threads; given back where there is no allocation."""
    usable = sorted(os.sched_getaffinity(0))

    def keep_a_thread() -> None:
        threading.Thread(target=threading.Event().wait, daemon=True).start()

    def by_thread() -> list[set[int]]:
        return [os.sched_getaffinity(int(tid)) for tid in os.listdir("/proc/self/task")]

    async with pool():
        await subprocify(keep_a_thread)()
        free = await where()
        assert [set(usable)] * 2 == await subprocify(by_thread)()
        pids = set()
        for cpu in usable:
            with GVAR.scope(Cores([cpu]), "w7"):
                assert ({cpu}, "1", Cores([cpu]), "w7") == await surroundings()
                pids.add(await where())
        assert 1 == len(pids)
        assert free not in pids
        assert (set(usable), os.environ.get("OMP_NUM_THREADS"), ZERO, "") == await surroundings()


async def test_allocations_in_turn() -> None:
    """What is known of one is no other's, however often they come and however many they are."""
    usable = sorted(os.sched_getaffinity(0))
    some = [Cores([cpu]) for cpu in usable]
    changing = types.SimpleNamespace(c=[usable[0]])
    async with pool():
        for res in (*some, *some):
            for name in ("w1", "w2"):
                with GVAR.scope(res, name):
                    assert ({*res.c}, "1", res, name) == await surroundings()
        for number in range(1000, 1100):
            with GVAR.scope(Cores([number])):
                assert Cores([number]) == (await surroundings())[2]
        for cpu in (usable[0], usable[-1]):
            changing.c = [cpu]
            with GVAR.scope(changing):  # type: ignore[arg-type]
                assert {cpu} == (await surroundings())[0]


async def test_a_process_serves_one_number_of_threads() -> None:
    """Libraries read that once; CPUs that are not there are bound to by nothing."""
    async with pool():
        found: dict[int, set[int]] = {}
        for count in (1, 2, 1, 2):
            with GVAR.scope(Cores(range(1000, 1000 + count))):
                affinity, threads, _, _ = await surroundings()
                assert (os.sched_getaffinity(0), str(count)) == (affinity, threads)
                found.setdefault(count, set()).add(await where())
    assert [1, 1] == [len(pids) for pids in found.values()]
    assert found[1] != found[2]


# ---- what is printed


async def test_prints(capfd: pytest.CaptureFixture[str]) -> None:
    """Come out where those of the caller do, in their order, before the call is over."""

    @subprocify
    def talk(n: int) -> None:
        print("out", n)
        print("err", n, file=sys.stderr)
        sys.stdout.flush()
        os.write(1, b"raw\n")

    async with pool():
        for n in range(50):
            await talk(n)
            print("then", n)
    out, err = capfd.readouterr()
    assert "".join(f"out {n}\nraw\nthen {n}\n" for n in range(50)) == out
    assert "".join(f"err {n}\n" for n in range(50)) == err


async def test_much_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """More than a pipe holds, through whatever `sys.stdout` is."""
    async with pool():
        await subprocify(print)("ä" * 1_000_000)
    assert "ä" * 1_000_000 + "\n" == capsys.readouterr().out


class Sink:
    """A stream that counts, and may want more of what it is given."""

    def __init__(self, more: Callable[[str], object] = len) -> None:
        self.written = 0
        self.most = 50_000_000.0
        self._more = more

    def write(self, text: str) -> None:
        self.written += len(text)
        assert self.written < self.most
        self._more(text)

    def flush(self) -> None:
        pass


async def test_it_prints_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks go on nevertheless."""

    @subprocify
    def flood() -> None:
        while True:
            os.write(1, b"." * 4096)

    sink = Sink()
    monkeypatch.setattr(sys, "stdout", sink)
    async with pool(), trio.open_nursery() as nursery:
        nursery.start_soon(flood)
        while sink.written < 3_000_000:
            await trio.lowlevel.checkpoint()
        sink.most = math.inf  # it prints on until somebody has got round to end it
        nursery.cancel_scope.cancel()


def test_what_has_come_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each piece that is passed on is followed by the next."""
    output = Output("stdout")
    sink = Sink(lambda text: os.write(output.theirs, text.encode()))
    monkeypatch.setattr(sys, "stdout", sink)
    os.write(output.theirs, b"." * 1000)
    output.drain()
    output.close()

    assert 64 * 1024 <= sink.written <= 66 * 1024


# ---- signals of the terminal


async def test_signals_of_the_terminal_are_for_the_caller() -> None:
    """Ctrl-C and a hang-up reach every process of a session; what computes goes on."""

    @subprocify
    def signalled() -> str:
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            os.kill(os.getpid(), number)
        return "done"

    async with pool():
        assert "done" == await signalled()
        assert os.getsid(0) != await subprocify(os.getsid)(0)
