"""Limits and preferences of a worker's processes at the operating system."""

from __future__ import annotations

import resource
from pathlib import Path

FILES = 65536
"""Open files that are enough for a worker: three for each program that runs, and a few.

Rejected: the hard limit, which may be a billion. Older programs close every descriptor below the
limit when they start, one by one.
"""


def raise_open_files(most: int = FILES) -> int:
    """Raise the soft limit of open files towards the hard one, for future children, too.

    Returns:
        The soft limit now.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def prefer_to_be_killed() -> None:
    """Have the kernel prefer this process, and its children to come, when memory runs out.

    Source: proc(5), oom_score_adj. A thousandth of the machine's memory counts as one, so the
    default is as if the process had 30 % of the memory more. The agent, which has to report what
    happened, survives.
    """
    path = Path("/proc/self/oom_score_adj")
    try:
        path.write_text(str(min(1000, int(path.read_text()) + 300)))
    except (OSError, ValueError):
        pass  # a kernel or a container without it
