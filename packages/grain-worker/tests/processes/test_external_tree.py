"""Nothing of an external program survives a cancellation, a time limit or its normal end."""

from __future__ import annotations

import pickle
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from grain.worker.external import (
    ExternalError,
    ExternalTimeoutError,
    ending_programs,
    run_external,
    run_on_members,
)
from grain_testkit.local_processes import stop
from grain_testkit.program_trees import PYTHON, TREE, marked, wait_for_count, wait_until_grown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grain.worker.external import Completed

pytestmark = pytest.mark.usefixtures("no_allocation")


@pytest.mark.parametrize(("manner", "grace"), [("deaf", 1.0), ("obedient", 120.0)])
async def test_cancellation_ends_the_whole_tree_first(
    marker: str, manner: str, grace: float
) -> None:
    """SIGTERM suffices for those that obey it; the others get SIGKILL after the grace."""

    async def one() -> None:
        await run_external([PYTHON, "-c", TREE, marker, manner], grace=grace)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        await wait_until_grown(1, marker)
        began = trio.current_time()
        nursery.cancel_scope.cancel()

    assert marked(marker) == []
    took = trio.current_time() - began
    assert took < grace if manner == "obedient" else took >= grace


async def test_a_program_may_tidy_up_within_the_grace(tmp_path: Path) -> None:
    """SIGTERM comes first, and its handler has the time that it needs."""
    code = (
        "import signal, sys, time\n"
        "def tidy(*_): time.sleep(0.3); print('tidied', flush=True); sys.exit(9)\n"
        "signal.signal(signal.SIGTERM, tidy)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(1)"
    )
    out = tmp_path / "out"
    async with trio.open_nursery() as nursery:

        async def one() -> None:
            await run_external([PYTHON, "-c", code], stdout=out, grace=60)

        nursery.start_soon(one)
        with trio.fail_after(60):
            while not out.exists() or not out.read_text():
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()

    assert out.read_text() == "ready\ntidied\n"


async def test_a_stopped_program_is_ended_within_the_grace(marker: str) -> None:
    async def one() -> None:
        await run_external(["sleep", marker], grace=120)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        await wait_for_count(1, marker)
        stop(marked(marker)[0])
        began = trio.current_time()
        nursery.cancel_scope.cancel()

    assert marked(marker) == []
    assert trio.current_time() - began < 120  # it would be killed then


async def test_a_time_limit_ends_the_whole_tree_first(marker: str) -> None:
    with pytest.raises(trio.TooSlowError, match=r"its time limit of 1\.5 s") as caught:
        await run_external([PYTHON, "-c", TREE, marker, "deaf"], timeout=1.5, grace=0.2)

    assert marked(marker) == []
    assert PYTHON in str(caught.value)


@pytest.mark.parametrize("to_file", [False, True])
async def test_the_error_of_a_time_limit_has_the_output_until_then(
    to_file: bool, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """The output shows how far the program has come."""
    line = f"echo so far; echo last words >&2; touch '{tmp_path}/there'; exec sleep 1000.5"
    files: dict[str, Any] = {"stdout": tmp_path / "out", "stderr": tmp_path / "err"}

    async def time_passes() -> None:
        """As soon as the program has come so far."""
        while not (tmp_path / "there").exists():
            await trio.to_thread.run_sync(time.sleep, 0.01)
        mock_clock.jump(3)
        mock_clock.rate = 1  # for its end

    async with trio.open_nursery() as nursery:
        nursery.start_soon(time_passes)
        with pytest.raises(ExternalTimeoutError) as caught:
            await run_external(["sh", "-c", line], timeout=2, **(files if to_file else {}))

    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, trio.TooSlowError)
    assert isinstance(error, ExternalError)
    assert (socket.gethostname(), None) == (error.host, error.returncode)
    assert error.elapsed is not None
    if to_file:
        assert (None, None) == (error.stdout, error.stderr)
        assert "so far\n" == (tmp_path / "out").read_text()
    else:
        assert (b"so far\n", b"last words\n") == (error.stdout, error.stderr)
    assert "last words" in str(error)


async def test_daemons_that_a_program_leaves_behind_are_ended(marker: str) -> None:
    """The result comes when the daemons are gone."""
    done = await run_external([PYTHON, "-c", TREE, marker, "leave", "deaf"], grace=0.1)

    assert done.returncode == 0
    assert marked(marker) == []


# It leaves a process behind that goes on after SIGTERM, until it is let go.
LEAVES = """
exec 2>/dev/null
setsid sh -c 'trap "echo >told" TERM; echo >there; until test -e go; do sleep 0.02; done' &
until test -e there; do sleep 0.02; done
echo done
"""


async def let_go_once_cancelled(cancel: Callable[[], object]) -> None:
    """Cancel once a program that has left something behind has ended; then let that go."""
    while not Path("told").exists():
        await trio.to_thread.run_sync(time.sleep, 0.01)
    cancel()
    while not ending_programs():
        await trio.to_thread.run_sync(time.sleep, 0.01)
    Path("go").touch()


async def first_of_members(argv: list[str], **options: Any) -> Completed:
    (done,) = await run_on_members(argv, **options)
    return done


@pytest.mark.parametrize("run", [run_external, first_of_members])
async def test_the_end_of_what_a_program_left_behind_is_not_in_its_time_limit(
    run: Callable[..., Awaitable[Completed]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mock_clock: trio.testing.MockClock,
) -> None:
    monkeypatch.chdir(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(let_go_once_cancelled, lambda: mock_clock.jump(100))
        done = await run(["sh", "-c", LEAVES], timeout=99, grace=600)

    assert (0, "done\n") == (done.returncode, done.stdout_text)


@pytest.mark.parametrize("end", ["exit 3", "kill -SEGV $$"])
async def test_a_program_that_failed_in_time_is_not_late(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    monkeypatch.chdir(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(let_go_once_cancelled, lambda: mock_clock.jump(100))
        done = await run_external(["sh", "-c", LEAVES + end], timeout=99, grace=600, check=False)

    assert done.returncode == (3 if end == "exit 3" else -signal.SIGSEGV)


async def test_a_cancellation_takes_no_result_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when the program has ended, and something that it left behind has not."""
    monkeypatch.chdir(tmp_path)
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            nursery.start_soon(let_go_once_cancelled, scope.cancel)
            done = await run_external(["sh", "-c", LEAVES], grace=600)
    assert done.stdout == b"done\n"


@pytest.mark.parametrize("end", ["kill -TERM $$", "exit 143"])
async def test_a_signal_that_came_before_the_cancellation_may_belong_to_it(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch system that ends its job sends one to each process."""
    monkeypatch.chdir(tmp_path)
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            nursery.start_soon(let_go_once_cancelled, scope.cancel)
            await run_external(["sh", "-c", LEAVES + end], grace=600)
    assert scope.cancelled_caught


async def test_a_time_limit_that_is_met_changes_nothing() -> None:
    assert (await run_external(["echo", "x"], timeout=60)).stdout == b"x\n"
