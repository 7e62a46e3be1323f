"""A mission writes a log of its tasks, unless it is told otherwise."""

from __future__ import annotations

import io
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.combine import open_waitgroup
from grain.delayed import delayed, each, mission, run
from grain.eventlog.names import take_number
from grain.eventlog.reader import read
from grain.eventlog.schema import (
    AnyLine,
    CachedResults,
    LogEnded,
    LogStarted,
    Remark,
    RunEnded,
    TaskStarted,
    TaskSubmitted,
    WorkerJoined,
    WorkerLeft,
)
from grain.eventlog.store import LogStore
from grain.resource import Cores, Memory
from grain.util import as_completed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


async def give(value: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return value


async def fail(text: str) -> None:
    raise ValueError(text)


g = delayed(give) @ Cores(1)


def lines(folder: Path) -> list[AnyLine]:
    (log,) = LogStore(folder / "missions").logs()
    return list(read(log.folder))


def of(folder: Path, kind: type[Any]) -> list[Any]:
    return [line for line in lines(folder) if isinstance(line, kind)]


def local(main: Callable[[], Any], folder: Path | None = None, **options: Any) -> Any:
    options = {"config_file": False, "progress": False, "event_log": folder, **options}
    return run(main, Cores(2) & Memory(4), **options)


def test_the_log_of_a_local_mission_has_each_task_from_its_call_to_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        await (delayed(give) @ (Cores(1) & Memory(2)))(1)

    local(main, tmp_path, name="opt")
    started, joined, submitted, begun, ended, left, end = lines(tmp_path)
    assert isinstance(started, LogStarted)
    assert ("opt", "") == (started.name, started.address)
    assert isinstance(joined, WorkerJoined)
    assert {"Cores": 2, "Memory": 4} == joined.resources
    assert isinstance(submitted, TaskSubmitted)
    assert (1, "give", {"Cores": 1, "Memory": 2}, "Cores(1) & Memory(2)", ()) == (
        submitted.task, submitted.function, submitted.request, submitted.request_text,
        submitted.after,
    )  # fmt: skip
    assert isinstance(begun, TaskStarted)
    assert isinstance(ended, RunEnded)
    assert (1, "value", joined.worker, joined.host, 1, True) == (
        ended.task, ended.outcome, begun.worker, ended.host, ended.attempt, ended.final
    )  # fmt: skip
    assert ended.started is not None
    assert ended.ended is not None
    assert started.time <= ended.started <= ended.ended
    assert 1 == len(ended.cpus)
    assert isinstance(left, WorkerLeft)
    assert isinstance(end, LogEnded)
    assert ("done", 0) == (end.status, end.lost)


def test_missions_of_one_name_have_labels_and_a_start_gives_that_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    async def nothing() -> None:
        await trio.lowlevel.checkpoint()

    async def within() -> None:
        async with mission(Cores(1), name="opt", config_file=False):
            await nothing()

    local(nothing, tmp_path, name="opt")
    assert 2 == take_number("opt", unused=True)
    monkeypatch.setenv("GRAIN_MISSION", "opt@2")
    local(nothing, tmp_path)
    local(nothing, event_log=False)  # nobody sees it: it takes no label
    local(delayed(within) @ Cores(1), event_log=False)
    local(nothing, tmp_path, name="scan")
    local(nothing, tmp_path)

    logs = sorted(LogStore(tmp_path / "missions").logs(), key=lambda log: log.label)
    labels = ["opt@1", "opt@2", "opt@3", "scan@1"]
    assert labels == [log.label for log in logs]
    assert labels == [header.label for log in logs if (header := log.header()) is not None]


def test_a_mission_whose_label_cannot_be_written_runs_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    async def main() -> None:
        await g(1)

    local(main, tmp_path, name="opt")
    [log] = LogStore(tmp_path / "missions").logs()
    assert log.id[:8] == log.label
    assert "" == lines(tmp_path)[0].label  # type: ignore[union-attr]


def test_a_task_names_the_one_whose_end_its_branch_had_waited_for(tmp_path: Path) -> None:
    async def branch(first: int) -> Any:
        return await g(await g(first))

    async def main() -> None:
        _, _ = await delayed(branch)(1), await g(0)  # 1, 2 after 1, 3 after 2
        await each(g(0), g(0))  # 4 and 5 after 3
        async with open_waitgroup() as wg:
            wg.submit(Cores(1), give, 1)  # 6 after 4 or 5
        async for done in as_completed(g(0)):  # 7 after 6
            await done
        await g(0)  # 8 after 7

    local(main, tmp_path)
    after = [line.after for line in of(tmp_path, TaskSubmitted)]
    assert after[5] in ((4,), (5,))
    after[5] = (5,)
    assert [(), (1,), (2,), (3,), (3,), (5,), (6,), (7,)] == after


def test_tasks_of_a_mission_know_nothing_of_those_of_another(tmp_path: Path) -> None:
    async def main() -> None:
        async with mission(Cores(1), config_file=False, event_log=False, progress=False):
            await g(1)
            async with mission(Cores(1), config_file=False, event_log=tmp_path, progress=False):
                await g(1)

    trio.run(main)
    assert [()] == [line.after for line in of(tmp_path, TaskSubmitted)]


def test_a_further_attempt_names_the_first(tmp_path: Path) -> None:
    async def main() -> None:
        for _ in range(2):
            await g(1)
        with pytest.raises(ValueError, match="no"):
            await (delayed(fail, retries=2, retry_wait=0) @ Cores(1))("no")

    local(main, tmp_path)
    assert [0, 0, 0, 3, 3] == [line.retry_of for line in of(tmp_path, TaskSubmitted)]
    ends = [(one.outcome, one.failure.error, one.failure.message) for one in of(tmp_path, RunEnded)]
    assert [("error", "ValueError", "no")] * 3 == ends[2:]


def test_the_end_of_a_log_says_how_the_mission_ended(tmp_path: Path) -> None:
    async def broken() -> None:
        g(1)
        raise KeyError("gone\nwrong")

    async def interrupted() -> None:
        raise KeyboardInterrupt

    async def leaves() -> None:
        await g(1)
        sys.exit(0)

    async def leaves_with_3() -> None:
        sys.exit(3)

    async def unseen() -> None:
        (delayed(fail) @ Cores(1))("nobody awaits me")

    expected = {
        broken: ("failed", r"KeyError: 'gone\nwrong'", KeyError),
        interrupted: ("interrupted", "KeyboardInterrupt", KeyboardInterrupt),
        leaves: ("done", "", SystemExit),
        leaves_with_3: ("failed", "SystemExit: 3", SystemExit),
        unseen: ("failed", "ValueError: nobody awaits me", ValueError),
    }
    for main, (status, message, error) in expected.items():
        folder = tmp_path / main.__name__
        with pytest.raises(error):
            local(main, folder)
        (end,) = of(folder, LogEnded)
        assert (status, message) == (end.status, end.message)


def test_results_from_the_cache_are_counted_in_the_log_and_in_the_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = delayed(give, cache_hfn="args") @ Cores(1)

    async def main() -> None:
        await each(kept(n) for n in range(3))

    async def more() -> None:
        await each(kept(n) for n in range(5))

    local(main, tmp_path / "first", cache=tmp_path / "cache")
    assert [] == of(tmp_path / "first", CachedResults)
    capsys.readouterr()
    local(more, tmp_path / "second", cache=tmp_path / "cache", progress=None)
    counts = of(tmp_path / "second", CachedResults)
    assert {("give", 3)} == {(line.function, sum(x.results for x in counts)) for line in counts}
    assert 2 == len(of(tmp_path / "second", RunEnded))
    assert "5 done (3 from the cache)" in capsys.readouterr().err


def test_what_the_user_is_warned_of_is_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        await each([g(n) for n in range(20)])

    local(main, tmp_path, warn_queued=10)
    (remark,) = [line for line in of(tmp_path, Remark) if "warn_queued" in line.text]
    assert remark.text in capsys.readouterr().err


def test_a_mission_that_keeps_to_itself_writes_a_log_unless_it_is_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def main() -> None:
        await g(1)

    local(main, event_log=False)
    assert [] == list(tmp_path.iterdir())
    local(main)
    assert 1 == len(of(tmp_path / "grain", TaskSubmitted))


@pytest.mark.parametrize("option", [None, True])
def test_a_mission_inside_of_a_task_writes_a_log_only_where_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: bool | None
) -> None:
    """Each of thousands of tasks may open one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def leaf() -> None:
        async with mission(Cores(1), config_file=False, event_log=option):
            await g(1)

    async def main() -> None:
        await (delayed(leaf) @ Cores(1))()

    local(main, name="outer")
    logs = LogStore(tmp_path / "grain" / "missions").logs()
    assert (2 if option else 1) == len(logs)


@pytest.mark.parametrize(
    ("keys", "option", "logs"),
    [("", None, 1), ("enabled = false", None, 0), ("enabled = false", True, 1), ("", False, 0)],
)
def test_a_mission_that_workers_may_join_writes_a_log_unless_it_is_not_wanted(
    tmp_path: Path, keys: str, option: bool | None, logs: int
) -> None:
    (tmp_path / "shared").mkdir(mode=0o700)
    config = tmp_path / "grain.toml"
    config.write_text(
        f'address = "edge://{tmp_path}/shared/edge"\n'
        f'[head.event_log]\nfolder = "{tmp_path}/logs"\n{keys}\n'
    )

    async def main() -> None:
        await g(1)

    run(main, Cores(1), config_file=str(config), progress=False, event_log=option)
    assert logs == len(LogStore(tmp_path / "logs" / "missions").logs())
    if logs:
        (ended,) = of(tmp_path / "logs", RunEnded)
        (joined,) = of(tmp_path / "logs", WorkerJoined)
        assert ("value", joined.worker, joined.host) == (ended.outcome, ended.worker, ended.host)
        assert {"Cores": 1} == joined.resources
        (first,) = of(tmp_path / "logs", LogStarted)
        assert f"edge://{tmp_path}/shared/edge" == first.address


def test_a_directory_that_cannot_be_written_is_a_warning_and_the_mission_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = io.StringIO()  # as another thread may write
    monkeypatch.setattr(sys, "stderr", errors)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")

    async def main() -> int:
        value: int = await g(1)
        with trio.fail_after(120):
            while "warning" not in errors.getvalue():
                await trio.sleep(0.01)
        return value

    assert 1 == local(main, blocked)


def test_a_local_mission_that_no_log_was_asked_of_says_nothing_where_none_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    monkeypatch.setenv("XDG_STATE_HOME", str(blocked))
    assert 1 == local(lambda: g(1))
    assert "" == capsys.readouterr().err


def test_an_event_log_that_is_no_place_is_refused() -> None:
    with pytest.raises(TypeError, match="event_log=3: give True, False, or the directory"):
        local(lambda: give(1), event_log=3)


def test_blocking_code_is_reported_and_stands_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another thread writes. What pytest captures is lost if it comes while it is taken.
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)

    async def main() -> None:
        ends = ("blocks the event loop", "Exception in thread")
        while not any(end in errors.getvalue() for end in ends):
            time.sleep(0.01)  # noqa: ASYNC251 -- that is the mistake

    local(main, tmp_path)
    said = errors.getvalue()
    assert "Exception in thread" not in said
    (remark,) = of(tmp_path, Remark)
    assert said.count("warning: main blocks the event loop of this process") == 1
    assert remark.text.startswith("warning: main blocks the event loop of this process")


@pytest.mark.parametrize("usual", [True, False])
def test_the_end_names_the_log_as_commands_know_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], usual: bool
) -> None:
    """By its id where `grain` looks for it, and else by its folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def main() -> None:
        with pytest.raises(ValueError, match="no"):
            await (delayed(fail) @ Cores(1))("no")

    own = tmp_path / "my logs"
    local(main, None if usual else own)

    (log,) = LogStore(((tmp_path / "grain") if usual else own) / "missions").logs()
    word = capsys.readouterr().err.splitlines()[-1].rpartition("--failed ")[2]
    assert (log.id[:8] if usual else f"'{log.folder}'") == word


def test_where_no_log_could_be_written_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mission with its local worker alone does without in silence."""
    (tmp_path / "grain").write_text("in the way")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def main() -> None:
        with pytest.raises(ValueError, match="no"):
            await (delayed(fail) @ Cores(1))("no")

    for event_log in None, False:
        local(main, event_log=event_log)
        assert "grain" not in capsys.readouterr().err
