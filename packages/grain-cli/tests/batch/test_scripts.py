"""The scripts that come of configurations, as files to read: tests/scripts/*.sh.

`GRAIN_WRITE_SCRIPTS=1 pytest packages/grain-cli/tests/test_scripts.py` writes them again.
"""

from __future__ import annotations

import datetime
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from grain.cli.batch import BatchJob
from grain.cli.batch.scripts.shell import own_file
from grain.cli.batch.systems import custom, flux, htcondor, lsf, oar, pbs, sge, slurm
from grain.cli.batch.systems.local import Local

if TYPE_CHECKING:
    from grain.config import Config, Script

SCRIPTS = Path(__file__).parent / "scripts"
FULL = """
address = "edge:///shared/me/edge"
contextmod = "context.py"
[script]
queue = "debug"
walltime = "01:00:00"
cores = 16
memory = 60
extra_args = ["-A chem"]
setup_cleanup = '''
export SCRATCH_DIR=/tmp/$USER-scratch
mkdir -p $SCRATCH_DIR
defer rm -r $SCRATCH_DIR
defer cp -r $SCRATCH_DIR/kept $HOME/kept
'''
[worker.res]
Token = { token = "it's" }
"""
ODD = """
[worker]
name = "a#b$(id)"
log_file = "logs of me/w#{{HHMMSS}} \\"x\\".log"
dial = "edge:///a b/'c';id"
[script]
shebang = "#!/bin/sh"
queue = "my queue"
memory = 3.5
setup_cleanup = '''
set -eu
cat <<END
  ; } ) "
END
defer echo "it's }"
'''
"""
CUSTOM = """
system = "custom"
[script]
walltime = "90m"
cores = 8
memory = 16
queue = "fast"
extra_args = ["-P chem"]
setup_cleanup = ["defer true"]
[custom_system]
submit_cmd = "bsub <"
directory = "/shared/me/jobs"
template = '''
{{shebang}}
#BSUB -J {{name}} -o {{log_file}} -q {{queue}} -n {{cores}} -M {{memory}} -W {{walltime}}
#BSUB {{extra_args}} # {{seconds}} {{HHMMSS}}

{{body}}
'''
"""

Made = Callable[..., BatchJob]


def scripts(job_of: Made, configure: Callable[[str], Config]) -> dict[str, str]:
    """All scripts by name."""
    now = datetime.datetime(2026, 3, 4, 9, 30, 15)
    custom_script = custom.script(job_of(CUSTOM), configure(CUSTOM), now)
    full, odd, empty = job_of(FULL, path="/opt/grain/bin"), job_of(ODD), job_of("")
    several = {
        system: job_of(f'system = "{system}"' + FULL.replace("cores", "nodes = 4\ncores"))
        for system in ("slurm", "pbs", "sge")
    }
    return {
        "slurm_nodes": slurm.script(several["slurm"], 2),
        "pbs_nodes": pbs.script(several["pbs"]),
        "pbs_torque_nodes": pbs.script(several["pbs"], "torque"),
        "sge_nodes": sge.script(several["sge"], "mpi16", "h_vmem=3840M"),
        "slurm": slurm.script(full),
        "slurm_array": slurm.script(full, 2),
        "slurm_odd": slurm.script(odd),
        "slurm_empty": slurm.script(empty),
        "pbs": pbs.script(full),
        "pbs_odd": pbs.script(odd),
        "pbs_torque": pbs.script(full, "torque"),
        "sge": sge.script(full, "smp", "h_vmem=3840M"),
        "sge_odd": sge.script(replace(odd, log_file="/a b/w:1.log"), memory="h_vmem=3584M"),
        "sge_empty": sge.script(empty),
        "lsf": lsf.script(full),
        "lsf_odd": lsf.script(odd),
        "htcondor": htcondor.script(full),
        "flux": flux.script(full),
        "flux_odd": flux.script(odd),
        "oar": oar.script(job_of(FULL.replace("queue", 'memory_resource = "memnode"\nqueue'))),
        "oar_odd": oar.script(replace(odd, script=replace_queue(odd))),
        "ssh": own_file(full),
        "custom": custom_script,
        "local": Local(Path()).script(full, 1),
    }


def replace_queue(job: BatchJob) -> Script:
    """Return what a job asks for, of a queue whose name needs no quotes."""
    return msgspec.structs.replace(job.script, queue="odd")


NAMES = sorted(
    [
        "flux",
        "flux_odd",
        "htcondor",
        "lsf",
        "lsf_odd",
        "oar",
        "oar_odd",
        "sge",
        "sge_empty",
        "sge_odd",
        "ssh",
        "custom",
        "local",
        "pbs",
        "pbs_nodes",
        "pbs_odd",
        "pbs_torque",
        "pbs_torque_nodes",
        "sge_nodes",
        "slurm",
        "slurm_array",
        "slurm_empty",
        "slurm_nodes",
        "slurm_odd",
    ]
)


@pytest.mark.parametrize("name", NAMES)
def test_script_is_as_written_down(
    name: str, job_of: Made, configure: Callable[[str], Config], tmp_path: Path
) -> None:
    """Each script equals its file, so that every change is looked at."""
    text = scripts(job_of, configure)[name]
    # A temporary directory may need quotes, and /home/me needs none.
    text = re.sub(rf"'{re.escape(str(tmp_path))}([\w./-]*)'", r"/home/me\1", text)
    text = text.replace(str(tmp_path), "/home/me")
    path = SCRIPTS / f"{name}.sh"
    if os.environ.get("GRAIN_WRITE_SCRIPTS"):
        path.write_text(text)

    assert path.read_text() == text


def test_no_script_is_left_over() -> None:
    """Every file there is one that is tested."""
    assert NAMES == sorted(path.stem for path in SCRIPTS.glob("*.sh"))


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("name", NAMES)
def test_shells_read_it(name: str, shell: str) -> None:
    """It has no mistake in its syntax, for bash nor for a plain POSIX shell."""
    done = subprocess.run(
        [shell, "-n", SCRIPTS / f"{name}.sh"], capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)
