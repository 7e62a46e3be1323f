"""Fixtures: configurations and the jobs made of them; a scheduler with prepared answers."""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
from slurm_site import SlurmSite

from grain.cli.batch import BatchJob, worker_job
from grain.config import Config, load
from grain.edge import serve
from grain.edge.questions import CODEC, Answer, Ask, pack
from grain_testkit.job_commands import JobCommands

if TYPE_CHECKING:
    from pathlib import Path

    from grain.edge import Peer

Configure = Callable[[str], Config]
NOW = datetime.datetime(2026, 3, 4, 9, 30, 15)


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """Load a configuration from its text, at home in /home/me."""

    def loaded(text: str) -> Config:
        path = tmp_path / "config" / "grain.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return load(path, env={"HOME": "/home/me", "USER": "me"})

    return loaded


@pytest.fixture
def job_of(configure: Configure) -> Callable[..., BatchJob]:
    """The worker's job of a configuration's text, submitted at 09:30:15 in /home/me/run."""

    def job_of_text(text: str, *extra_args: str, path: str = "") -> BatchJob:
        return worker_job(
            configure(text), now=NOW, folder="/home/me/run", extra_args=extra_args, path=path
        )

    return job_of_text


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that is the home, too, and a PATH without batch systems.

    At the address of the real home the user may have a scheduler.
    """
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/bin")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAIN_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def address(alone: Path) -> str:
    """An address of the configuration at which no scheduler serves, unless a test does."""
    folder = alone / "s"
    folder.mkdir(mode=0o700)
    url = f"unix://{folder}/s"
    (alone / "grain.toml").write_text(f'address = "{url}"\n')
    return url


@pytest.fixture
def command(alone: Path) -> Callable[[str, str], Path]:
    """Put a shell script on PATH; ``$0.in`` is a place for what it reads."""

    def put(name: str, script: str) -> Path:
        path = alone / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return put


class Fake:
    """A scheduler with canned answers, by question, and a record of the questions."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[Ask] = []

    async def handle(self, peer: Peer) -> None:
        while True:
            try:
                batch = await peer.channel.receive()
            except trio.EndOfChannel:
                return
            for ask, _ in batch:
                assert isinstance(ask, Ask)
                self.asked.append(ask)
                if self.answers.get(ask.about) is None:
                    return  # hangs up
                await peer.channel.send(
                    [(Answer(ask.about, ask.number), pack(self.answers[ask.about]))]
                )


_PATIENCE = (
    "grain.cli.completion.PATIENCE",
    "grain.cli.query.BRIEF",
    "grain.cli.query._BUSY",
)
"""The seconds for which commands of this process look for a scheduler that they do not need."""


@contextmanager
def _answering(address: str, **answers: Any) -> Iterator[Fake]:
    """Serve at an address; each answer is plain data, or None for hanging up.

    Meanwhile commands have patience: a busy machine may keep this scheduler from answering.
    """
    fake = Fake(answers)
    ready = threading.Event()
    scope: list[tuple[trio.lowlevel.TrioToken, trio.CancelScope]] = []

    async def run() -> None:
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(serve, fake.handle, address, codec=CODEC))
                scope.append((trio.lowlevel.current_trio_token(), nursery.cancel_scope))
                ready.set()
        finally:
            ready.set()

    thread = threading.Thread(target=trio.run, args=(run,))
    thread.start()
    ready.wait()
    assert scope, f"cannot serve at {address}"  # pytest shows the exception of the thread
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in _PATIENCE:
                patch.setattr(name, 60.0)
            yield fake
    finally:
        token, cancel = scope[0]
        token.run_sync_soon(cancel.cancel)
        thread.join()


@pytest.fixture
def answering() -> Any:
    """A scheduler: ``with answering(address, state={...}) as fake``."""
    return _answering


@pytest.fixture
def jobs(alone: Path, monkeypatch: pytest.MonkeyPatch) -> JobCommands:
    """A queue with a dispatcher that does nothing, in an own home."""
    monkeypatch.delenv("GRAIN_QUEUE", raising=False)
    (alone / "grain.toml").write_text("")
    jobs = JobCommands(alone)
    _let_none_start(alone)
    jobs.dispatch()
    return jobs


@pytest.fixture
def idle(alone: Path, monkeypatch: pytest.MonkeyPatch) -> JobCommands:
    """A queue without a dispatcher, where none can be started."""
    monkeypatch.delenv("GRAIN_QUEUE", raising=False)
    (alone / "grain.toml").write_text("")
    jobs = JobCommands(alone)
    _let_none_start(alone)
    return jobs


def _let_none_start(home: Path) -> None:
    """Have a file where a mission that is started would make its folder."""
    (home / "state/grain/started").write_text("no directory\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmSite:
    """A queue in the working directory, for commands that speak Slurm."""
    monkeypatch.chdir(tmp_path)
    return SlurmSite(tmp_path)
