"""The file of what groups have learned: read again, and put aside where it cannot be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from grain.edge.address import parse_address
from grain.facts import needs as kept_needs
from grain.facts.needs import FinishedRun
from grain.head.needs import store
from grain.head.needs.group import Terms
from grain.head.needs.groups import LearnedMemory, MemoryUse, Needs
from grain.resource import Memory
from grain_testkit.blocking import call_in_place

if TYPE_CHECKING:
    from collections.abc import Callable

TERMS = Terms(4, 32)


def learned() -> Needs:
    needs = Needs()
    group = needs.group("opt")
    for peak in range(100):
        group.on_finished(FinishedRun(1 + peak / 100, 8, 60), 32)
    group.on_exceeded(4, 10)
    needs.group("only too little").on_exceeded(4, 10)
    needs.group("asked for only")
    return needs


def test_what_is_read_asks_as_what_was_written(tmp_path: Path) -> None:
    path, again = tmp_path / "needs.json", Needs()
    path.write_bytes(store.encode(learned()))
    assert store.load(path, again) == ""
    assert again.groups.keys() == {"opt", "only too little"}
    old, new = learned().group("opt"), again.group("opt")
    assert (old.finished, old.exceeded, old.spent, old.fixed) == (
        new.finished,
        new.exceeded,
        new.spent,
        new.fixed,
    )
    assert list(old.runs) == list(new.runs)


def test_no_file_is_nothing_to_say(tmp_path: Path) -> None:
    assert store.load(tmp_path / "needs.json", Needs()) == ""


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is damaged"),
        (store.encode(learned())[:-40], "it is damaged"),
        (b'{"version": 2, "new": 1}', "it is of version 2, and this Grain reads version 1"),
        (b'{"version": 1, "groups": [{"name": 3}]}', "it is damaged"),
    ],
)
def test_a_file_that_cannot_be_read_is_put_aside_and_named(
    tmp_path: Path, content: bytes, why: str
) -> None:
    path, needs = tmp_path / "needs.json", Needs()
    path.write_bytes(content)
    told = store.load(path, needs)
    assert told.startswith(f"{path}: {why}")
    assert "It is kept as needs.json.unreadable" in told
    assert (tmp_path / "needs.json.unreadable").read_bytes() == content
    assert not path.exists()
    assert not needs.groups


def stored(**changes: Any) -> bytes:
    """Return a file with one group of two runs, of which something is changed."""
    runs = [[0.1, 1.0, 5.0, 3.0, True], [0.2, 1.0, 5.0, 4.0, True]]
    counts = {"finished": 2, "exceeded": 1, "spent": 12.0, "fixed": 20.0, "obeys": False}
    return json.dumps(
        {"version": 1, "groups": [{"name": "opt", "runs": runs, **counts, **changes}]}
    ).encode()


def test_the_file_that_is_changed_below_can_be_read() -> None:
    (group,) = kept_needs.decode(stored())
    assert ("opt", 2, 1) == (group.name, len(group.runs), group.exceeded)


@pytest.mark.parametrize(
    "changes",
    [
        {"finished": 1, "runs": [[*run, True]]}
        for run in (
            (-0.1, 1.0, 5.0, 3.0),
            (1e308, 1.0, 5.0, 3.0),
            (0.1, -1.0, 5.0, 3.0),
            (0.1, 1e308, 5.0, 3.0),
            (0.1, 1.0, -5.0, 3.0),
            (0.1, 1.0, 1e308, 3.0),
            (0.1, 1.0, 5.0, -3.0),
        )
    ]
    + [
        {"name": ""},
        {"name": " opt"},
        {"finished": -9},
        {"finished": 1},
        {"finished": 900},
        {"runs": []},
        {"exceeded": -3},
        {"spent": -5.0},
        {"fixed": -5.0},
    ],
)
def test_what_no_scheduler_writes_is_not_believed(changes: dict[str, Any]) -> None:
    with pytest.raises(kept_needs.Unreadable, match="it is damaged"):
        kept_needs.decode(stored(**changes))


def test_two_groups_of_one_name_are_not_believed() -> None:
    content = json.loads(stored())
    content["groups"] *= 2
    with pytest.raises(kept_needs.Unreadable, match="two groups are named 'opt'"):
        kept_needs.decode(json.dumps(content).encode())


@given(
    runs=st.lists(
        st.tuples(
            st.floats(0.0, 1e302),
            st.floats(1e-6, 1e302),
            st.floats(5e-324, 1.7e308),
            st.floats(0.0, 1e9),
            st.booleans(),
        ),
        max_size=80,
    )
)
def test_whatever_was_learned_is_read_again(
    runs: list[tuple[float, float, float, float, bool]],
) -> None:
    needs, now = Needs(), []
    for peak, most, size, seconds, exceeded in runs:
        request = Memory(most, group="opt", size=size)
        memory = LearnedMemory(needs, request, request)
        memory.on_ended(memory.memory, MemoryUse(peak, exceeded), seconds)
        now = [needs.groups["opt"]]
    for old, new in zip(now, kept_needs.decode(store.encode(needs)), strict=True):
        assert (list(old.runs), old.finished, old.exceeded) == (
            list(new.runs),
            new.finished,
            new.exceeded,
        )


@pytest.mark.parametrize("what", ["pipe", "device"])
def test_what_is_not_a_plain_file_is_put_aside_unread(tmp_path: Path, what: str) -> None:
    path = tmp_path / "needs.json"
    if what == "pipe":
        os.mkfifo(path)  # whoever reads it waits for a writer
    else:
        path.symlink_to("/dev/zero")  # which has no end
    told = store.load(path, Needs())
    assert told.startswith(f"{path}: it is not a plain file")
    assert "It is kept as needs.json.unreadable" in told


def test_behind_a_link_the_file_is_judged(tmp_path: Path) -> None:
    path, there, needs = tmp_path / "needs.json", tmp_path / "elsewhere", Needs()
    there.write_bytes(stored())
    there.chmod(0o600)
    path.symlink_to(there)
    assert "" == store.load(path, needs)
    assert needs.groups.keys() == {"opt"}
    there.chmod(0o666)
    assert "every user may write to" in store.load(path, Needs())


def test_a_file_that_anybody_may_write_is_not_believed(tmp_path: Path) -> None:
    path, needs = tmp_path / "needs.json", Needs()
    path.write_bytes(store.encode(learned()))
    path.chmod(0o666)
    assert "every user may write to" in store.load(path, needs)
    assert not needs.groups


def test_what_cannot_be_read_is_put_aside_and_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "needs.json"
    path.mkdir()
    (path / "mine").touch()
    assert "It is kept as needs.json.unreadable" in store.load(path, Needs())
    assert (tmp_path / "needs.json.unreadable" / "mine").exists()
    assert not path.exists()


def test_it_is_beside_the_meeting_file_or_in_the_users_state_directory(tmp_path: Path) -> None:
    """The key of a bridge may change, and is no part of the name."""
    env = {"XDG_STATE_HOME": str(tmp_path)}

    def path_of(address: str) -> Path | None:
        where = parse_address(address)
        return kept_needs.path_of(where.edge, str(where), env)

    beside = path_of(f"edge://{tmp_path}/meeting")
    assert Path(f"{tmp_path}/meeting.d/needs.json") == beside
    key, other = "a" * 43, "b" * 43
    bridges = [path_of(f"bridge://{one}@host:4711") for one in (key, other)]
    unix = path_of("unix:///run/me/grain")
    assert bridges[0] == bridges[1] != unix
    for path in (bridges[0], unix):
        assert path is not None
        assert tmp_path / "grain" / "needs" == path.parent


async def test_its_directory_is_made(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path, needs = tmp_path / "grain" / "needs" / "0.json", Needs()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.keep, path, needs)
        await trio.sleep(store.EACH)
        needs.group("opt").on_finished(FinishedRun(1.0, 4, 60), 32)
        nursery.cancel_scope.cancel()
    assert path.exists()
    assert 0o700 == path.parent.stat().st_mode & 0o777


async def test_it_is_written_when_something_was_learned(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trio.to_thread, "run_sync", call_in_place)
    path, needs = tmp_path / "needs.json", Needs()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.keep, path, needs)
        await trio.sleep(30.0)
        assert not path.exists()
        learn(needs)
        await trio.sleep(20.0)
        assert 1 == finished(path)
        learn(needs)
        nursery.cancel_scope.cancel()
    assert 2 == finished(path)


async def test_what_is_learned_while_it_is_written_is_written_the_next_time(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, needs = tmp_path / "needs.json", Needs()

    async def slowly(write: Callable[..., None], *args: object) -> None:
        await trio.lowlevel.checkpoint()
        write(*args)
        if needs.groups["opt"].finished == 1:
            learn(needs)

    monkeypatch.setattr(trio.to_thread, "run_sync", slowly)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.keep, path, needs)
        await trio.sleep(1.0)
        learn(needs)
        await trio.sleep(25.0)
        assert 2 == finished(path)
        nursery.cancel_scope.cancel()


async def test_a_full_disk_is_said_once_and_what_was_learned_is_written_later(
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder, needs = tmp_path / "beside", Needs()
    folder.touch()  # a directory that cannot be made
    monkeypatch.setattr(trio.to_thread, "run_sync", call_in_place)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.keep, folder / "needs.json", needs)
        await trio.sleep(1.0)
        learn(needs)
        await trio.sleep(35.0)
        folder.unlink()
        await trio.sleep(10.0)
        assert 1 == finished(folder / "needs.json")
        nursery.cancel_scope.cancel()
    assert 1 == caplog.text.count("is not kept")


def learn(needs: Needs) -> None:
    needs.group("opt").on_finished(FinishedRun(1.0, 4, 60), 32)


def finished(path: Path) -> int:
    """Return the number of runs that a file knows."""
    needs = Needs()
    assert "" == store.load(path, needs)
    return needs.groups["opt"].finished
