"""A stand-in for NFS: FUSE views of a directory that keep stale entries of names.

As an NFS client does, a view goes on believing for some seconds that a name is missing or that a
file has a size. Needs root (or the right to mount with FUSE) and the program `bindfs`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def why_not() -> str:
    """Return what is missing on this machine, or an empty text."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not Path("/dev/fuse").exists():
        return "no /dev/fuse"
    return "" if shutil.which("bindfs") else "bindfs is not installed"


@contextmanager
def stale_view(source: Path, view: Path, seconds: float = 5.0) -> Iterator[Path]:
    """Mount a view, yield it, and unmount it at the end.

    Args:
        source: the real directory.
        view: where to mount; made and removed.
        seconds: for how long names and attributes are believed.
    """
    view.mkdir(parents=True)
    options = ",".join(f"{name}_timeout={seconds}" for name in ("attr", "entry", "negative"))
    command = ["bindfs", "-f", "-o", options, str(source), str(view)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as mount:
        try:
            end = time.monotonic() + 60
            while not os.path.ismount(view):
                if mount.poll() is not None or time.monotonic() > end:
                    assert mount.stderr is not None
                    raise RuntimeError(f"bindfs: {mount.stderr.read().decode()}")
                time.sleep(0.02)
            yield view
        finally:
            if subprocess.run(["umount", str(view)], check=False).returncode:
                subprocess.run(["umount", "-l", str(view)], check=False)
            mount.terminate()
    view.rmdir()
