"""Results are kept on disk: what another mission has computed is not computed again."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.delayed import CacheError, delayed, each, mission, run
from grain.delayed._cache import cache_root
from grain.delayed._key import Caching, function_name
from grain.resource import Cores, Infeasible
from grain.worker import Call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What ran. A global, as what a function closes over is part of its key.
CALLS: list[Any] = []


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current directory, and no calls yet."""
    CALLS.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAIN_CACHE", raising=False)
    yield tmp_path
    CALLS.clear()


def again(fn: Any, *calls: tuple[Any, ...], **options: Any) -> list[Any]:
    """The results of some calls in a mission of their own."""

    async def main() -> list[Any]:
        return await each((fn @ Cores(1))(*call) for call in calls)

    return run(main, Cores(2), config_file=False, **options)


@delayed(cache_hfn="args")
async def square(x: int) -> int:
    CALLS.append(x)
    return x * x


@dataclass
class Molecule:
    name: str
    charge: int = 0

    @delayed(cache_hfn="args")
    async def energy(self, method: str) -> str:
        CALLS.append(self.name)
        return f"{self.name} {method}"


def test_another_mission(here: Path) -> None:
    """What one mission computed, the next one finds; what is missing, it computes."""
    assert [1, 4] == again(square, (1,), (2,))
    assert [1, 4, 9] == again(square, (1,), (2,), (3,))

    assert [1, 2, 3] == sorted(CALLS)
    assert (here / ".grain-cache").is_dir()


def test_by_position_or_name() -> None:
    """It does not matter how an argument was passed."""

    async def main() -> None:
        assert [9, 9] == await each((square @ Cores(1))(3), (square @ Cores(1))(x=3))

    run(main, Cores(1), config_file=False)

    assert [3] == CALLS


def test_resources_do_not_count() -> None:
    """A result is the same, whatever it was computed with."""
    again(square, (2,))

    async def main() -> None:
        assert 4 == await (square @ Cores(2))(2)
        # Nor is a worker needed for what is there.
        assert 4 == await (square @ Cores(64))(2)

    run(main, Cores(2), config_file=False)
    assert [2] == CALLS


def test_never_feasible() -> None:
    """A call that is not there, and that nobody can run, fails when it is looked up."""

    async def main() -> None:
        with pytest.raises(Infeasible, match=r"64 cores|Cores\(64\)"):
            await (square @ Cores(64))(2)

    run(main, Cores(2), config_file=False)


def test_failures_are_not_kept() -> None:
    """What failed is run again."""

    @delayed(cache_hfn="args")
    async def fails(x: int) -> int:
        CALLS.append(x)
        raise ValueError(x)

    for _ in range(2):
        with pytest.raises(ValueError, match="1"):
            again(fails, (1,))
    assert [1, 1] == CALLS


def test_none_is_a_result() -> None:
    """A function may return nothing."""

    @delayed(cache_hfn=lambda: "k")
    async def nothing() -> None:
        CALLS.append(1)

    assert [None] == again(nothing, ()) == again(nothing, ())
    assert [1] == CALLS


def defined(source: str, **names: Any) -> Any:
    scope: dict[str, Any] = {"CALLS": CALLS, "delayed": delayed, **names}
    exec(source, scope)
    return scope["f"]


SOURCE = """
@delayed(cache_hfn=str{version})
async def f(x):
    CALLS.append(x)
    return x {more}
"""


def test_the_code_counts() -> None:
    """A function that was edited is run again, and so is one of another version."""
    for source in (
        SOURCE.format(version="", more=""),
        SOURCE.format(version="", more="+ 1"),
        SOURCE.format(version=", cache_version=2", more=""),
    ):
        again(defined(source), (1,))
        again(defined("\n\n" + source), (1,))

    assert [1, 1, 1] == CALLS


def test_closures_count() -> None:
    """Functions made by one function differ by what they close over."""

    def scaled(k: float) -> Any:
        @delayed(cache_hfn=str)
        async def f(x: int) -> float:
            CALLS.append((k, x))
            return k * x

        return f

    assert [2.0] == again(scaled(2.0), (1,))
    assert [3.0] == again(scaled(3.0), (1,))
    assert [2.0] == again(scaled(2.0), (1,))
    assert [(2.0, 1), (3.0, 1)] == CALLS


