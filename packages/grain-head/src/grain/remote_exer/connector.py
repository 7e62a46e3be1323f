"""The way to the scheduler that missions share: found, or started where there is none."""

from __future__ import annotations

import logging
import os
import random
import socket
import subprocess
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from grain.edge import (
    DEFAULT,
    FROZEN,
    SEEK_FIRST,
    DirectWaySeeker,
    dial,
    head_here,
    is_reached_directly,
    prepare,
    stopped_words,
    without_key,
)
from grain.edge.errors import CannotServe, DialError, FilesystemFailed, FilesystemReadOnly
from grain.files.trust import make_folder, python_command
from grain.head.errors import Unreachable
from grain.head.service import CODEC
from grain.worker.logs import open_private

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from grain.edge.channel import WireChannel

_log = logging.getLogger("grain.remote_exer")

_LOOK = 1.0  # seconds to look for a scheduler before one is started
_START = 30.0  # seconds for a scheduler that was started
_HERE = 3.0  # seconds more if its process is on this host
_SECOND_LOOK = 5.0  # seconds in which a successor sees for itself that a frozen one does not answer


class GnawConnector:
    """The connector to Gnaw, the scheduler that missions share, which it starts if need be.

    Two missions that start one at the same time end up with the same: the second scheduler cannot
    have the address, and leaves.

    Args:
        address: where the scheduler is met.
        log_file: where a scheduler that is started here logs; empty for nowhere.
        arguments: further arguments for ``python -m grain.head``.
        start: whether a scheduler may be started.
        frozen: seconds without an answer of a scheduler whose process is there, on this host,
            before another one is started to take its place.
        seek: seconds until the first look for a direct way, over files or a relay.
    """

    def __init__(
        self,
        address: str = DEFAULT,
        *,
        name: str = "",
        log_file: str = "",
        arguments: Sequence[str] = (),
        start: bool = True,
        frozen: float = FROZEN,
        seek: float = SEEK_FIRST,
    ) -> None:
        self.address = address
        self._name = name or socket.gethostname()
        # A scheduler that is started runs in another directory.
        self._log_file = str(Path(log_file).absolute()) if log_file else ""
        self._arguments = tuple(arguments)
        self._start = start
        # True once a scheduler was reached: from then on another process may start its successor.
        self._reached = False
        self._frozen = frozen
        self._direct = DirectWaySeeker(partial(is_reached_directly, address), seek)
        # The transport of the last connection.
        self._transport = ""
        # Since when a scheduler of this host has answered nothing, as far as was seen.
        self._silent_since: float | None = None

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
        while True:
            try:
                async with dial(
                    self.address,
                    role="mission",
                    name=self._name,
                    codec=CODEC,
                    patience=patience,
                    identity=mission,
                    # The first one is started at once. Later, another process may be about to.
                    coming=self._reached or not self._start or patience == _START,
                ) as peer:
                    connected = self._reached = True
                    self._transport = peer.transport
                    self._silent_since = None
                    try:
                        yield peer.channel
                    finally:
                        silent = peer.channel.silent_for()
                        if silent >= peer.channel.suspect_after:
                            self._silent_since = trio.current_time() - silent
                return  # noqa: TRY300 - else would run after an exception of the block, too
            except DialError as error:
                if connected:
                    raise
                if await self._may_answer():
                    continue
                if not self._start or patience == _START:
                    raise Unreachable(f"no scheduler at {self.address}: {error}") from error
            # Missions that begin together do not all start one at the same moment.
            await trio.sleep(random.uniform(0, 0.2))  # noqa: S311
            await self._check_address()
            frozen = self._silent_since is not None
            await self.start(*[f"--frozen={min(_SECOND_LOOK, self._frozen)}"] if frozen else [])
            patience = _START

    async def until_direct(self) -> None:
        """Wait until the next connection is better than this one, over files or a relay.

        Without end where none becomes better.
        """
        await self._direct.until_direct(self._transport)

    async def _may_answer(self) -> bool:
        """Judge a scheduler that was not reached, by its process if that is on this host.

        Returns:
            True if it may answer within moments; False if there is none, or if it has been silent
            for so long that another one is to take its place.

        Raises:
            Unreachable: it is stopped, or has not answered for a while, and is waited for.
        """
        here = await head_here(self.address)
        if here is None:
            self._silent_since = None
            return False
        host, process = here
        now = trio.current_time()
        if self._silent_since is None:
            self._silent_since = now
        silent = now - self._silent_since
        replaceable = self._start and not self.address.startswith("tcp:")  # where it has the port
        if replaceable and silent >= self._frozen:
            return False
        then = f". Another one takes its place after {self._frozen:g} s"
        if not replaceable:
            then = f", and `kill -KILL {process.pid}` ends it"
        if process.stopped:
            raise Unreachable(f"the scheduler {stopped_words(process.pid, host)}{then}")
        if silent < _HERE:
            return True
        raise Unreachable(
            f"the scheduler (process {process.pid} on {host}) is there and has not answered for "
            f"{silent:.0f} s{then}"
        )

    async def _check_address(self) -> None:
        """Raise if a scheduler that is started here could not be met at the address.

        It would leave at once, and say so in nothing but its log. But once there was a scheduler,
        another mission may start the next: then waiting may help.
        """
        try:
            await prepare(self.address)
        except (CannotServe, FilesystemReadOnly, FilesystemFailed) as error:
            if not self._reached:
                error.final = True
                raise
            raise Unreachable(str(error)) from error

    async def start(self, *more: str) -> None:
        """Start a scheduler in the background, where it outlives this process."""
        # In an argument list every user could read the key of a bridge.
        address = without_key(self.address)
        words = [*python_command("grain.head"), "--address", address, *more]
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
            # Its own session: no signal of our terminal or of our job reaches it. This process does
            # not wait for it: it outlives us, or leaves at once because another one serves.
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
