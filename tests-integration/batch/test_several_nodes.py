"""A job of two nodes, from `grain up` to the end of its workers: fakes of PBS and of Grid Engine.

Their nodes are this machine, and commands of the test stand for the launchers of the batch systems.
A real Slurm has its story in ``test_gang_srun``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fake_batch.start import Batch, fake, until
from fake_small.start import small

from grain.cli.batch import JobPhase, open_system
from grain.config import load
from grain_testkit.local_processes import process_folders

if TYPE_CHECKING:
    from collections.abc import Iterator

SITE = """\
system = "{system}"
address = "edge://{folder}/edge"
[worker]
name = "w"
log_file = "{folder}/w.log"
[worker.env]
PYTHONPATH = "{path}"
[script]
nodes = 2
cores = 1
walltime = "00:10:00"
setup_cleanup = ["export PATH={folder}/bin:$PATH SET_UP=yes", "defer echo cleaned up"]
"""
# As the batch systems do: with nothing of the environment of the caller but what tells of the job.
LAUNCHER = """\
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec env -i HOME="$HOME" PATH=/usr/bin:/bin $(env | grep '^PBS_JOBID=\\|^JOB_ID=\\|^FAKE') "$@"
"""
NAMES = {"pbs": "pbs_tmrsh", "sge": "qrsh"}


@pytest.fixture(params=NAMES)
def batch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Batch]:
    """A fake batch system, and the launcher that its jobs find by their set-up."""
    (tmp_path / "bin").mkdir()
    launcher = tmp_path / "bin" / NAMES[request.param]
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    with ExitStack() as stack:
        if request.param == "pbs":
            yield stack.enter_context(fake("pbs", tmp_path / "pbs", pace=0))
        else:
            yield stack.enter_context(small("sge", tmp_path / "sge"))


def warn(batch: Batch, job: str) -> str:
    """Give the warning before the end of the time; return the signal that workers get."""
    if batch.system == "pbs":
        batch.out("qsig", "-s", "USR1", job)
        return "SIGUSR1"
    Path(batch.env["FAKE_SMALL"], job, "order.warn").touch()
    return "SIGTERM"


def are_ready(folder: Path) -> bool:
    """Return True if both workers there have a runner that the warning of a whole job spares.

    PBS sends it to all processes of a job, and a runner that is just starting would end.
    """
    ready = 0
    for process in process_folders():
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if words[2:4] == [b"-m", b"grain.worker.runner.main"]:  # and not its supervisor
                status = (process / "status").read_text()
                ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
                ours = os.fsencode(f"HOME={folder}") in (process / "environ").read_bytes()
                ready += ours and bool(ignored & 1 << signal.SIGUSR1 - 1)
        except OSError:  # it has just ended
            continue
    return ready == 2


def test_each_node_has_a_worker_and_all_are_warned(
    batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of the set-up is that of all; the job ends after the last, and cleans up."""
    path = os.pathsep.join(one for one in sys.path if one)
    text = SITE.format(system=batch.system, folder=tmp_path, path=path)
    (tmp_path / "grain.toml").write_text(text)
    for name, value in {**batch.env, "XDG_STATE_HOME": str(tmp_path / "state")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    logs = [tmp_path / f"w.{number}.log" for number in (0, 1)]

    def written(words: str) -> bool:
        return all(log.exists() and words in log.read_text() for log in logs)

    up = [sys.executable, "-m", "grain.cli", "up"]
    said = subprocess.run(up, text=True, capture_output=True, check=True).stdout
    job = said.split()[3]
    until(lambda: written("this worker, w.") and are_ready(tmp_path))
    system = open_system(load(tmp_path / "grain.toml"))
    before = system.states([job])[job].phase
    number = warn(batch, job)
    until(lambda: written("this worker has ended"))
    until(lambda: system.states([job])[job].phase is JobPhase.GONE)

    assert f"w is job {job} with 2 workers, output in {tmp_path}/w.log\n" == said
    assert JobPhase.RUNNING is before
    assert written(f"{number} received")
    until(lambda: "cleaned up" in (tmp_path / "w.log").read_text())
    assert [] == list((tmp_path / ".local/state/grain/nodes").iterdir())