def test_instances_count() -> None:
    """A method's result depends on its instance, by content."""
    for _ in range(2):
        for name in ("water", "ethane"):
            assert [f"{name} xtb"] == again(Molecule(name).energy, ("xtb",))

    assert ["water", "ethane"] == CALLS


def test_partials_count() -> None:
    """A partial's result depends on its own arguments."""

    async def add(a: int, b: int) -> int:
        CALLS.append((a, b))
        return a + b

    for _ in range(2):
        for a in (1, 2):
            assert [a + 10] == again(delayed(functools.partial(add, a), cache_hfn="args"), (10,))

    assert [(1, 10), (2, 10)] == CALLS


class Held:
    """An instance that has no digest."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    @delayed(cache_hfn=str)
    async def get(self, x: int) -> int:
        CALLS.append(x)
        return x


def test_without_a_digest(capsys: pytest.CaptureFixture[str]) -> None:
    """What a function is bound to may have no digest: a warning says so, and nothing is kept."""
    held = Held()
    again(held.get, (1,), (1,), (2,))
    again(held.get, (1,))

    assert [1, 1, 2] == sorted(CALLS)  # within one mission, they are shared
    told = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert 2 == len(told)
    assert "results of Held.get are not kept, as self.lock has no stable digest" in told[0]


def test_arguments_without_a_digest() -> None:
    """With "args", an argument that has none is an error of the call."""

    @delayed(cache_hfn="args")
    async def f(x: Any) -> None: ...

    with pytest.raises(TypeError, match=r"argument x of .*f\.a has no stable digest: .*Held|lock"):
        again(f, (Held(),))


def test_wrong_arguments() -> None:
    """Wrong arguments are told of as ever."""
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        again(square, (1, 2, 3))


def test_damage_is_repaired(here: Path) -> None:
    """A result that is damaged is computed again, and replaced."""
    again(square, (5,))
    (file,) = (here / ".grain-cache").glob("??/*")
    file.write_bytes(file.read_bytes()[:-1])

    for _ in range(2):
        assert [25] == again(square, (5,))
    assert [5, 5] == CALLS


def test_results_that_cannot_be_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """They are handed on, with one warning for each function."""

    @delayed(cache_hfn="args")
    async def lock(x: int) -> Any:
        return threading.Lock()

    again(lock, (1,), (2,))

    told = capsys.readouterr().err
    assert 1 == told.count("warning: results of")
    assert "lock cannot be kept, as one cannot be pickled (TypeError: cannot pickle" in told


def test_an_error_of_a_result_is_not_of_the_disk(capsys: pytest.CaptureFixture[str]) -> None:
    """If pickling raises an OSError, others are kept all the same."""

    class Remote:
        def __reduce__(self) -> Any:
            raise OSError("connection lost")

    @delayed(cache_hfn="args")
    async def remote(x: int) -> Any:
        return Remote()

    async def main() -> None:
        await (remote @ Cores(1))(1)
        await (square @ Cores(1))(3)

    run(main, Cores(1), config_file=False)
    again(square, (3,))

    assert [3] == CALLS
    assert "cannot be pickled (OSError: connection lost)" in capsys.readouterr().err


def test_a_decorated_function_has_the_name_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the decorator's."""
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/home/me/chem.py", raising=False)
    source = """
async def f(x):
    return x
"""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "/home/me/chem.py", "exec"), names)

    @functools.wraps(names["f"])
    async def wrapped(x: int) -> Any:
        return await names["f"](x)

    assert "chem.py:f" == function_name(wrapped)


