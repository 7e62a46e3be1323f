"""Results on filesystems that are really full or read-only: small ones, mounted for the test."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a filesystem needs root")

PROGRAM = """
import sys
from grain.delayed import delayed, run
from grain.resource import Cores

@delayed(cache_hfn="args")
async def block(i):
    print("computing", i, flush=True)
    return bytes([i]) * 30_000

async def main():
    for i in range(30):
        assert await (block @ Cores(1))(i) == bytes([i]) * 30_000

run(main, Cores(2), config_file=False, progress=False, cache="disk/results")
"""


def on_a_small_disk(here: Path, steps: str) -> tuple[str, str]:
    """Run shell commands where ``disk`` has 400 kB; ``mission`` is the program."""
    (here / "disk").mkdir()
    (here / "program.py").write_text(PROGRAM)
    script = (
        "set -e; mount -t tmpfs -o size=400k,mode=700 none disk\n"
        f'mission() {{ "{sys.executable}" program.py; }}\n' + steps
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], cwd=here, timeout=120, text=True,
        capture_output=True,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout, done.stderr


def test_a_full_disk_keeps_what_fitted_and_warns_once(tmp_path: Path) -> None:
    """Stored results are read, the rest is computed; one warning each time, no partial file."""
    out, err = on_a_small_disk(
        tmp_path,
        "mission; echo again; mission; ls disk/results/grain-tmp\n"
        # With room again, results are kept again.
        "mount -o remount,size=4m disk; mission; echo at last; mission",
    )

    first, rest = out.split("again\n")
    second, last = rest.split("at last\n")
    missing = second.splitlines()
    kept = 30 - len(missing) // 2
    assert 30 == len(first.splitlines())
    assert 5 < kept < 15
    assert missing[: 30 - kept] == missing[30 - kept :] == first.splitlines()[kept:]
    assert not last
    assert 2 == err.count("warning: results cannot be kept in")
    assert 2 == err.count("No space left on device. This mission goes on")


def test_full_from_the_beginning(tmp_path: Path) -> None:
    """A directory that was there is read from, even if nothing can be added."""
    out, err = on_a_small_disk(
        tmp_path,
        "mission >/dev/null 2>&1\ncat /dev/zero >disk/filler 2>/dev/null || true\nmission",
    )

    assert 15 < len(out.splitlines()) < 25
    assert 1 == err.count("warning")


def test_a_read_only_cache_is_used_with_one_warning(tmp_path: Path) -> None:
    """Results are found, others computed, one warning; old leftovers are not a reason to stop."""
    out, err = on_a_small_disk(
        tmp_path,
        "mission >/dev/null 2>&1\n"
        "touch -d '3 days ago' disk/results/grain-tmp/node-1-0123456789ab\n"
        "mount -o remount,ro disk; mission",
    )

    assert 15 < len(out.splitlines()) < 25
    assert 1 == err.count("warning")
    assert "Read-only file system. This mission goes on" in err
