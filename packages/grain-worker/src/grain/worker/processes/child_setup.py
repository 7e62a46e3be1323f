"""The first steps of every process of Grain's own below a subreaper: a runner, a pool's process."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
from typing import TYPE_CHECKING

from grain.worker.guards.proc import PR_SET_NAME, PR_SET_PDEATHSIG, ignore_warnings, prctl
from grain.worker.node.forks import DefaultInChildren
from grain.worker.node.limits import prefer_to_be_killed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import FrameType

SOCKET = 3
"""The descriptor of the socket that leads to the parent; `grain.worker.guards.subreaper` sets it.
"""


def set_up_child(
    name: bytes,
    caught: Collection[signal.Signals],
    on_caught: Callable[[int, FrameType | None], None] | None = None,
) -> socket.socket:
    """Set up this process, and return the socket that leads to its parent.

    The process ends with its subreaper, is the kernel's choice when memory runs out, and prints
    Python's stack after a segmentation fault.

    Args:
        name: the name that ``ps -A`` shows, of 15 bytes at most.
        caught: signals that must have no effect: a terminal and a batch system signal every
            process, but to drain or to end is the parent's decision. They are caught, not ignored,
            as programs that are started from here would inherit an ignored signal; so they do with
            SIGUSR1 and SIGUSR2, which this process ignores. They end a child that user code forks
            here, as multiprocessing does.
        on_caught: the handler of these signals; by default it does nothing.

    Raises:
        OSError: there is no such descriptor; the module was run by hand.
    """
    os.set_inheritable(SOCKET, False)
    prctl(PR_SET_NAME, name)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    prefer_to_be_killed()
    faulthandler.enable()
    ignore_warnings()
    on_caught = on_caught or _nothing
    for number in caught:
        signal.signal(number, on_caught)
    DefaultInChildren(caught, lambda handler: handler is on_caught).register()
    return socket.socket(fileno=SOCKET)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass
