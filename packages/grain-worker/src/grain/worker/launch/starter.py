"""``python -m grain.worker.launch.starter FILE INDEX``: become the worker on a node of a job.

The file has what the launcher of the batch system does not pass on: environment, directory and
arguments, as the launching process has written them.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import msgspec

from grain.files.trust import check_private, python_command
from grain.worker.launch.part import PART, NodePart
from grain.worker.launch.places import environment


class StartOrder(msgspec.Struct, frozen=True):
    """The content of the file.

    Attributes:
        argv: the arguments of each worker.
        slots: CPUs of the job on each node; 0 if the batch system's variables say.
        log: the file of the job's output; may be empty.
    """

    argv: list[str]
    cwd: str
    environment: dict[str, str]
    slots: list[int]
    invitation: bytes
    log: str


def main(file: str, index: str) -> NoReturn:
    """Become the worker of a node; end with status 1 if that is not possible."""
    # PBS and Grid Engine may send these to all processes of a job: before the worker can take them,
    # they would end it. It gets them from the launching process.
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    path = Path(file)
    try:
        check_private(path.parent)
        order = msgspec.json.decode(path.read_bytes(), type=StartOrder)
        os.chdir(order.cwd)
    except (OSError, msgspec.MsgspecError) as error:
        sys.exit(f"grain-worker: {file}: {error}")
    node = int(index)
    variables = environment(order.environment, os.environ, order.slots[node])
    variables[PART] = NodePart(order.invitation, order.log, node).text()
    command = [*python_command("grain.worker"), *order.argv]
    os.execve(command[0], command, variables)  # noqa: S606


if __name__ == "__main__":
    main(*sys.argv[1:])
