"""For tests: a small fake for as long as a ``with`` block lasts."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from fake_batch.start import LONG, Batch, Missing, until, write_command

from fake_small.jobs import HERE
from fake_small.shepherd import marked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def small(system: str, folder: Path) -> Iterator[Batch]:
    """A small fake; its commands stand in ``folder/bin/SYSTEM``.

    Args:
        system: the name of a module beside this one.
        folder: For its state; made.
    """
    commands = folder / "bin" / system
    commands.mkdir(parents=True)
    for name in importlib.import_module(f"fake_small.{system}").COMMANDS:
        write_command(commands / name, HERE / "fake_small/client.py", system)
    jobs = folder / "jobs"
    jobs.mkdir()
    search = os.pathsep.join([str(commands), os.environ.get("PATH", os.defpath)])
    try:
        yield Batch(system, {**os.environ, "PATH": search, "FAKE_SMALL": str(jobs)})
    finally:
        (jobs / "stop").touch()
        until(lambda: not any(marked(one) for one in jobs.iterdir() if one.is_dir()))


@contextlib.contextmanager
def real_grid_engine(*options: str) -> Iterator[tuple[Batch, list[str]]]:
    """A real Grid Engine on a host of its own, and the words that run a command there.

    Raises:
        Missing: There is none.
    """
    tool = HERE.parent / "tools/real_grid_engine.py"
    pipe = subprocess.PIPE
    words = [sys.executable, str(tool), *options]
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise Missing(process.stderr.read().strip())
            there = json.loads(line)
            path = os.pathsep.join([there["path"], os.environ.get("PATH", os.defpath)])
            yield Batch("sge", {**os.environ, "PATH": path}), there["enter"]
        finally:
            process.stdin.close()
            process.wait(LONG)
