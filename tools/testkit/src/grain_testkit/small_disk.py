"""A small filesystem, which a test can fill."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """Mount a filesystem of a size, as "3m"; unmount it in the end, even if it is still in use.

    The test is skipped where nothing can be mounted: without root, and in most containers.
    """
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    words = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", str(folder)]
    mount = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
    if mount.returncode:
        folder.rmdir()
        pytest.skip(f"needs a filesystem of its own: {mount.stderr.partition(chr(10))[0]}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


def fill(folder: Path) -> Path:
    """Leave no room; return the file that takes it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            return filler
