"""`grain doctor` where there is a batch system, and where its controller has died."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from fake_batch.start import fake

if TYPE_CHECKING:
    from pathlib import Path

    from fake_batch.start import Batch

COMMANDS = {"slurm": "sbatch, squeue, scancel", "pbs": "qsub, qstat, qselect, qdel"}


def doctor(folder: Path, batch: Batch) -> dict[str, Any]:
    """Return the findings of `grain doctor`, by check."""
    (folder / "edge").mkdir(mode=0o700, exist_ok=True)
    (folder / "grain.toml").write_text(
        f'system = "{batch.system}"\naddress = "edge://{folder}/edge/meeting"\n'
    )
    env = {**batch.env, "XDG_STATE_HOME": str(folder / "state")}
    env.pop("GRAIN_CONFIG", None)
    words = [sys.executable, "-m", "grain.cli", "doctor", "--json"]
    done = subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600
    )
    assert "" == done.stderr
    checks = {one["check"]: one for one in json.loads(done.stdout)}
    assert done.returncode == any(one["state"] == "fail" for one in checks.values())
    return checks


@pytest.mark.parametrize("system", COMMANDS)
def test_the_batch_system_answers_or_does_not(tmp_path: Path, system: str) -> None:
    """The controller dies, then the commands are missing."""
    # Each check has 15 s, in which those of a busy machine may get no processor.
    with fake(system, tmp_path / "fake") as batch:
        while "no answer within" in str(well := doctor(tmp_path, batch)):
            pass
    dead = doctor(tmp_path, batch)
    batch.env["PATH"] = str(tmp_path)  # no batch system, not that of this machine either
    without = doctor(tmp_path, batch)

    assert f"{system}: {COMMANDS[system]} answer" == well["batch system"]["says"]
    # A directory on a disk of this host is a warning, as workers are on other hosts; so is a slow
    # disk, as that of a busy machine may be.
    complaints = {name for name, one in well.items() if one["state"] != "ok"}
    assert {"scheduler"} == complaints - {"directory", "file system"}
    assert "fail" != well["file system"]["state"]
    assert "fail" == dead["batch system"]["state"]
    assert "" != dead["batch system"]["fix"]
    assert without["batch system"]["says"].startswith(f"{system}: no {COMMANDS[system]} here")
