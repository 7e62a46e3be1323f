"""Unix sockets and their names: who has the name, and who may take it."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

import pytest
import trio

from grain.edge.errors import LinkedFile, MeetingTaken, NotAuthenticated
from grain.edge.transports.unix import BoundSocket, dial_name, listen, listening_process
from grain_testkit.other_user import needs_other_user, other_listens_at


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "s").mkdir(mode=0o700)
    return f"{tmp_path}/s/sock"


def in_folder_of(path: str) -> list[str]:
    return [one.name for one in Path(path).parent.iterdir()]


async def silent(_: int) -> str:
    """Be the check of a process that does not answer."""
    return ""


async def test_the_name_of_a_silent_listener_is_taken_and_the_old_socket_notices(path: str) -> None:
    """The old one leaves the name to the new one when it closes."""
    old = await listen(path)
    assert not old.is_replaced()
    new = await listen(path, silent)

    assert old.is_replaced()
    assert not new.is_replaced()
    old.close()
    assert os.getpid() == listening_process(path)
    new.close()
    assert [] == in_folder_of(path)


async def test_a_living_listener_keeps_its_name(path: str) -> None:
    asked: list[int] = []

    async def lives(pid: int) -> str:
        asked.append(pid)
        return "it answers by unix"

    old = await listen(path)
    for check in (lives, None):
        with pytest.raises(MeetingTaken, match=rf"process {os.getpid()} on .* \(it a"):
            await listen(path, check)

    assert [os.getpid()] == asked
    assert not old.is_replaced()
    assert ["sock"] == in_folder_of(path)
    old.close()


async def test_of_two_that_would_follow_a_silent_listener_the_second_asks_the_first(
    path: str,
) -> None:
    """The name has changed hands since it has judged the silent one: it judges again."""
    old = await listen(path)
    first: list[BoundSocket] = []

    async def overtaken(_: int) -> str:
        if first:
            return "the first answers"
        first.append(await listen(path, silent))
        return ""

    with pytest.raises(MeetingTaken, match="the first answers"):
        await listen(path, overtaken)

    assert old.is_replaced()
    assert not first[0].is_replaced()
    for bound in (old, *first):
        bound.close()


async def test_a_frozen_holder_of_the_lock_keeps_no_head_from_the_name(path: str) -> None:
    directory = os.open(Path(path).parent, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    bound = await listen(path)
    os.close(directory)

    assert os.getpid() == listening_process(path)
    bound.close()


async def test_a_removed_name_is_not_taken_for_that_of_another_head(path: str) -> None:
    bound = await listen(path)
    Path(path).unlink()

    assert not bound.is_replaced()
    bound.close()


def test_what_is_no_socket_is_not_replaced(path: str) -> None:
    """Nothing listens on it either, as on the socket of a dead process."""
    Path(path).write_text("a thesis")

    with pytest.raises(LinkedFile, match="is not a socket of yours"):
        trio.run(listen, path)

    assert "a thesis" == Path(path).read_text()
    assert ["sock"] == in_folder_of(path)


async def test_a_path_may_be_as_long_as_the_kernel_stores(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * (104 - len(str(tmp_path))))
    folder.mkdir(mode=0o700)
    bound = await listen(f"{folder}/s")

    assert 107 == len(bound.path)
    assert os.getpid() == listening_process(bound.path)
    bound.close()


def test_a_listener_whose_backlog_is_full_is_there_though_unnamed(path: str) -> None:
    """As one that was frozen while very many dialled: each leaves a connection there."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        seen = [listening_process(path) for _ in range(4)]

    assert [os.getpid(), os.getpid(), 0, 0] == seen
    assert listening_process(path) is None


@needs_other_user
async def test_another_user_who_has_taken_a_name_is_told_nothing() -> None:
    """Tried: Listen at the name of such a socket, or of a mission's, when its owner has died.
    Result: is sent nothing.
    """
    with other_listens_at("grain-taken-edge") as other:
        with pytest.raises(NotAuthenticated, match="belongs to user 65534"):
            await dial_name("grain-taken-edge")
        received, _ = other.communicate(timeout=60)
    assert "\n" == received
