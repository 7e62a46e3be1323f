"""The sockets of a gang, where another user connects or has taken the name; and odd lines there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.worker.gang import root
from grain.worker.gang.control import ControlError, JsonLines, accept, connect, listen, serve
from grain.worker.gang.door import RankDoor
from grain.worker.gang.messages import ProgramExited, ProgramOutput, heartbeat
from grain.worker.processes.mpi import EDGE
from grain_testkit.other_user import needs_other_user, other_listens_at, received_by_other

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grain.edge.messages import Message

GANG = Path(root.__file__).parent


def python(script: str, *words: str) -> list[str]:
    """Return the command line of a program that knows nothing of Grain but the folder EDGE."""
    return [sys.executable, "-SEs", str(GANG / f"{script}.py"), *words]


def stand_in(door: str) -> subprocess.Popen[str]:
    """Start what srun starts in place of a rank, with a secret in its environment."""
    variables = {"GRAIN_GANG_DOORS": json.dumps({"n1": door}), "SLURMD_NODENAME": "n1"}
    return subprocess.Popen(
        python("srun", EDGE, "1", "1", "sh", "-c", 'echo "has $SECRET"'),
        env={**variables, "SECRET": "a key", "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@needs_other_user
async def test_a_stand_in_gives_its_files_to_its_own_rank_and_not_to_a_user_who_comes_first() -> (
    None
):
    """Tried: Connect to a socket of a task on several workers before its own process does, to the
    one by which srun's stand-in passes on its environment and open files too.
    Result: closed without a word; the own process is served after it.
    """
    name, listener = listen()
    async with listener:
        with stand_in(name) as process:
            async with JsonLines(await listener.accept()) as lines:
                rank = (await lines.receive())["words"]
                hatch = rank[rank.index("--from") + 2]
                strangers = [
                    await trio.to_thread.run_sync(received_by_other, f"@{hatch}") for _ in range(3)
                ]
                done = await trio.run_process(rank, check=False)
                await lines.send(status=done.returncode, output="")
            output, _ = process.communicate(timeout=60)

    assert ["", "", ""] == strangers
    assert "has a key\n" == output  # the rank has both the secret and the open file
    assert 0 == process.returncode


@needs_other_user
def test_a_stand_in_tells_nothing_to_a_user_who_has_taken_the_name_of_its_door() -> None:
    """Tried: Listen at the name of such a socket, or of a mission's, when its owner has died.
    Result: is sent nothing.
    """
    with other_listens_at("grain-taken-door") as other, stand_in("grain-taken-door") as process:
        output, _ = process.communicate(timeout=60)
        received, _ = other.communicate(timeout=60)

    assert "\n" == received
    assert 255 == process.returncode
    assert "another user has taken the name of its door" in output


@needs_other_user
@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        ("rsh", [EDGE, "grain-taken", "m1", "true"], "another user has taken the name"),
        ("rank", ["--from", EDGE, "grain-taken", "1", "1", "true"], "is another user's"),
    ],
)
def test_a_program_tells_nothing_to_a_user_who_has_taken_a_name(
    script: str, words: list[str], said: str
) -> None:
    """Tried: Listen at the name of such a socket, or of a mission's, when its owner has died.
    Result: is sent nothing.
    """
    with other_listens_at("grain-taken") as other:
        done = subprocess.run(python(script, *words), capture_output=True, text=True, check=False)
        received, _ = other.communicate(timeout=60)

    assert "\n" == received
    assert said in done.stderr
    assert done.returncode not in {0, None}


@needs_other_user
async def test_a_process_of_a_gang_does_not_talk_to_another_user() -> None:
    """Tried: Listen at the name of such a socket, or of a mission's, when its owner has died.
    Result: is sent nothing.
    """
    with other_listens_at("grain-taken-control"), pytest.raises(ControlError, match="another user"):
        await connect("grain-taken-control")


@needs_other_user
async def test_a_tasklet_takes_its_process_after_a_stranger() -> None:
    """Tried: Connect to a socket of a task on several workers before its own process does, to the
    one by which srun's stand-in passes on its environment and open files too.
    Result: closed without a word; the own process is served after it.
    """
    name, listener = listen()
    async with listener, trio.open_nursery() as nursery:
        got: list[JsonLines] = []

        async def take() -> None:
            got.append(await accept(listener))

        nursery.start_soon(take)
        stranger = await trio.to_thread.run_sync(received_by_other, f"@{name}")
        async with await connect(name) as lines:
            await lines.send(here=True)
            while not got:
                await trio.lowlevel.checkpoint()
            assert {"here": True} == await got[0].receive()
        await got[0].__aexit__()

    assert "" == stranger


@asynccontextmanager
async def served(place: str) -> AsyncIterator[str]:
    """Serve the door of a member, or the root's rsh; yields the name of the socket."""
    name, listener = listen()
    async with listener, trio.open_nursery() as nursery:
        if place == "door":
            door = RankDoor(nursery)
            nursery.start_soon(door.serve)
            yield door.name
        else:
            tasklet_name, tasklet_listener = listen()
            async with tasklet_listener, await connect(tasklet_name) as tasklet:
                leader = root.Root(nursery, tasklet, heartbeat(20))
                nursery.start_soon(leader.door.serve)
                nursery.start_soon(serve, listener, leader.serve_rsh)
                yield name
        nursery.cancel_scope.cancel()