def test_a_function_of_a_notebook_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same one when something else in its cell has changed."""
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    functions: list[Any] = []
    for file, more in (("/tmp/ipykernel_1/2.py", ""), ("<ipython-input-3-4>", "x = 5")):
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(f"async def f(x):\n    return x\n{more}", file, "exec"), names)
        functions.append(names["f"])

    first, second = (Caching("args", "").key(Call(f, (1,), {}), b"", "") for f in functions)

    assert "__main__:f" == first.function
    assert first == second


def test_what_is_shown_is_one_line() -> None:
    """Keys may have anything in them, as the names of files do."""

    async def f() -> None: ...

    key = Caching(lambda: "", "").key(Call(f, (), {}), "a\nb\x1b[31m\udcff", "")

    assert r"a\nb\x1b[31m\udcff" == key.shown


def test_a_full_disk(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One warning, and the mission goes on."""

    def full(fd: int) -> None:
        CALLS.append("sync")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)

    async def main() -> None:
        for i in range(5):
            assert i * i == await (square @ Cores(1))(i)

    run(main, Cores(2), config_file=False)

    told = capsys.readouterr().err
    assert 1 == told.count("warning: results cannot be kept in")
    assert "No space left on device. This mission goes on" in told
    assert 1 == CALLS.count("sync")  # it was not tried again


