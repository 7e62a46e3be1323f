"""Results are kept on disk: what another mission has computed is not computed again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from grain.delayed import delayed, each, mission, run
from grain.resource import Cores, Infeasible
from grain_testkit.kept_calls import CALLS, again, square

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("here")


def test_a_mission_finds_the_results_of_another_and_computes_the_missing_ones(here: Path) -> None:
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


def test_a_call_without_result_that_cannot_run_fails_at_its_lookup() -> None:
    async def main() -> None:
        with pytest.raises(Infeasible, match=r"64 cores|Cores\(64\)"):
            await (square @ Cores(64))(2)

    run(main, Cores(2), config_file=False)


def test_failures_are_not_kept() -> None:
    """A call that failed is run again."""

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


def test_results_that_cannot_be_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """They are handed on, with one warning for each function."""

    @delayed(cache_hfn="args")
    async def lock(x: int) -> Any:
        return threading.Lock()

    again(lock, (1,), (2,))

    output = capsys.readouterr().err
    assert 1 == output.count("warning: results of")
    assert "lock cannot be kept, as one cannot be pickled (TypeError: cannot pickle" in output


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


async def test_a_result_is_kept_before_it_is_seen() -> None:
    """A receiver that changes a result does not change the cache."""

    @delayed(cache_hfn="args")
    async def items(x: int) -> list[int]:
        return [x]

    for _ in range(3):
        async with mission(Cores(1), config_file=False):
            got = await (items @ Cores(1))(1)
            assert [1] == got
            got.append(2)


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
