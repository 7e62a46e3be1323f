"""A small filesystem, which a test can fill. Needs root."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """Mount a filesystem of a size, as "3m"; unmount it in the end, whoever still uses it."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", str(folder)]
    subprocess.run(mount, check=True)
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