def test_a_default_that_cannot_be_used(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One warning, and the mission goes on without a cache."""
    (here / ".grain-cache").touch()

    assert [1, 4, 9] == again(square, (1,), (2,), (3,))

    told = capsys.readouterr().err
    assert 1 == told.count("warning")
    assert f"warning: the result cache {here}/.grain-cache cannot be used: Not a directory" in told


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_choice_that_cannot_be_used(
    here: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that the user named must be usable, before anything begins."""
    (here / "open").mkdir()
    (here / "open").chmod(0o777)
    options = {}
    if how == "option":
        options["cache"] = here / "open"
    else:
        monkeypatch.setenv("GRAIN_CACHE", "open")

    with pytest.raises(CacheError, match="may be written by others"):
        again(square, (1,), **options)
    assert not CALLS


def test_where(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The argument goes before the environment, that before the current directory."""
    again(square, (1,))
    monkeypatch.setenv("GRAIN_CACHE", "by-environment")
    again(square, (1,))
    again(square, (1,), cache="by-argument")
    again(square, (1,), cache=False)

    assert [1, 1, 1, 1] == CALLS
    assert {".grain-cache", "by-environment", "by-argument"} == set(os.listdir(here))


def test_where_the_configuration_says(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes behind the environment."""
    (here / "grain.toml").write_text("[head]\ncache = 'by-configuration'\ngnaw.enabled = false\n")
    monkeypatch.setenv("HOME", str(here / "home"))

    async def main() -> None:
        await (square @ Cores(1))(1)

    run(main, Cores(1), config_file="grain.toml")
    assert list((here / "by-configuration").glob("??/*"))
    monkeypatch.setenv("GRAIN_CACHE", "by-environment")
    run(main, Cores(1), config_file="grain.toml")
    assert list((here / "by-environment").glob("??/*"))


@pytest.mark.parametrize("wrong", [True, "", 3, b"bytes"])
def test_no_place(wrong: Any) -> None:
    """An option that is no place is refused."""
    with pytest.raises(TypeError, match="cache=.*give the directory"):
        cache_root(wrong)


def test_nothing_is_made_for_nothing(here: Path) -> None:
    """A mission without such functions touches no directory."""

    async def main() -> None: ...

    run(main, config_file=False)
    assert [] == os.listdir(here)


async def test_found_and_shared() -> None:
    """Leaves with one key share one task, when it was found, too."""
    async with mission(Cores(1), config_file=False):
        await (square @ Cores(1))(3)
    async with mission(Cores(1), config_file=False) as found:
        a, b = (square @ Cores(1))(3), (square @ Cores(1))(3)
        await each(a, b)
        assert a._node is b._node
        assert (1, 0) == (found.statistics().done, found.executor.statistics().done)


async def test_not_awaited() -> None:
    """Leaving a mission waits for what is still looked up, run and kept."""
    async with mission(Cores(1), config_file=False):
        (square @ Cores(1))(3)
    assert [3] == CALLS
    async with mission(Cores(1), config_file=False):
        (square @ Cores(1))(3)
    assert [3] == CALLS


async def test_a_result_is_kept_before_it_is_seen() -> None:
    """What its receiver does to a result does not reach the cache."""

    @delayed(cache_hfn="args")
    async def items(x: int) -> list[int]:
        return [x]

    for _ in range(3):
        async with mission(Cores(1), config_file=False):
            got = await (items @ Cores(1))(1)
            assert [1] == got
            got.append(2)


async def test_cancelled_while_it_is_looked_up(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelling a mission does not wait for a file system that does not answer."""
    from grain.delayed._store import MISSING, Found, Store
    from grain.head import Cancelled

    asked, answer = threading.Event(), threading.Event()

    def read(*_: object) -> Found:
        asked.set()
        answer.wait()
        return MISSING

    monkeypatch.setattr(Store, "read", read)
    with trio.fail_after(300), trio.CancelScope() as scope:
        async with mission(Cores(1), config_file=False):
            waits = (square @ Cores(1))(3)
            while not asked.is_set():
                await trio.sleep(0.01)
            scope.cancel()
    with pytest.raises(Cancelled, match="square was cancelled"):
        await waits
    answer.set()


def test_many_missions_at_once(here: Path) -> None:
    """Missions that keep the same results at the same time do not hurt each other."""
    threads = [
        threading.Thread(target=again, args=(square, *((i,) for i in range(20)))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    CALLS.clear()

    assert [i * i for i in range(20)] == again(square, *((i,) for i in range(20)))
    assert [] == CALLS


def test_cleared_amid_a_mission(here: Path) -> None:
    """Somebody may remove the whole directory meanwhile."""

    async def main() -> None:
        await (square @ Cores(1))(1)
        shutil.rmtree(here / ".grain-cache")
        await (square @ Cores(1))(2)

    run(main, Cores(1), config_file=False)
    again(square, (2,))
    assert [1, 2] == CALLS


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"cache_hfn": "arguments"}, "cache_hfn='arguments': give a function .* or 'args'"),
        ({"cache_hfn": 3}, "cache_hfn=3"),
        ({"cache_hfn": "args", "cache_version": 1.5}, "a version is a str or an int"),
        ({"cache_version": 1}, "does nothing without cache_hfn"),
    ],
)
def test_bad_options(options: dict[str, Any], match: str) -> None:
    """An option that makes no sense is refused where it is given."""
    with pytest.raises(TypeError, match=match):
        delayed(**options)


@delayed(cache_hfn="args", retries=1, retry_wait=0)
async def consume(items: list[int]) -> int:
    CALLS.append(list(items))
    items.pop()
    if len(CALLS) == 1:
        raise ValueError("first")
    return sum(items)


def test_arguments_that_change(here: Path) -> None:
    """A result is that of the arguments at the call, whoever changes them afterwards."""

    async def main() -> None:
        items = [1, 2, 3]
        first = (consume @ Cores(1))(items)
        items.append(4)
        assert 3 == await first
        assert [1, 2, 3, 4] == items

    run(main, Cores(1), config_file=False)
    assert [[1, 2, 3], [1, 2, 3]] == CALLS
    assert [3] == again(consume, ([1, 2, 3],))
    assert 2 == len(CALLS)


@dataclass
class Result:
    value: int


@delayed(cache_hfn=lambda _, k: k)
async def remote(items: list[int], k: str) -> Result:
    return Result(sum(items))


async def test_on_other_workers(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of the workers of a cluster are kept, too; arguments are those of the call."""
    from grain.remote_exer import HostingExecutor

    monkeypatch.setenv("HOME", str(here))
    address = f"edge://{here}/meeting"
    (here / "grain.toml").write_text(f'address = "{address}"\n')
    async with HostingExecutor(Cores(1), address=address, name="cluster"):
        async with mission():
            items = [1]
            leaves = []
            for k in "abc":
                leaves.append((remote @ Cores(1))(items, k))
                items.append(1)
            assert [Result(1), Result(2), Result(3)] == await each(leaves)
        async with mission() as second:
            assert Result(2) == await (remote @ Cores(1))([], "b")
            assert 0 == second.executor.statistics().done
