"""Programs that are warned before they are ended, and stop by themselves."""

from __future__ import annotations

import math
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from grain import GVAR
from grain.resource import ZERO, WTime
from grain.worker.errors import how_failed
from grain.worker.external import (
    CAPTURE,
    Completed,
    ExternalStartError,
    ExternalTimeoutError,
    ProgramCall,
    run_external,
    run_warned,
)
from grain.worker.processes.account import RunAccount, WorkerEnd
from grain.worker.processes.warning import EarlyWarning, UnusableWarning

if TYPE_CHECKING:
    from pathlib import Path

BY_FILE = "until [ -e EXIT ]; do sleep 0.02; done; cat EXIT; exit %d"


async def warned(
    script: str,
    folder: Path,
    warn: Any = "EXIT",
    *,
    timeout: float | None = None,  # noqa: ASYNC109 (of the program)
    before: float = 59.9,
    check: bool = True,
) -> Completed:
    """Run a shell script, which may be warned as soon as it has begun."""
    call = ProgramCall(
        ["sh", "-c", script], folder, {}, None, CAPTURE, CAPTURE, 1.0, False, None, False
    )
    warning = EarlyWarning(warn, before, timeout, str(folder), earliest=0.0)
    return await run_warned(call, timeout, warning, check=check)


class Ended:
    """The end of a worker, and how often it was told that a program was warned."""

    def __init__(self, at: float, *, now: bool = False) -> None:
        self.warnings = 0
        self.end = WorkerEnd(self._count)
        self.end.announce(at, now=now)
        GVAR.enter(ZERO, "w1", None, RunAccount(ZERO, end=self.end))

    def _count(self) -> None:
        self.warnings += 1


async def test_a_file_warns_before_the_time_limit_and_is_removed_afterwards(tmp_path: Path) -> None:
    done = await warned(BY_FILE % 0, tmp_path, ("EXIT", "LSTOP = .TRUE."), timeout=60.0)
    assert "LSTOP = .TRUE." == done.stdout_text
    assert "time" == done.warned
    assert [] == list(tmp_path.iterdir())


async def test_a_program_that_fails_after_a_warning_has_stopped_softly(tmp_path: Path) -> None:
    with pytest.raises(ExternalTimeoutError) as caught:
        await warned(BY_FILE % 2, tmp_path, timeout=60.0)
    assert caught.value.stopped_softly
    assert 2 == caught.value.returncode
    assert "stopped softly before its time limit" in str(caught.value)
    assert "stopped" == how_failed(caught.value)
    done = await warned(BY_FILE % 2, tmp_path, timeout=60.0, check=False)
    assert (2, "time") == (done.returncode, done.warned)


async def test_a_signal_goes_to_the_program_alone(tmp_path: Path) -> None:
    script = (
        "sh -c 'trap \"touch child\" TERM; touch ready; while :; do sleep 0.02; done' & "
        'trap "sleep 0.1; ls; exit 0" TERM; while :; do sleep 0.02; done'
    )
    ended = Ended(math.inf)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(warn_when_ready, tmp_path, ended)
        with pytest.raises(ExternalTimeoutError) as caught:
            await warned(script, tmp_path, "SIGTERM")
    assert caught.value.stopped_softly
    assert b"ready\n" == caught.value.stdout
    assert 1 == ended.warnings


async def warn_when_ready(folder: Path, ended: Ended) -> None:
    while not (folder / "ready").exists():
        await trio.sleep(0.01)
    ended.end.announce(math.inf, now=True)


async def test_a_program_without_a_handler_is_ended_by_the_signal_and_that_is_said(
    tmp_path: Path,
) -> None:
    Ended(math.inf, now=True)
    with pytest.raises(ExternalTimeoutError, match="does not handle that signal") as caught:
        await warned("exec sleep 60", tmp_path, signal.SIGTERM)
    assert not caught.value.stopped_softly


@pytest.mark.parametrize("code", [0, 2])
async def test_whatever_ends_after_a_warning_of_the_workers_end_has_stopped_softly(
    tmp_path: Path, code: int
) -> None:
    ended = Ended(trio.current_time() + 50.0)
    ended.end.announce(trio.current_time() + 0.05, now=False)
    with pytest.raises(ExternalTimeoutError) as caught:
        await warned(BY_FILE % code, tmp_path)
    assert ("worker", True) == (caught.value.warned, caught.value.stopped_softly)
    assert code == caught.value.returncode
    assert 1 == ended.warnings


