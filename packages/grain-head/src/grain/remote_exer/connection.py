"""The mission's connection to its scheduler: kept up, and found again when it is lost."""

from __future__ import annotations

import logging
import random
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from grain.edge import DEFAULT, dial, prepare
from grain.edge.errors import DialError, FilesystemFailed, FilesystemReadOnly
from grain.head.errors import Unreachable
from grain.head.service import CODEC

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from grain.edge.channel import Channel

_log = logging.getLogger("grain.remote_exer")

_LOOK = 1.0  # seconds to look for a scheduler before one is started
_START = 30.0  # seconds for one that was started


class Gnaw:
    """The scheduler that missions share: finds it, and starts it where there is none.

    Two missions that start it at once end up with one: the second one cannot have the address,
    and leaves.

    Args:
        address: where it is met.
        name: the mission's name.
        log_file: where it logs if it has to be started; empty for nowhere.
        arguments: further arguments for ``python -m grain.head``.
        start: whether it may be started.
    """

    def __init__(
        self,
        address: str = DEFAULT,
        *,
        name: str = "",
        log_file: str = "",
        arguments: Sequence[str] = (),
        start: bool = True,
    ) -> None:
        self.address = address
        self._name = name or socket.gethostname()
        # A scheduler that is started runs in another directory.
        self._log_file = str(Path(log_file).absolute()) if log_file else ""
        self._arguments = tuple(arguments)
        self._start = start
        self._found = False

    @asynccontextmanager
    async def connect(self, mission: str = "") -> AsyncGenerator[Channel]:
        """Connect to it.

        Args:
            mission: the mission's id, by which it is known again after a loss.

        Raises:
            Unreachable: it cannot be reached, nor started.
            grain.edge.errors.EdgeError: something that waiting does not cure.
        """
        connected = False
        patience = _LOOK
        for _ in range(2):
            try:
                async with dial(
                    self.address,
                    role="mission",
                    name=self._name,
                    codec=CODEC,
                    patience=patience,
                    identity=mission,
                ) as peer:
                    connected = self._found = True
                    yield peer.channel
                return  # noqa: TRY300 - else would run after an exception of the block, too
            except DialError as error:
                if connected:
                    raise
                if not self._start or patience == _START:
                    raise Unreachable(f"no scheduler at {self.address}: {error}") from error
            await trio.sleep(random.uniform(0, 0.2))  # noqa: S311
            await self._see_that_it_can_be_met()
            await self.start()
            patience = _START

    async def _see_that_it_can_be_met(self) -> None:
        """One that is started here and cannot write would leave at once, and tell only its log.

        Once there was one, somebody else may start the next.
        """
        try:
            await prepare(self.address)
        except (FilesystemReadOnly, FilesystemFailed) as error:
            if not self._found:
                error.final = True
                raise
            raise Unreachable(str(error)) from error

    async def start(self) -> None:
        """Start one in the background, where it outlives this process."""
        words = [sys.executable, "-m", "grain.head", "--address", self.address]
        if self._log_file:
            words += ["--log-file", self._log_file]
        _log.info("starting a scheduler at %s", self.address)
        await trio.to_thread.run_sync(self._spawn, [*words, *self._arguments])

    def _spawn(self, words: list[str]) -> None:
        errors: int | object = subprocess.DEVNULL
        if self._log_file:
            path = Path(self._log_file)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                errors = path.open("ab")
            except OSError as error:
                # No reason for a mission to fail. Nobody has set up a log: this is seen.
                _log.warning("the scheduler goes without a log: %s", error)
        try:
            # Its own session: no signal of our terminal or of our job reaches it. The process is
            # not waited for: it outlives us, or leaves at once because another one serves.
            process = subprocess.Popen(  # noqa: S603 - our own interpreter
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,  # type: ignore[arg-type]
                start_new_session=True,
                cwd="/",
            )
            process.returncode = 0  # or Python would warn that it still runs
        finally:
            if not isinstance(errors, int):
                errors.close()  # type: ignore[attr-defined]