async def answer_to(name: str, line: dict[str, Any]) -> dict[str, Any]:
    """Return the last line that answers one."""
    async with await connect(name) as lines:
        await lines.send(**line)
        while "status" not in (answer := await lines.receive()):
            pass
        return answer


GOOD: dict[str, dict[str, Any]] = {
    "door": {"call": "1", "words": ["true"], "cwd": "/"},
    "rsh": {"host": "m0", "words": ["true"], "environment": {}, "cwd": "/", "call": "1"},
}


@needs_other_user
@pytest.mark.parametrize("place", ["door", "rsh"])
async def test_another_user_starts_nothing_and_the_next_guest_is_served(
    place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tried: Connect to a socket of a task on several workers before its own process does, to the
    one by which srun's stand-in passes on its environment and open files too.
    Result: closed without a word; the own process is served after it.
    """
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    async with served(place) as name:
        stranger = await trio.to_thread.run_sync(received_by_other, f"@{name}")
        answer = await answer_to(name, GOOD[place])

    assert "" == stranger
    assert 0 == answer["status"]


ODD = [
    {"words": 5},
    {"words": [["true"]]},
    {"words": None},
    {"words": ["true\0"]},
    {"words": ["\ud800"]},
    {"cwd": {}},
    {"cwd": "\0"},
    {"call": []},
    {"call": 1e300},
    {"call": {"a": 1}},
]
ODD_RSH = [
    *ODD,
    {"host": 7},
    {"host": "m" + "9" * 6000},
    {"host": "m²"},
    {"environment": []},
    {"environment": {"A": 5}},
    {"environment": {"A": "\ud800"}},
    {"environment": {"": "\0"}},
    {"environment": {"A=B": "c"}},
    {"daemon": []},
]


@pytest.mark.parametrize(
    ("place", "odd"),
    [*(("door", odd) for odd in ODD), *(("rsh", odd) for odd in ODD_RSH)],
)
async def test_a_line_with_odd_values_is_answered_and_ends_nothing_else(
    place: str, odd: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tried: Odd values in what a task's processes on several workers say to each other.
    Result: answered, or that member is lost with a reason.
    """
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    async with served(place) as name:
        answer = await answer_to(name, {**GOOD[place], **odd})
        assert 0 != answer["status"]
        assert answer["output"]
        assert "Traceback" not in answer["output"]
        assert 0 == (await answer_to(name, GOOD[place]))["status"]


@pytest.mark.parametrize(
    ("message", "payload"),
    [
        (ProgramOutput(77, 1), b"of no program"),
        (ProgramExited(77), b"no pickle"),
        (ProgramExited(77), b"\x80\x04K\x05."),  # 5
    ],
)
async def test_a_member_that_says_something_odd_is_lost_with_a_reason_and_the_root_goes_on(
    message: Message, payload: bytes
) -> None:
    """Tried: Odd values in what a task's processes on several workers say to each other.
    Result: answered, or that member is lost with a reason.
    """
    import base64

    from grain.edge.invitation import invite
    from grain.worker.gang.messages import CODEC

    name, listener = listen()
    async with listener, trio.open_nursery() as nursery, await connect(name) as tasklet:
        ours = JsonLines(await listener.accept())
        leader = root.Root(nursery, tasklet, heartbeat(20))
        nursery.start_soon(leader.door.serve)
        nursery.start_soon(leader.serve_tasklet)
        async with invite(CODEC, heartbeat(20), within=True, network=False) as door:
            invitation = base64.b85encode(door.invitation).decode()
            await ours.send(join=1, invitation=invitation)
            async with door.guest() as channel:
                await channel.send([(message, payload)])
                line = await ours.receive()
        nursery.cancel_scope.cancel()
        await ours.__aexit__()

    assert 1 == line["lost"]
    assert "does not fit" in line["why"]
