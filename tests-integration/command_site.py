"""A directory in which the `grain` command is typed, with a real scheduler and real workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import trio
from click.testing import CliRunner
from fake_batch.start import until

from grain.cli import main
from grain.cli.status.ls import state_data
from grain.config import load
from grain.edge import dial
from grain.edge.errors import EdgeError
from grain.edge.questions import CODEC, Ask, StateAnswer, unpack
from grain_testkit.programs import run, start, terminated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tools.hosts import Host

    from grain_testkit.programs import Process

SCALE = """\
from grain.cli import main
from grain.cli.workers import loop
from grain.cli.scaling import pool
loop.LOCAL = loop.BATCH = 0.3
pool.PAUSES, pool.PROVEN, pool.UNLISTED = (1.0, 60.0), {proven}, 3.0
main(prog_name="grain")
"""
"""`grain` for `grain scale`, which has its minutes in seconds; how long a job takes to prove itself
is up to the test."""


@contextmanager
def running(*words: str, host: Host | None = None, **env: str) -> Iterator[Process]:
    nowhere, environ = subprocess.DEVNULL, {**os.environ, **env}
    process: Process
    if host is None:
        process = start("-m", *words, stdout=nowhere, stderr=nowhere, env=environ)
    else:
        command = host.entering([sys.executable, "-m", *words])
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, env=environ)
    with terminated(process):
        yield process


@contextmanager
def shell(folder: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Give this process a directory and an environment for the block."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        with patch.dict(os.environ, environ, clear=True):
            yield
    finally:
        os.chdir(before)


def typed(
    words: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command of `grain` in this process, as starting another one costs much more.

    It is for commands that a test needs and is not about, one at a time: the working directory and
    the environment are those of the whole process while it runs. Processes that it leaves behind
    are children of this one.
    """
    with shell(folder, environ):
        done = CliRunner().invoke(main, words, catch_exceptions=False)
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def _patient(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command; one that asks the scheduler waits for it.

    A busy machine may keep that from answering within the seconds after which users get the notice
    that there is none.
    """
    if words[0] in {"ls", "why", "drain", "cancel"} and "--patience" not in words:
        return (words[0], "--patience", "30", *words[1:])
    return words


class Site:
    """A directory with a configuration, in which commands are typed.

    Args:
        folder: the directory.
        host: the host on which they are typed, if not this machine.
    """

    def __init__(self, folder: Path, host: Host | None = None) -> None:
        self.folder = folder
        self.host = host
        self.address = f"edge://{folder}/edge/meeting"
        (folder / "edge").mkdir(mode=0o700)
        (folder / "grain.toml").write_text(
            f'address = "{self.address}"\n[worker]\nname = "w"\nlog_file = "w.log"\n'
            "[script]\ncores = 1\nmemory = 1\n[worker.res]\nCapacity = { V = 4 }\n"
        )
        self.environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}

    def at(self, host: Host) -> Site:
        """Return the same directory as another host sees it."""
        site = copy(self)
        site.host = host
        return site

    def command(self, *words: str) -> list[str]:
        """Return the command line that has Python run words on the site's host."""
        command = [sys.executable, *words]
        return command if self.host is None else self.host.entering(command, str(self.folder))

    async def grain(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Type a command; its output has no escape code."""
        words = ("-m", "grain.cli", *_patient(words))
        if self.host is None:
            type_it = partial(run, *words, cwd=self.folder, env=self.environ, timeout=120)
        else:
            type_it = partial(
                subprocess.run,
                self.command(*words),
                cwd=self.folder,
                env=self.environ,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        done = await trio.to_thread.run_sync(type_it)
        assert "\x1b" not in done.stdout + done.stderr
        return done

    async def typed(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a thread of this process, see `typed`; on another host, as a process."""
        if self.host is not None:
            return await self.grain(*words)
        type_it = partial(typed, _patient(words), self.folder, self.environ)
        return await trio.to_thread.run_sync(type_it)

    async def state(self) -> Any:
        """Return the answer of `grain ls --json`."""
        done = await self.grain("ls", "--json")
        assert 0 == done.returncode, done.stderr
        return json.loads(done.stdout)

    async def until(self, what: Callable[[Any], object]) -> Any:
        """Ask the scheduler until it is so, and return its state as `grain ls --json` has it.

        That costs next to nothing, while each `grain ls` is a process to start. On another host
        there is no way but that.
        """
        if self.host is not None:
            return await self.until_listed(what)
        address = load(self.folder / "grain.toml", env=self.environ).worker.dial
        lost = (EdgeError, trio.BrokenResourceError, trio.EndOfChannel)
        while True:
            with suppress(*lost):
                async with dial(address, role="cli", codec=CODEC, patience=2) as peer:
                    while True:
                        await peer.channel.send([(Ask("state"), None)])
                        [(_, answer)] = await peer.channel.receive()
                        state = state_data(unpack(answer, StateAnswer))
                        if what(state):
                            return state
                        await trio.sleep(0.05)

    async def until_listed(self, what: Callable[[Any], object]) -> Any:
        """Type `grain ls` until it is so, and return what it lists: with the jobs."""
        while True:
            done = await self.typed("ls", "--json", "--patience", "2")
            if not done.returncode and what(state := json.loads(done.stdout)):
                return state
            await trio.sleep(0.1)

    def scale(self, *words: str, proven: float = 60.0) -> Process:
        """Type `grain scale` in a hurry: it goes on until a signal ends it."""
        words = ("-c", SCALE.format(proven=proven), "scale", *words)
        return self._started(*words, stdout=subprocess.DEVNULL)

    @contextmanager
    def script(self, *words: str) -> Iterator[Process]:
        """Run a script of the directory, or another command of Python, as a user would."""
        process = self._started(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    @contextmanager
    def gnaw(self, grace: float = 20) -> Iterator[Process]:
        """Run a scheduler, which serves when the block begins.

        A mission that finds none starts one of its own, which is more patient with whom it has
        lost, and outlives the test.
        """
        words = ("--address", self.address, "--grace", str(grace))
        with running("grain.head", *words, host=self.host) as process:
            if self.address.startswith("edge://"):
                until(Path(self.address.removeprefix("edge://")).exists)
            yield process

    def worker(self, name: str, **res: object) -> Any:
        words = ("--url", self.address, "--res", json.dumps(res), "--name", name)
        return running("grain.worker", *words, host=self.host)

    def _started(self, *words: str, **streams: Any) -> Process:
        if self.host is None:
            return start(*words, cwd=self.folder, env=self.environ, **streams)
        return subprocess.Popen(self.command(*words), cwd=self.folder, env=self.environ, **streams)
