"""The scripts that come of configurations, as files to read: scripts/*.txt.

Paragraphs that two of them have are in `scripts/common.sh`. A line ``= ...`` of another file stands
for the paragraph there that begins with this line (``(2)``: with which a second one begins).

`GRAIN_WRITE_SCRIPTS=1 pytest packages/grain-cli/tests/batch/test_scripts.py` writes them again.
"""

from __future__ import annotations

import datetime
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from grain.cli.batch import BatchError, BatchJob
from grain.cli.batch.scripts.shell import own_file
from grain.cli.batch.systems import custom, flux, htcondor, lsf, oar, pbs, sge, slurm, ssh
from grain.cli.batch.systems.local import Local
from grain.cli.scaling.configured import gpus_asked
from grain.config import Config, Shape
from grain_testkit.golden_scripts import by_name, paragraphs, whole_script

if TYPE_CHECKING:
    from grain.config import Script

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
        "slurm_gpus": slurm.script(with_gpus(full)),
        "pbs_gpus": pbs.script(with_gpus(several["pbs"])),
        "pbs_torque_gpus": pbs.script(with_gpus(full), "torque"),
        "lsf_gpus": lsf.script(with_gpus(full)),
        "flux_gpus": flux.script(with_gpus(full)),
    }


def with_gpus(job: BatchJob, *extra_args: str) -> BatchJob:
    """Return a job of a shape that has two GPUs."""
    keys = msgspec.structs.asdict(job.script)
    keys["extra_args"] = (*job.script.extra_args, *extra_args)
    return replace(job, script=Shape(**keys, name="gpu", gpus=2))


def replace_queue(job: BatchJob) -> Script:
    """Return what a job asks for, of a queue whose name needs no quotes."""
    return msgspec.structs.replace(job.script, queue="odd")


NAMES = sorted(path.stem for path in SCRIPTS.glob("*.txt"))


@pytest.fixture
def texts(job_of: Made, configure: Callable[[str], Config], tmp_path: Path) -> dict[str, str]:
    """All scripts by name, as of a user with the home directory /home/me."""
    # A temporary directory may need quotes, and /home/me needs none.
    quoted = re.compile(rf"'{re.escape(str(tmp_path))}([\w./-]*)'")
    return {
        name: quoted.sub(r"/home/me\1", text).replace(str(tmp_path), "/home/me")
        for name, text in scripts(job_of, configure).items()
    }


def common_of(texts: Iterable[str]) -> list[str]:
    """Return the paragraphs that two scripts have, in the order in which they come."""
    counts = Counter(part for text in texts for part in paragraphs(text))
    return [part for part, count in counts.items() if count > 1 and "\n" in part]


def shortened(text: str, common: Iterable[str]) -> str:
    names = {part: f"= {name}" for name, part in by_name(common).items()}
    short = "\n\n".join(names.get(part, part) for part in paragraphs(text))
    return re.sub(r"(?m)^(= .*)\n\n(?== )", r"\1\n", short) + "\n"


@pytest.mark.skipif("GRAIN_WRITE_SCRIPTS" not in os.environ, reason="writes the files")
def test_write(texts: dict[str, str]) -> None:
    common = common_of(texts.values())
    (SCRIPTS / "common.sh").write_text("\n\n".join(common) + "\n")
    for name, text in texts.items():
        (SCRIPTS / f"{name}.txt").write_text(shortened(text, common))


@pytest.mark.parametrize("name", NAMES)
def test_script_is_as_written_down(name: str, texts: dict[str, str]) -> None:
    """Each script equals its file, so that every change is looked at."""
    assert whole_script(SCRIPTS, name) == texts[name]


def test_no_script_and_no_paragraph_is_left_over(texts: dict[str, str]) -> None:
    assert NAMES == sorted(texts)
    assert paragraphs((SCRIPTS / "common.sh").read_text()) == common_of(texts.values())


ASKS: dict[str, Callable[[BatchJob], str]] = {
    "slurm": slurm.script, "pbs": pbs.script, "torque": lambda job: pbs.script(job, "torque"),
    "lsf": lsf.script, "flux": flux.script,
    "htcondor": lambda job: htcondor.description(job, "/x", "/"),
}  # fmt: skip


