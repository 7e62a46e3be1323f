"""The part of a worker that another process of its job has started: `NodePart`."""

from __future__ import annotations

import base64
import json
import logging
import os
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

import trio

from grain.edge.errors import EdgeError
from grain.edge.invitation import accept
from grain.edge.messages import Codec, Message

if TYPE_CHECKING:
    from collections.abc import MutableMapping

PART = "GRAIN_NODE"
"""The variable of a worker with its part, as JSON; the worker removes it, as it has a key."""

_PAUSE = 2.0
"""Seconds until a worker connects to the process in its job's script again."""

_log = logging.getLogger("grain.worker")


class SignalReceived(Message, frozen=True):
    """A report that the script of the job has got a signal, which is meant for all workers."""

    number: int


CODEC = Codec(SignalReceived)
"""The codec between launching process and workers."""


class NodePart(NamedTuple):
    """The data that a worker has from the process that started it.

    Attributes:
        invitation: to that process.
        log: the file of the job's output; empty for no file of its own.
        number: of its node in the job; None if srun says.
    """

    invitation: bytes
    log: str
    number: int | None = None

    def text(self) -> str:
        """Return it as the value of `PART`."""
        invitation = base64.b85encode(self.invitation).decode()
        return json.dumps({"invitation": invitation, "log": self.log, "number": self.number})

    @staticmethod
    def taken(environ: MutableMapping[str, str]) -> NodePart | None:
        """Take a part out of an environment; None if there is none.

        Raises:
            ValueError, KeyError: it is not one.
        """
        text = environ.pop(PART, None)
        if text is None:
            return None
        read = json.loads(text)
        number = read["number"]
        if number is None:
            number = int(environ["SLURM_PROCID"])
        return NodePart(base64.b85decode(read["invitation"]), read["log"], number)

    def log_file(self) -> str:
        """Return the file of this worker's output; empty if it goes where the job's goes.

        >>> NodePart(b"", "/home/me/w1.log", 2).log_file()
        '/home/me/w1.2.log'
        """
        path = PurePath(self.log)
        return str(path.with_name(f"{path.stem}.{self.number}{path.suffix}")) if self.log else ""

    def redirect(self) -> None:
        """Write all output of this process to its own file; where that is not possible, go on."""
        if not (name := self.log_file()):
            return
        try:
            fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            os.write(2, f"grain-worker: {name}: {error.strerror}\n".encode())
            return
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        os.close(fd)

    async def obey(self) -> None:
        """Pass on to this process the signals that the script of the job gets, until cancelled.

        A connection that does not come about, as on a host that is too busy, or that is lost, is
        tried again.
        """
        got, said = 0, ""
        while True:
            try:
                async with accept(self.invitation, CODEC) as visit:
                    # The launching process tells each connection all signals from the first.
                    known = got
                    while True:
                        for message, _ in await visit.channel.receive():
                            said = ""
                            assert isinstance(message, SignalReceived)
                            if known:
                                known -= 1
                                continue
                            got += 1
                            os.kill(os.getpid(), message.number)
            except (EdgeError, trio.EndOfChannel, trio.BrokenResourceError) as error:
                # Those that the batch system sends to this process itself still come.
                why = str(error) or "it has ended, or the connection is lost"
                if why != said:
                    _log.info("no signals come from the script of the job at present: %s", why)
                    said = why
            await trio.sleep(_PAUSE)


def worker_name(name: str, part: NodePart) -> str:
    """Return the name of a worker on one of several nodes.

    >>> worker_name("w1", NodePart(b"", "", 2))
    'w1.2'
    """
    return f"{name or 'worker'}.{part.number}"
