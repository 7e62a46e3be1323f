"""Workers that Gnaw keeps alive: `grain scale` as a child, where grain-cli is installed.

Submitting jobs is the business of grain-cli, of which this package knows nothing but its command
line.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from pathlib import Path

import trio

from grain.worker.logs import STANDARD_ERROR

AGAIN = 60.0
"""Seconds until `grain scale` is started again after it has ended by itself."""

_log = logging.getLogger("grain.head")


def command(size: int, config: str, parent: int) -> list[str]:
    """The child's command line. It ends when its parent is gone, whatever that died of."""
    chosen = ["-c", config] if config else []
    return [
        *(sys.executable, "-m", "grain.cli", *chosen),
        *("scale", str(size), "--parent", str(parent)),
    ]


async def keep_swarm(size: int, config: str) -> None:
    """Have workers kept alive, until cancelled; then the child ends, and its jobs stay.

    Args:
        size: how many.
        config: the configuration file; empty for the defaults. Relative outputs of workers go to
            its directory.
    """
    if importlib.util.find_spec("grain.cli") is None:
        _log.warning("no workers are submitted: head.gnaw.swarm needs grain-cli, pip install it")
        return
    words = command(size, config, os.getpid())
    folder = Path(config).parent if config else Path.home()
    while True:
        _log.info("keeping %d workers: %s", size, " ".join(words))
        # What it says goes to where our own errors go.
        done = await trio.run_process(
            words, check=False, cwd=folder, stdin=b"", stdout=STANDARD_ERROR
        )
        _log.warning("grain scale has ended with exit code %d", done.returncode)
        await trio.sleep(AGAIN)