@pytest.mark.parametrize("system", ASKS)
def test_the_number_of_gpus_of_a_shape_is_read_off_the_request_for_them(
    system: str, job_of: Made
) -> None:
    plain = job_of("")

    assert [2] == asked_of(ASKS[system](with_gpus(plain)))
    assert [] == asked_of(ASKS[system](plain))


def asked_of(script: str) -> list[int]:
    """Return the numbers of GPUs for which lines of a script ask."""
    lines = [re.sub(r"^# ?\w+:? ", "", line) for line in script.splitlines()]
    return [count for line in lines if (count := gpus_asked([line]))]


@pytest.mark.parametrize(
    ("system", "own"),
    [
        ("slurm", "--gres=gpu:a100:1"), ("slurm", "--gpus=1"), ("slurm", "-G 1"),
        ("slurm", "--gpus-per-node=1"), ("pbs", "-l select=1:ncpus=4:ngpus=1"),
        ("torque", "-l nodes=1:ppn=4:gpus=1"), ("lsf", '-gpu "num=1"'), ("flux", "-g1"),
        ("htcondor", "request_gpus = 1"),
    ],
)  # fmt: skip
def test_gpus_that_the_user_asks_for_are_asked_for_once(
    system: str, own: str, job_of: Made
) -> None:
    text = ASKS[system](with_gpus(job_of(""), own))

    assert own in text
    assert [1] == asked_of(text)


def test_a_queue_or_a_constraint_with_that_name_asks_for_no_gpus(job_of: Made) -> None:
    own = ("--partition=gpu", "-p gpu", "--constraint=gpu")

    assert "--gres=gpu:2" in slurm.script(with_gpus(job_of(""), *own))


@pytest.mark.parametrize(
    ("script", "own", "said"),
    [
        (sge.script, (), "sites of Grid Engine name GPUs differently"),
        (oar.script, (), "sites of OAR name GPUs differently"),
        (pbs.script, ("-l select=1:ncpus=4",), "PBS takes only one such line"),
    ],
)
def test_gpus_that_nothing_would_ask_for_are_refused(
    script: Callable[[BatchJob], str], own: tuple[str, ...], said: str, job_of: Made
) -> None:
    job = with_gpus(job_of(""), *own)
    with pytest.raises(BatchError, match=f"gpus = 2 of shape 'gpu': .*{said}"):
        script(job)
    assert "-l gpu=2" in script(with_gpus(job_of(""), "-l gpu=2")) or own


@pytest.mark.parametrize("system", ["local", "ssh"])
def test_gpus_of_plain_processes_are_refused_where_they_are_shown_and_where_they_start(
    system: str, job_of: Made, tmp_path: Path
) -> None:
    job = with_gpus(job_of(""))
    local = Local(tmp_path / "scripts")
    ways: dict[str, list[Callable[[], object]]] = {
        "local": [lambda: local.script(job, 1), lambda: [*local.submit(job, 1)]],
        "ssh": [
            lambda: ssh.Ssh(["n1"]).script(job, 1),
            lambda: ssh.start(job, "/", ssh.SharedHost("n1", 1), ()),
        ],
    }
    for refused in ways[system]:
        with pytest.raises(BatchError, match="gpus = 2 of shape 'gpu': no batch system gives"):
            refused()


def test_a_template_asks_for_gpus_by_their_number(
    job_of: Made, configure: Callable[[str], Config]
) -> None:
    now = datetime.datetime(2026, 3, 4, 9, 30, 15)
    job = with_gpus(job_of(CUSTOM))
    with pytest.raises(BatchError, match="has no {{gpus}}, so nothing asks"):
        custom.script(job, configure(CUSTOM), now)
    text = CUSTOM.replace("-M {{memory}}", "-M {{memory}} --gpus {{gpus}}")
    assert " --gpus 2 " in custom.script(job, configure(text), now)
    assert " --gpus 0 " in custom.script(job_of(CUSTOM), configure(text), now)


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("name", NAMES)
def test_shells_read_it(name: str, shell: str) -> None:
    """It has no mistake in its syntax, for bash nor for a plain POSIX shell."""
    done = subprocess.run(
        [shell, "-n"], input=whole_script(SCRIPTS, name), capture_output=True, text=True
    )

    assert (0, "") == (done.returncode, done.stderr)