@pytest.mark.parametrize(
    ("text", "age", "blocked"),
    [
        ("grain warns queue:1\n", 5.0, True),
        ("grain warns queue:1\n", 500.0, False),  # its time is over
        ("grain warns queue:2\n", 5.0, False),  # of an attempt before
        ("", 5.0, False),
    ],
)
async def test_a_file_that_warns_another_job_stays_and_says_why_this_one_cannot_begin(
    tmp_path: Path, text: str, age: float, blocked: bool
) -> None:
    path = tmp_path / "EXIT"
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)
    warning = EarlyWarning("EXIT", 60.0, None, str(tmp_path), owner="queue:2")
    if blocked:
        with pytest.raises(UnusableWarning, match=f"{path} warns queue:1 now, .* by %j or %a"):
            await warning.prepare()
    else:
        await warning.prepare()
    assert blocked is path.exists()


async def test_a_program_finds_all_of_a_warning_or_nothing(tmp_path: Path) -> None:
    """It may look at any moment, as a code does that reads its STOPCAR in each step."""
    text = "x" * 30_000_000
    look = "until [ -e EXIT ]; do :; done; wc -c < EXIT"
    done = await warned(look, tmp_path, ("EXIT", text), timeout=60.0)
    assert f"{len(text)}\n" == done.stdout_text


async def test_the_end_of_a_program_leaves_the_warning_of_another_one(tmp_path: Path) -> None:
    script = "until [ -e EXIT ]; do :; done; rm EXIT; echo other > EXIT"
    await warned(script, tmp_path, timeout=60.0)
    assert "other\n" == (tmp_path / "EXIT").read_text()


async def test_an_async_function_warns_and_its_error_ends_the_program(tmp_path: Path) -> None:
    async def make() -> None:
        (tmp_path / "EXIT").touch()

    assert "time" == (await warned(BY_FILE % 0, tmp_path, make, timeout=60.0)).warned

    async def fails() -> None:
        raise KeyError("no licence")

    (tmp_path / "EXIT").unlink()
    with pytest.raises(KeyError, match="no licence"):
        await warned(BY_FILE % 0, tmp_path, fails, timeout=60.0)


async def test_a_function_that_fails_before_the_workers_end_costs_the_task_nothing(
    tmp_path: Path,
) -> None:
    """It is handed back at that end, and runs again elsewhere."""

    async def fails() -> None:
        (tmp_path / "EXIT").touch()
        raise KeyError("no licence")

    ended = Ended(math.inf, now=True)
    done = await warned(BY_FILE % 0, tmp_path, fails)
    assert (0, "", 0) == (done.returncode, done.warned, ended.warnings)


async def test_a_file_of_an_earlier_attempt_does_not_stop_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "EXIT").touch()
    done = await warned("test ! -e EXIT", tmp_path, timeout=600.0)
    assert "" == done.warned


async def test_a_program_that_ends_before_the_warning_is_as_any_other(tmp_path: Path) -> None:
    Ended(trio.current_time() + 600.0)
    done = await warned("exit 3", tmp_path, timeout=600.0, check=False)
    assert (3, "") == (done.returncode, done.warned)


async def test_a_program_that_does_not_stop_is_ended_at_its_limit(tmp_path: Path) -> None:
    with pytest.raises(ExternalTimeoutError, match="after its time limit of 0.3 s") as caught:
        await warned("sleep 60", tmp_path, timeout=0.3, before=0.29)
    assert ("time", False) == (caught.value.warned, caught.value.stopped_softly)


