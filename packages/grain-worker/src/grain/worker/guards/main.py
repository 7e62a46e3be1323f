"""The script that a shepherd runs: ``python -I -S main.py FD``, FD being a connected socket."""

# ruff: noqa: PTH120
# (no pathlib here; see the package)

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grain.worker.guards.fork_server import Shepherd
else:
    # -I leaves the script's directory out. Last, so that nothing of the library is hidden.
    sys.path.append(os.path.dirname(__file__))
    from fork_server import Shepherd


def main() -> None:
    """Be the shepherd."""
    fd = int(sys.argv[1])
    for name in os.listdir("/proc/self/fd"):
        # Descriptors which the caller inherited itself, and that are not marked close-on-exec.
        if int(name) > 2 and int(name) != fd:
            os.closerange(int(name), int(name) + 1)  # silent about the listing's own
    os.set_inheritable(fd, False)
    os.chdir("/")
    shepherd = Shepherd(fd)
    gc.collect()
    gc.freeze()  # a collection would write to, and so copy, every page of every keeper
    shepherd.serve()


if __name__ == "__main__":
    main()
