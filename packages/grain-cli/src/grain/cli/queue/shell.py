"""The shell in which a user submits jobs: its variables, umask and limits, which jobs get."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

LIMITS = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")
"""The limits that go along with a job, as those of ``--propagate`` in sbatch(1)."""


def variables() -> dict[str, str]:
    """Return the variables of the shell: those of this process, without what Python adds.

    In the C locale Python sets LC_CTYPE for itself and its children (PEP 538).
    """
    own = dict(os.environ)
    if own.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        with suppress(OSError):
            lines = Path("/proc/self/environ").read_bytes().split(b"\0")
            began = dict(line.split(b"=", 1) for line in lines if b"=" in line)
            own.pop("LC_CTYPE")
            if b"LC_CTYPE" in began:
                own["LC_CTYPE"] = os.fsdecode(began[b"LC_CTYPE"])
    return own


def umask() -> int:
    """Return the umask; for a moment another one holds, in all threads."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def soft_limits() -> dict[str, int]:
    """Return the soft limits by their names, as ``NOFILE``; -1 for no limit."""
    return {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in LIMITS}
