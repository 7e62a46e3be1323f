"""Ten scripts as tutorials of centres teach them for Slurm, unchanged, with stand-in programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from command_site import Site
from test_queue import Jobs
from test_speaking_slurm import Tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PROGRAM = """\
#!/bin/sh
echo "$(basename "$0") $* rank ${SLURM_PROCID-none} of ${SLURM_NTASKS-none}"
[ "$1" = - ] && cat
exit 0
"""
"""Says how it was called; with ``-`` it reads its input, too."""

PROGRAMS = ("orca", "g16", "vasp_std", "gmx", "xtb", "relax")

SCRIPTS = {
    "orca": r"""#!/bin/bash
#SBATCH --job-name=orca
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --mem=4G
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.out
#SBATCH --error=%x.err

module load orca/5.0.4

SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"; echo cleaned > cleaned' EXIT

cat > $SCRATCH/water.inp <<EOF
! B3LYP def2-SVP Opt
%pal nprocs $SLURM_NTASKS end
%maxcore $((SLURM_MEM_PER_NODE * 75 / 100 / SLURM_NTASKS))
EOF

(cd $SCRATCH && $(which orca) water.inp > $SLURM_SUBMIT_DIR/water.out)
cp $SCRATCH/water.inp $SLURM_SUBMIT_DIR/
echo "with$LOADED"
""",
    "gaussian": r"""#!/bin/bash
#SBATCH -J g16
#SBATCH -N 1
#SBATCH -n 1
#SBATCH -c 2
#SBATCH --mem=2000
#SBATCH -t 10
#SBATCH -o g16.log

export GAUSS_SCRDIR=$SLURM_SUBMIT_DIR/scratch.$SLURM_JOBID
mkdir $GAUSS_SCRDIR
export GAUSS_CDEF=$(taskset -cp $$ | awk -F': ' '{print $2}')
export GAUSS_MDEF=$((SLURM_MEM_PER_NODE - 500))MB

g16 - < water.com > water.log

rm -r $GAUSS_SCRDIR
echo $GAUSS_MDEF $(echo $GAUSS_CDEF | tr ',-' '  ' | wc -w)
""",
    "vasp": r"""#!/bin/bash
#SBATCH -J vasp
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=1G
#SBATCH --time=0-00:10:00
#SBATCH --hint=nomultithread
#SBATCH -o vasp.log

module purge
module load vasp/6.4.2
ulimit -s unlimited
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK

srun --cpu-bind=cores vasp_std > OUTCAR
grep -q vasp_std OUTCAR || exit 1
echo $OMP_NUM_THREADS $SLURM_MEM_PER_CPU
""",
    "gromacs": r"""#!/bin/bash
#SBATCH -J md
#SBATCH -n 1
#SBATCH -c 2
#SBATCH -t 1:00:00
#SBATCH --dependency=singleton
#SBATCH -o md.log
#SBATCH --open-mode=append

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
gmx mdrun -deffnm md -cpi md.cpt -maxh 0.95 -ntomp $OMP_NUM_THREADS

echo x >> cycles
if [ $(wc -l < cycles) -lt 3 ]; then
    sbatch gromacs.sh > /dev/null
fi
""",
    "list": r"""#!/bin/bash
#SBATCH --job-name=molecules
#SBATCH --array=1-4%2
#SBATCH --ntasks=1
#SBATCH --output=logs/%A_%a.out

MOLECULE=$(sed -n "${SLURM_ARRAY_TASK_ID}p" molecules.txt)
WORK=run/$MOLECULE
mkdir -p $WORK
cd $WORK
srun xtb ../../$MOLECULE.xyz --opt > xtb.log
""",
    "parameters": r"""#!/bin/bash
#SBATCH -a 0-3:2
#SBATCH -o /dev/null

TEMPERATURES=(100 200 300 400)
echo "${TEMPERATURES[$SLURM_ARRAY_TASK_ID]} of ${SLURM_ARRAY_TASK_COUNT}" \
    > temperature.$SLURM_ARRAY_TASK_ID
""",
    "farm": r"""#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks=2
#SBATCH --mem=1G
#SBATCH -o farm.log -e farm.err

for i in $(seq 1 6); do
    srun --exclusive --nodes=1 --ntasks=1 --mem=100 relax structure$i > relax.$i &
done
wait
cat relax.*
""",
    "checkpoint": r"""#!/bin/bash
#SBATCH -J long
#SBATCH --time=00:01:00
#SBATCH --signal=B:USR1@55
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH -o long.log -e long.err

save() {
    echo saved > checkpoint
    kill $PROGRAM
    scontrol requeue $SLURM_JOB_ID
}
trap save USR1

if [ -e checkpoint ]; then
    echo "goes on after ${SLURM_RESTART_COUNT:-0}"
    exit
fi
echo begins
sleep 600 &
PROGRAM=$!
wait
""",
    "python": r"""#!/bin/bash
#SBATCH --cpus-per-task=2
#SBATCH --output=python.log

export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
export MKL_NUM_THREADS=$OMP_NUM_THREADS

python3 - <<EOF
import os

print(len(os.sched_getaffinity(0)), os.environ["MKL_NUM_THREADS"])
EOF
""",
    "gpu": r"""#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=1