async def test_a_warning_is_half_way_where_a_worker_has_less_time_left(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Else each worker would hand back all at once."""
    times: list[float] = []
    Ended(100.0)

    async def note() -> None:
        times.append(trio.current_time())

    warning = EarlyWarning(note, 600.0, None, str(tmp_path))
    await warning.watch({})  # type: ignore[typeddict-item]
    assert [50.0] == times


async def test_the_first_of_all_ends_counts(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def warned_at(limit: float, own: float | None, worker: float) -> tuple[float, str]:
        times: list[float] = []
        account = Ended(trio.current_time() + worker).end
        began = trio.current_time()

        async def note() -> None:
            times.append(trio.current_time() - began)

        with trio.CancelScope(deadline=began + limit):
            warning = EarlyWarning(note, 10.0, own, str(tmp_path))
            await warning.watch({})  # type: ignore[typeddict-item]
        assert account is not None
        return times[0], warning.cause

    assert (90.0, "time") == await warned_at(100.0, 200.0, 300.0)
    assert (90.0, "time") == await warned_at(200.0, 100.0, 300.0)
    assert (90.0, "worker") == await warned_at(200.0, None, 100.0)


async def test_the_end_of_the_hard_limit_is_told_for_the_next_attempt(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def note() -> None: ...

    account = RunAccount(ZERO)
    GVAR.enter(ZERO, "w1", None, account)
    with trio.move_on_after(100.0) as timer:
        account.limit, account.deadline = 100.0, timer.deadline
        warning = EarlyWarning(note, 10.0, None, str(tmp_path))
        await warning.watch({})  # type: ignore[typeddict-item]
    assert 100.0 == warning.limit


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"warn": "EXIT", "timeout": 60, "warn_before": 60}, "warn_before=60 is not shorter than"),
        ({"warn_before": 60}, "warn_before=60: state how to warn it, too"),
        ({"warn": "EXIT", "warn_before": 0}, "larger than 0"),
        ({"warn": "EXIT", "warn_before": "1h"}, "write a number of seconds"),
        ({"warn": 99}, "not the number of a signal"),
        ({"warn": ""}, "not the name of a file"),
        ({"warn": "TERM"}, "for the signal write 'SIGTERM', .* for a file .*, './TERM'"),
        ({"warn": "B:USR2@60"}, "for the signal write 'SIGUSR2'"),
        ({"warn": len}, "the name of a file, as in"),
        ({"warn": True}, "the name of a file, as in"),
        ({"warn": "EXIT", "scratch": True}, "state a directory, as in cwd=job"),
    ],
)
async def test_a_warning_that_cannot_be_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        await run_external(["true"], **given)


async def test_a_warning_longer_than_the_limit_of_the_task_is_refused() -> None:
    account = RunAccount(ZERO)
    account.limit = 300.0
    GVAR.enter(ZERO, "w1", None, account)
    with pytest.raises(ValueError, match="than the time limit of its task, 300 s"):
        await run_external(["true"], warn="EXIT", warn_before=600)


async def test_a_limit_that_was_estimated_is_never_too_short_for_a_warning(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    account = RunAccount(ZERO)
    GVAR.enter(WTime(T=40, group="opt"), "w1", None, account)
    with trio.move_on_after(40.0) as timer:
        account.limit, account.deadline = 40.0, timer.deadline
        warning = EarlyWarning(trio.lowlevel.checkpoint, 60.0, None, str(tmp_path))
        began = trio.current_time()
        await warning.watch({})  # type: ignore[typeddict-item]
    assert ("time", 20.0) == (warning.cause, trio.current_time() - began)


async def test_a_file_in_a_directory_that_is_gone_is_refused_before_the_start(
    tmp_path: Path,
) -> None:
    with pytest.raises(ExternalStartError, match=r"out, the directory of the file EXIT, is not"):
        await run_external(["touch", "ran"], cwd=tmp_path, warn="out/EXIT")
    assert not (tmp_path / "ran").exists()


async def test_a_directory_that_goes_meanwhile_is_named_with_the_time_limit(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    (tmp_path / "out").mkdir()

    async def reach_the_limit() -> None:
        while (tmp_path / "out").exists():
            await trio.to_thread.run_sync(time.sleep, 0.01)
        mock_clock.jump(6.0)  # the warning comes first
        await wait_all_tasks_blocked()
        mock_clock.jump(4.0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reach_the_limit)
        with pytest.raises(ExternalTimeoutError, match=r"; it could not be warned: .*out/EXIT"):
            await warned("rmdir out; sleep 60", tmp_path, "out/EXIT", timeout=10.0, before=5.0)
