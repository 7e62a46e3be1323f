"""What the operating system should know of a worker's processes."""

from __future__ import annotations

import resource
from pathlib import Path

FILES = 65536
"""Open files that are enough: three for each program that runs, and a few.

Not the hard limit, which may be a billion: older programs close every descriptor below the limit
when they start, one by one.
"""


def raise_open_files(most: int = FILES) -> int:
    """Raise the soft limit of open files towards the hard one, for children too; what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def prefer_to_be_killed(by: int = 300) -> None:
    """Have the kernel prefer this process, and its children to come, when memory runs out.

    proc(5), oom_score_adj: a thousandth of the memory counts as one, so this is as if the process
    had 30 % of the machine's memory more. The agent, which has to tell what happened, remains.
    """
    path = Path("/proc/self/oom_score_adj")
    try:
        path.write_text(str(min(1000, int(path.read_text()) + by)))
    except (OSError, ValueError):
        pass  # a kernel or a container without it