#SBATCH --output=%x.%j.gpu

IFS=, read -ra DEVICES <<< "$CUDA_VISIBLE_DEVICES"
echo ${#DEVICES[@]} $SLURM_GPUS_ON_NODE > devices
""",
}

PIPELINE = r"""#!/bin/bash
first=$(sbatch --parsable -J pre -o %x.log --wrap "echo grid > grid.dat")
second=$(sbatch --parsable -J main -o %x.log --dependency=afterok:$first \
    --wrap "cat grid.dat > wave.dat; exit 3")
third=$(sbatch --parsable -J post -o %x.log --dependency=afterany:$second \
    --wrap "cat wave.dat; sacct -n -X -P -j $second -o State,ExitCode")
echo $first $second $third
"""

INPUTS = {
    "gaussian/water.com": "#p HF/6-31G(d)\n",
    "list/molecules.txt": "water\nammonia\nmethane\nethanol\n",
}

OUTPUTS = {
    "orca/water.inp": "! B3LYP def2-SVP Opt\n%pal nprocs 2 end\n%maxcore 1536\n",
    "orca/water.out": "orca water.inp rank 0 of 2\n",
    "orca/orca-{}.out": "with orca/5.0.4\n",
    "orca/orca.err": "",
    "orca/cleaned": "cleaned\n",
    "gaussian/water.log": "g16 - rank 0 of 1\n#p HF/6-31G(d)\n",
    "gaussian/g16.log": "1500MB 2\n",
    "vasp/OUTCAR": "vasp_std  rank 0 of 2\nvasp_std  rank 1 of 2\n",
    "vasp/vasp.log": "1 1024\n",
    "gromacs/md.log": "gmx mdrun -deffnm md -cpi md.cpt -maxh 0.95 -ntomp 2 rank 0 of 1\n" * 3,
    "list/run/water/xtb.log": "xtb ../../water.xyz --opt rank 0 of 1\n",
    "list/run/ethanol/xtb.log": "xtb ../../ethanol.xyz --opt rank 0 of 1\n",
    "list/logs/{}_4.out": "",
    "parameters/temperature.0": "100 of 2\n",
    "parameters/temperature.2": "300 of 2\n",
    "farm/farm.log": "".join(f"relax structure{i} rank 0 of 1\n" for i in range(1, 7)),
    "checkpoint/long.log": "begins\ngoes on after 1\n",
    "python/python.log": "2 2\n",
    "gpu/devices": "1 1\n",
}
"""What is in files; ``{}`` stands for the number of the job. Ranks write in any order."""


@pytest.fixture
async def tool(tmp_path: Path) -> AsyncIterator[Tool]:
    jobs = Jobs(Site(tmp_path))
    (tmp_path / "bin").mkdir()
    for name in PROGRAMS:
        (tmp_path / "bin" / name).write_text(PROGRAM)
        (tmp_path / "bin" / name).chmod(0o755)
    jobs.site.environ["PATH"] = f"{tmp_path / 'bin'}:{jobs.site.environ['PATH']}"
    # As modules set it up in a shell, from which jobs have it.
    jobs.site.environ["BASH_FUNC_module%%"] = '() { [ "$1" = purge ] || LOADED="$LOADED $2"; }'
    tool = Tool(jobs)
    await tool.start()
    with jobs.site.gnaw(), jobs.site.worker("w", Cores=2, Memory=10, GPUs=2):
        yield tool
        await jobs.grain("queue", "stop")


async def over(tool: Tool) -> None:
    """Wait until no job is in the queue."""
    while tool.answer("squeue", "-h"):
        await trio.sleep(0.2)


async def test_ten_scripts_of_tutorials_do_what_they_do_under_slurm(tool: Tool) -> None:
    numbers = {}
    with trio.fail_after(300):
        for name, script in SCRIPTS.items():
            folder = tool.folder / name
            (folder / "logs").mkdir(parents=True)
            (folder / f"{name}.sh").write_text(script)
            for path, text in INPUTS.items():
                if path.startswith(f"{name}/"):
                    (tool.folder / path).write_text(text)
            said = await tool.call("sbatch", f"{name}.sh", folder=folder)
            numbers[name] = said.split()[-1]
        await over(tool)
    found = {}
    for path in OUTPUTS:
        name = path.partition("/")[0]
        file = tool.folder / path.format(numbers[name])
        found[path] = "".join(sorted(file.read_text().splitlines(True))) if file.exists() else None
    assert found == {path: "".join(sorted(text.splitlines(True))) for path, text in OUTPUTS.items()}
    states = tool.answer("sacct", "-n", "-X", "-P", "-o", "State")
    assert set(states.split()) == {"COMPLETED"}


async def test_a_pipeline_of_a_tutorial_goes_on_after_a_failure(tool: Tool) -> None:
    (tool.folder / "pipeline.sh").write_text(PIPELINE)
    with trio.fail_after(300):
        numbers = (await tool.call("bash", "pipeline.sh")).split()
        assert len(numbers) == 3
        await over(tool)
    assert tool.text("post.log") == "grid\nFAILED|3:0\n"
