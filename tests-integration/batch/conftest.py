"""Batch systems for the tests of this folder, and a worker that only logs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from fake_batch.start import Batch, Missing, fake, real

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Logs its arguments and every signal, and ends upon SIGTERM or when a file appears. It takes the
# signals by the time that it logs a line: there is no `$(...)` in it, where bash 5.2 loses one.
# A second SIGTERM may interrupt the trap of the first: PBS sends one to every process, the script
# forwards its own.
WORKER = """\
#!/bin/bash
trap 'echo "worker: USR1"' USR1
trap '[ "$ended" ] || { ended=yes; echo "worker: TERM"; exit 3; }' TERM
echo "worker: $*"
for ((i = 0; i < 12000; i++)); do
    [ -e "$GRAIN_TEST_STOP" ] && exit 0
    sleep 0.05 &
    wait $!
done
"""


@pytest.fixture(scope="module", params=["fake", pytest.param("real", marks=pytest.mark.nightly)])
def slurm(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Batch]:
    """A fake Slurm whose time tests let pass, and where it can be had by night, a real one.

    Three nodes of 4 cores and 4000 MiB.
    """
    if request.param == "fake":
        with fake("slurm", tmp_path_factory.mktemp("fake"), "--keep=36000", pace=0) as batch:
            yield batch
        return
    try:
        # In 20 s processes have had their say even if they get no processor for some of them.
        with real("--kill-wait=20") as batch:
            yield batch
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def pbs(tmp_path: Path) -> Iterator[Batch]:
    """A fake PBS whose time tests let pass, as the 2 s from SIGTERM to SIGKILL."""
    with fake("pbs", tmp_path / "pbs", pace=0) as batch:
        yield batch


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Provide a worker on PATH that logs its arguments and signals, and ends with the test."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "grain-worker").write_text(WORKER)
    (folder / "grain-worker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GRAIN_TEST_STOP", str(tmp_path / "stop"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield monkeypatch
    (tmp_path / "stop").touch()
