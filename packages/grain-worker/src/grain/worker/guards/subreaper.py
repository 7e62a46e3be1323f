"""The script of a warden: ``python -I -S warden.py CONTROL RUNNER GRACE PROGRAM [ARGUMENT ...]``.

It starts the program with the socket RUNNER as its descriptor 3, and minds it: when the program
has ended, when a message or the end of file comes on the socket CONTROL, and when the calling
process dies, it ends all that is left of what the program started. When nothing is left it says on
CONTROL how the program ended, and leaves.
"""

# ruff: noqa: PTH120
# (no pathlib here; see the package)

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grain.worker.guards.tree import Minder
else:
    # -I leaves the script's directory out. Last, so that nothing of the library is hidden.
    sys.path.append(os.path.dirname(__file__))
    from tree import Minder

CHANNEL = 3


def main() -> None:
    """Be the warden."""
    control, channel, grace = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    program = sys.argv[4:]
    for fd in (control, channel):
        os.set_inheritable(fd, False)
    try:
        caller: int | None = os.pidfd_open(os.getppid())
    except (AttributeError, OSError):
        caller = None  # before Linux 5.3 the socket alone has to tell
    warden = Minder(b"grain-warden", control, caller)
    began = time.monotonic()
    # A copy: dup2() onto itself would leave the close-on-exec flag set.
    copy = os.dup(channel)
    pid = os.posix_spawn(
        program[0],
        program,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, copy, CHANNEL)],
    )
    os.close(copy)
    os.close(channel)
    status, seconds, usage = warden.mind(pid, began, grace)
    warden.answer(("ended", status, seconds, *usage))


if __name__ == "__main__":
    main()
