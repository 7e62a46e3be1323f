"""Environments of tools: each has its own, with the versions that its test names."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]

CACHE = "GRAIN_REAL_TOOLS"
"""The variable that names the directory of the environments."""

GRAIN = tuple(
    word for folder in sorted(ROOT.glob("packages/grain-*")) for word in ("-e", str(folder))
)
"""Requirements for a tool that imports Grain: this checkout."""


class NotInstalled(Exception):
    """A tool could not be installed; the text says why."""


def tool_environment(*requirements: str) -> Path:
    """Return the interpreter of an environment that has a tool, and make it if it is not there.

    It stays for the next run, in ``.nox/real-tools-cache`` or where ``$GRAIN_REAL_TOOLS`` says. One
    that was not finished is made again.

    Args:
        requirements: the tool with its version, as in ``submitit==1.5.4``, and what else it needs.

    Raises:
        NotInstalled: the package index is out of reach, has no such version, or the tool does not
            support this version of Python.
    """
    cache = Path(os.environ.get(CACHE) or ROOT / ".nox/real-tools-cache")
    version = "{}.{}".format(*sys.version_info)
    digest = hashlib.sha256(repr((sys.executable, requirements)).encode()).hexdigest()[:8]
    name = re.sub(r"[^\w.]+", "-", requirements[0])
    folder = cache / f"{name}-py{version}-{digest}"
    python, finished = folder / "bin/python", folder / "finished"
    cache.mkdir(parents=True, exist_ok=True)
    # Other test processes may want the same one.
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)
            uv = [sys.executable, "-m", "uv"]
            _run(requirements[0], *uv, "venv", "-q", "--python", sys.executable, str(folder))
            words = [*uv, "pip", "install", "-q", "--python", str(python), *requirements]
            _run(requirements[0], *words)
            finished.touch()
    return python


def _run(tool: str, *words: str) -> None:
    try:
        done = subprocess.run(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{tool} is not installed: uv took ten minutes") from None
    if done.returncode:
        raise NotInstalled(f"{tool} is not installed: {done.stdout.strip()}")
