"""Meetings at a meeting file: diallers find the head that serves, heads replace each other."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from grain.edge import Serving, serve
from grain.edge.errors import DialError, ExposedFile, MeetingTaken, Superseded
from grain.edge.framing.frames import greeting_frame
from grain.edge.messages import Hello, encode_greeting
from grain.edge.transports.unix import dial as dial_unix
from grain_testkit.faulty_links import Note
from grain_testkit.head_and_diallers import TRANSPORTS, dialling, echo, head, receive


async def test_a_dialler_that_comes_first_finds_the_head_later(address: str) -> None:
    """A worker that starts before there is a head finds it as soon as it comes."""
    async with trio.open_nursery() as nursery:
        got: list[Any] = []

        async def early() -> None:
            async with dialling(address, patience=None) as peer:
                await peer.channel.send([(Note("early"), None)])
                got.extend(await receive(peer, 1))

        nursery.start_soon(early)
        await trio.sleep(0.3)
        async with head(address):
            with trio.fail_after(60):
                while not got:
                    await trio.sleep(0.01)


async def test_a_dialler_finds_the_heads_successor(address: str) -> None:
    """The same address, a new head: new keys, a higher epoch, and the dialler gets there."""
    async with head(address) as first:
        pass
    async with head(address) as second:
        for transport in TRANSPORTS:
            async with dialling(address, transport) as peer:
                await peer.channel.send([(Note("x"), None)])
                await receive(peer, 1)

    assert (first.epoch, second.epoch) == (1, 2)
    assert first.meeting_id == second.meeting_id


async def test_a_dial_without_a_head_lists_what_was_tried(address: str) -> None:
    with pytest.raises(DialError, match=r"no head was reached within 2 s\n  meeting .*no such"):
        async with dialling(address, patience=2.0):
            raise AssertionError


async def test_a_second_head_learns_which_process_serves(address: str) -> None:
    """With host and pid."""
    async with head(address):
        with pytest.raises(MeetingTaken, match=f"process {os.getpid()} on {socket.gethostname()}"):
            await serve(echo, address)


async def test_a_superseded_head_steps_down(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves the meeting file to its successor."""
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[Serving]) -> None:
            with pytest.raises(Superseded, match="epoch 1 steps down, as epoch 9"):
                await serve(echo, address, watch=0.1, task_status=task_status)

        await nursery.start(run)
        before = Path(address[7:]).read_bytes()
        Path(address[7:] + ".d", "claim.9").touch(mode=0o600)

    assert Path(address[7:]).read_bytes() == before


async def test_exposed_edge_file_is_final(address: str) -> None:
    """Waiting does not cure it, so the dialler does not wait."""
    async with head(address):
        Path(address[7:]).chmod(0o644)
        with trio.fail_after(60), pytest.raises(ExposedFile):
            async with dialling(address, patience=None):
                raise AssertionError


async def test_peer_of_another_epoch_is_refused_in_words(address: str) -> None:
    """It has to read the meeting file again."""
    async with head(address) as serving:
        stream = await dial_unix(serving.targets[0])
        async with stream:
            hello = Hello(1, "1", "worker", "n", "h", 1, serving.meeting_id, serving.epoch + 1)
            await stream.send_all(greeting_frame(encode_greeting(hello)))
            answer = await stream.receive_some(4096)

    assert b"this is epoch 1 of its meeting" in answer


async def test_a_new_head_removes_remains_of_earlier_ones_and_follows_no_links(
    address: str, tmp_path: Path
) -> None:
    """A name is judged before what is below it is removed.

    Tried: Plant links among directories that a new scheduler removes.
    Result: links go, targets stay.
    """
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    async with head(address):
        pass
    directory = Path(address[7:] + ".d")
    (directory / "77" / "0").mkdir(parents=True)
    (directory / "78").symlink_to(tmp_path / "kept")
    (directory / "\N{SUPERSCRIPT TWO}").mkdir()  # a digit, and no number
    async with head(address):
        left = sorted(path.name for path in directory.glob("[!c]*") if path.name != "2")

    assert ["\N{SUPERSCRIPT TWO}"] == left
    assert ["file"] == os.listdir(tmp_path / "kept")
