"""Too many waiting tasks are reported once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.combine import open_waitgroup
from grain.delayed import delayed, each, mission, run
from grain.delayed.overload import Overload
from grain.resource import Cores

if TYPE_CHECKING:
    from pathlib import Path

WARNING = "warning: {} tasks wait to be started (more than warn_queued={})"


@delayed
async def nothing() -> None:
    pass


async def plain() -> None:
    pass


async def plain_of(x: int) -> int:
    return x


async def test_a_loop_without_a_checkpoint_is_warned_of_once_with_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    leaf = nothing @ Cores(1)
    async with mission(Cores(1), config_file=False, warn_queued=5):
        tasks = [leaf() for _ in range(5)]
        assert "warning" not in capsys.readouterr().err
        tasks += [leaf() for _ in range(3)]
        output = capsys.readouterr().err
        assert output.startswith(WARNING.format(6, 5))
        assert "grain.util.QueueLimiter" in output
        assert "trio.sleep(0)" in output
        assert 1 == output.count("\n")
        tasks += [leaf() for _ in range(99)]
        await each(tasks)
        assert "warning" not in capsys.readouterr().err


async def test_what_is_looked_up_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It waits, too, and nothing happens to it while a loop has no checkpoint."""
    leaf = delayed(plain_of, cache_hfn=str) @ Cores(1)
    async with mission(Cores(1), config_file=False, warn_queued=5, cache=tmp_path / "cache"):
        tasks = [leaf(i) for i in range(5)]
        assert "warning" not in capsys.readouterr().err
        tasks += [leaf(i) for i in range(99)]
        output = capsys.readouterr().err
        assert output.startswith(WARNING.format(6, 5))
        assert 1 == output.count("\n")
        await each(tasks)
        assert "warning" not in capsys.readouterr().err


async def test_what_ended_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    """However many are submitted in all: only those that wait count."""
    leaf = nothing @ Cores(1)
    async with mission(Cores(1), config_file=False, warn_queued=5):
        for _ in range(4):
            await each([leaf() for _ in range(5)])
        assert "warning" not in capsys.readouterr().err
        tasks = [leaf() for _ in range(6)]
        assert capsys.readouterr().err.startswith(WARNING.format(6, 5))
        await each(tasks)


async def test_jobs_of_a_waitgroup_count_too(capsys: pytest.CaptureFixture[str]) -> None:
    async with mission(Cores(1), config_file=False, warn_queued=5):
        async with open_waitgroup() as wg:
            (nothing @ Cores(1))()
            for _ in range(5):
                wg.submit(Cores(1), plain)
        assert WARNING.format(6, 5) in capsys.readouterr().err


@pytest.mark.parametrize("limit", [None, 100_000])
async def test_none_turns_the_warning_off(
    capsys: pytest.CaptureFixture[str], limit: int | None
) -> None:
    async with mission(Cores(1), config_file=False, warn_queued=limit):
        await each([(nothing @ Cores(1))() for _ in range(200)])
    assert "warning" not in capsys.readouterr().err


@given(st.integers(1, 200), st.lists(st.integers(-30, 30), max_size=50))
def test_when_it_is_said(limit: int, changes: list[int]) -> None:
    """Never before there are more than the limit; at the latest a sixteenth of it later."""
    output: list[str] = []
    watch = Overload(limit, output.append)
    job = queued = 0
    for change in changes:
        queued = max(0, queued + min(change, 0))
        for _ in range(change):
            job += 1
            queued += 1
            if job >= watch.look_at:
                watch.on_submitted(job, queued)
                if output:
                    assert queued > limit
                    assert watch.look_at > 10**9
                    return
            assert queued <= limit + limit // 16


@pytest.mark.parametrize(
    ("wrong", "error"), [(0, ValueError), (-3, ValueError), (1.5, TypeError), (True, TypeError)]
)
async def test_the_limit_must_be_a_positive_int_or_none(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="give the number of waiting tasks to warn of"):
        async with mission(Cores(1), config_file=False, warn_queued=wrong):
            pass


def test_argument_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    """`run` takes it, too."""

    async def main() -> None:
        await each([(nothing @ Cores(1))() for _ in range(3)])

    run(main, Cores(1), config_file=False, progress=False, warn_queued=2)
    assert WARNING.format(3, 2) in capsys.readouterr().err


async def test_nothing_is_looked_at_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the limit, the executor is not even asked."""
    async with mission(Cores(1), config_file=False, progress=False) as active:
        with monkeypatch.context() as patch:
            patch.setattr(active.executor, "statistics", None)
            await each([(nothing @ Cores(1))() for _ in range(200)])
