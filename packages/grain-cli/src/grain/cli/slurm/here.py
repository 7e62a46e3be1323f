"""The process that gives a command, and the answer to it."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, NamedTuple

from grain.files.processes import user_name

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = "22.05.8"
"""The version of Slurm whose answers these are."""

NO_TERMINAL = "no terminal reaches a worker: use `srun COMMAND`, which waits and shows the output"


class SlurmAnswer(NamedTuple):
    """The answer of a command.

    Attributes:
        out: for standard output.
        err: for standard error.
        status: the exit status.
    """

    out: str = ""
    err: str = ""
    status: int = 0


class CommandFailed(Exception):
    """A command that fails; the text is for standard error.

    Attributes:
        status: the exit status.
    """

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


class Here(NamedTuple):
    """The process that gives a command.

    Attributes:
        command: the name of the command.
        commands: the directory of the commands; "" if it is not known.
        environment: its variables.
    """

    command: str
    commands: str = ""
    environment: Mapping[str, str] = os.environ

    @property
    def user(self) -> str:
        """The name of the user."""
        return user_name(os.getuid())

    @property
    def host(self) -> str:
        """The name of the machine."""
        from _socket import gethostname  # that of the module socket, which takes its time

        return gethostname()

    @property
    def by(self) -> str:
        """The user who gives the command, and the host."""
        return f"{self.user} on {self.host}"


def user_named(word: str) -> str:
    """Return the name of a user who is meant by a name or a number; "" if there is none."""
    if word.isdecimal():
        return user_name(int(word))
    try:
        return pwd.getpwnam(word).pw_name
    except KeyError:
        return ""
