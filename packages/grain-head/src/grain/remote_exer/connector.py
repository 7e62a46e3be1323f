"""The way to the scheduler that missions share: found, or started where there is none."""

from __future__ import annotations

import logging
import os
import random
import socket
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from grain.edge import DEFAULT, dial, prepare
from grain.edge.errors import CannotServe, DialError, FilesystemFailed, FilesystemReadOnly
from grain.edge.trust import make_folder, python_command
from grain.head.errors import Unreachable
from grain.head.service import CODEC
from grain.worker.logs import open_private

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from grain.edge.channel import WireChannel

_log = logging.getLogger("grain.remote_exer")

_LOOK = 1.0  # seconds to look for a scheduler before one is started
_START = 30.0  # seconds for one that was started


class GnawConnector:
    """The connector to Gnaw, the scheduler that missions share, which it starts if need be.

    Two missions that start one at the same time end up with the same: the second scheduler cannot
    have the address, and leaves.

    Args:
        address: where the scheduler is met.
        name: the mission's name.
        log_file: where a scheduler that is started here logs; empty for nowhere.
        arguments: further arguments for ``python -m grain.head``.
        start: whether a scheduler may be started.
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
        # True once a scheduler was reached: from then on another process may start its successor.
        self._reached = False

    @asynccontextmanager
    async def connect(self, mission: str = "") -> AsyncGenerator[WireChannel]:
        """Open a channel to the scheduler, which is closed at the end of the block.

        Args:
            mission: the mission's id, by which the scheduler recognises it after a loss.

        Raises:
            Unreachable: the scheduler cannot be reached, nor started; trying again may help.
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
                    connected = self._reached = True
                    yield peer.channel
                return  # noqa: TRY300 - else would run after an exception of the block, too
            except DialError as error:
                if connected:
                    raise
                if not self._start or patience == _START:
                    raise Unreachable(f"no scheduler at {self.address}: {error}") from error
            # Missions that begin together do not all start one at the same moment.
            await trio.sleep(random.uniform(0, 0.2))  # noqa: S311
            await self._check_address()
            await self.start()
            patience = _START

    async def _check_address(self) -> None:
        """Raise if a scheduler that is started here could not be met at the address.

        It would leave at once, and say so in nothing but its log. But once there was a scheduler,
        somebody else may start the next: then waiting may help.
        """
        try:
            await prepare(self.address)
        except (CannotServe, FilesystemReadOnly, FilesystemFailed) as error:
            if not self._reached:
                error.final = True
                raise
            raise Unreachable(str(error)) from error

    async def start(self) -> None:
        """Start a scheduler in the background, where it outlives this process."""
        words = [*python_command("grain.head"), "--address", self.address]
        if self._log_file:
            words += ["--log-file", self._log_file]
        _log.info("starting a scheduler at %s", self.address)
        await trio.to_thread.run_sync(self._spawn, [*words, *self._arguments])

    def _spawn(self, words: list[str]) -> None:
        errors = subprocess.DEVNULL
        if self._log_file:
            path = Path(self._log_file)
            try:
                make_folder(path.parent)
                errors = open_private(self._log_file)
            except OSError as error:
                # No reason for a mission to fail. A warning is seen without any set-up of logging.
                _log.warning("the scheduler goes without a log: %s", error)
        try:
            # Its own session: no signal of our terminal or of our job reaches it. Nobody waits for
            # the process: it outlives us, or leaves at once because another one serves.
            process = subprocess.Popen(  # noqa: S603 - our own interpreter
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                cwd="/",
            )
            process.returncode = 0  # or Python would warn that it still runs
        finally:
            if errors != subprocess.DEVNULL:
                os.close(errors)
