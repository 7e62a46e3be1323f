"""The pool: workers that Gnaw keeps alive by `grain scale`, where grain-cli is installed.

Submitting jobs is the business of grain-cli, which this package starts as a child and does not
import.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from pathlib import Path
from typing import Literal

import trio

from grain.eventlog.names import home_folder
from grain.files.trust import python_command
from grain.worker.logs import STANDARD_ERROR

AGAIN = 60.0
"""Seconds until `grain scale` is started again after it has ended by itself."""

PATIENCE = 30.0
"""Seconds that the child has for a submission under way when this process leaves."""

PoolSize = int | Literal["auto"]
"""The number of workers to keep alive; ``"auto"`` for as many as the tasks need."""

_log = logging.getLogger("grain.head")


def pool_size(text: str) -> PoolSize:
    """Return the size of a pool that a command line names.

    Raises:
        ValueError: it is none.
    """
    return "auto" if text == "auto" else int(text)


def command(size: PoolSize, config: str, parent: int) -> list[str]:
    """Return the command line of a child that ends with its parent, however that ends."""
    chosen = ["-c", config] if config else []
    return [
        *(*python_command("grain.cli"), *chosen),
        *("scale", "--auto" if size == "auto" else str(size), "--parent", str(parent)),
    ]


def _folder(config: str) -> Path:
    """Return the directory for relative outputs of workers."""
    return Path(config).parent if config else home_folder()


async def keep_pool(size: PoolSize, config: str) -> None:
    """Keep workers alive until cancelled; then the child ends, and its jobs stay.

    Args:
        config: the configuration file; empty for the defaults. Relative outputs of workers go to
            its directory.
    """
    if importlib.util.find_spec("grain.cli") is None:
        _log.warning("no workers are submitted: head.gnaw.pool needs grain-cli, pip install it")
        return
    words = command(size, config, os.getpid())
    while True:
        _log.info("keeping %s workers: %s", size, " ".join(words))
        # Its output goes where our own errors go.
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
    """End the child, after it has recorded what it submits: a job without a record is lost."""
    child.terminate()
    await trio.sleep(PATIENCE)
    child.kill()


async def withdraw_pool(size: PoolSize, config: str) -> None:
    """Cancel the jobs that `keep_pool`, which has ended, submitted and that still wait.

    Takes half a minute at most. The log says so if jobs are left.
    """
    if importlib.util.find_spec("grain.cli") is None:
        return
    words = [*command(size, config, os.getpid()), "--withdraw"]
    with trio.move_on_after(PATIENCE) as limit:
        done = await trio.run_process(
            words, check=False, cwd=_folder(config), stdin=b"", stdout=STANDARD_ERROR
        )
    if limit.cancelled_caught or done.returncode:
        _log.warning("jobs that wait may be left: see `grain ls`, `grain drain` cancels them")
