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

PATIENCE = 30.0
"""Seconds that a batch system has for what is under way when this process leaves."""

_log = logging.getLogger("grain.head")


def command(size: int, config: str, parent: int) -> list[str]:
    """The child's command line. It ends when its parent is gone, whatever that died of."""
    chosen = ["-c", config] if config else []
    return [
        *(sys.executable, "-m", "grain.cli", *chosen),
        *("scale", str(size), "--parent", str(parent)),
    ]


def _folder(config: str) -> Path:
    """Where relative outputs of workers go."""
    return Path(config).parent if config else Path.home()


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
    while True:
        _log.info("keeping %d workers: %s", size, " ".join(words))
        # What it says goes to where our own errors go.
        done = await trio.run_process(
            words,
            check=False,
            cwd=_folder(config),
            stdin=b"",
            stdout=STANDARD_ERROR,
            deliver_cancel=_end,
        )
        _log.warning("grain scale has ended with exit code %d", done.returncode)
        await trio.sleep(AGAIN)


async def _end(child: trio.Process) -> None:
    """Let it record what it submits at this moment: a job that is not recorded is nobody's."""
    child.terminate()
    await trio.sleep(PATIENCE)
    child.kill()


async def withdraw_swarm(size: int, config: str) -> None:
    """Have those jobs cancelled which `keep_swarm` submitted and which still wait.

    Takes half a minute at most. What cannot be cancelled is told in the log.

    Args:
        size: as for `keep_swarm`, which must have ended.
        config: as for `keep_swarm`.
    """
    if importlib.util.find_spec("grain.cli") is None:
        return
    words = [*command(size, config, os.getpid()), "--withdraw"]
    with trio.move_on_after(PATIENCE) as limit:
        done = await trio.run_process(
            words, check=False, cwd=_folder(config), stdin=b"", stdout=STANDARD_ERROR
        )
    if limit.cancelled_caught or done.returncode:
        _log.warning("jobs that wait may be left: see `grain ls`, `grain quit` cancels them")
