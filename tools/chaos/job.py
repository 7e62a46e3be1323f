"""The external program of a task: it enters its start and end in the books, and leaves daemons.

Usage: job.py BOOKS MISSION TASK WORKER CORES SECONDS DAEMONS STUBBORN EXIT_CODE [GANG]

With the workers of a GANG, separated by commas, it is the program of one of these.
As a job of the queue it has the number of that in place of TASK, from its environment.
It prints the name of the run and the result, and needs nothing but the standard library: it starts
as ``python -I -S``, which takes some 15 ms.
"""

from __future__ import annotations

import os
import signal
import sys
import time

sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100 - pathlib takes 10 ms

from tools.chaos.books import QUEUE, Book, expected

DAEMON = "grain-chaos-daemon"
"""The first word of a daemon's command line, with the directory of the books behind a colon."""


def leave_daemon(folder: str) -> None:
    """Start a process in a session of its own, without a parent, and with an empty environment.

    It holds the locks of the run. Only the tree of processes leads from the run to it.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execve("/bin/sleep", [f"{DAEMON}:{folder}", "3600"], {})


def main(words: list[str]) -> int:
    """Run the program; return its exit code."""
    folder, mission, task, worker, cores, seconds, daemons, stubborn, code, *gang = words
    if stubborn == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its daemons inherit it
    book = Book(folder)
    ids = [int(core) for core in cores.split(",") if core]
    attempt = 0
    if mission == QUEUE:
        task, attempt = os.environ["GRAIN_JOB_ID"], int(os.environ["GRAIN_ATTEMPT"])
    run, _ = book.begin(
        *(mission, int(task), worker, ids), attempt=attempt, gang="".join(gang), member=bool(gang)
    )
    for _ in range(int(daemons)):
        leave_daemon(folder)
    time.sleep(float(seconds))
    book.append("end", mission, int(task), run=run)
    print(run, expected(mission, int(task)))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
