"""Batch systems for the tests of this folder, and a worker that only tells what it is told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from fake_batch.start import Batch, Missing, fake, real

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Tells its arguments and every signal, and ends upon SIGTERM or when a file appears.
WORKER = """\
#!/bin/bash
echo "worker: $*"
trap 'echo "worker: USR1"' USR1
trap 'echo "worker: TERM"; exit 3' TERM
for _ in $(seq 1200); do
    [ -e "$GRAIN_TEST_STOP" ] && exit 0
    sleep 0.05 &
    wait $!
done
"""


@pytest.fixture(scope="module", params=["fake", "real"])
def slurm(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Batch]:
    """A fake Slurm, and where it can be had, a real one: three nodes of 4 cores and 4000 MiB."""
    if request.param == "fake":
        # Its delays are a tenth of the usual; of KillWait there are 2 s, as in the real one's.
        folder = tmp_path_factory.mktemp("fake")
        with fake("slurm", folder, "--kill-wait=20", pace=10) as batch:
            yield batch
        return
    try:
        with real() as batch:
            yield batch
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def pbs(tmp_path: Path) -> Iterator[Batch]:
    """A fake PBS."""
    with fake("pbs", tmp_path / "pbs") as batch:
        yield batch


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A worker on PATH that tells what it is told, and ends when the test does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "grain-worker").write_text(WORKER)
    (folder / "grain-worker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GRAIN_TEST_STOP", str(tmp_path / "stop"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield monkeypatch
    (tmp_path / "stop").touch()
