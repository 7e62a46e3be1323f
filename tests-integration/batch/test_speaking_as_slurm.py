"""Command lines to a real Slurm and to Grain's commands of the same names: the same answers.

Jobs are held, wait for others or for a time, or are refused, so no worker is needed and nothing
depends on how fast a node is.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

import pytest
from fake_batch.start import Missing, real
from slurm_site import SlurmSite

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

COMMANDS = r"""
sbatch -H -J "two words" -n 2 -t 10 --mem 100 job.sh
sbatch --parsable -H -a 0-3%2 -t 1-0 --wrap 'exit 3'
sbatch -H --comment hello -A acct --wrap true
sbatch -d afterok:3 -J longer_than_wide --wrap true
sbatch --begin 2040-01-31T12:34 --wrap true
sbatch -Q -H --wrap true
sbatch -H --nice=7 --no-requeue -D /tmp -o %x.%j -e /dev/null --wrap true
squeue -S i
squeue -r -S i -o '%.18i|%t|%T|%r|%R|%j|%u|%U|%P|%D|%C|%M|%l|%L|%S|%e|%B|%N|%m|%b|%Z|%k|%h|%E|%c'
squeue -r -S i -h -o '%y|%z|%q|%v|%f'
squeue -l -h -r -S i
squeue -j 1 -O JobID:8,Name:.12,NumNodes:|,NumCPUs,NumTasks,TimeUsed:5,TimeLimit,TimeLeft,WorkDir:90
squeue -j 1 -O JobArrayID,ArrayJobID,ArrayTaskID
squeue -j 1 -O State,StateCompact,Reason,ReasonList,UserName,StdOut:90
squeue -h -t all --me -o '%i<><> %t<><> %j' -j 1,1
squeue --noheader -o '%i^^^%t^^^%r^^^%B^^^%u^^^%D^^^%C^^^%R^^^%P^^^%l^^^%M^^^%S^^^%j' --jobs=1,1
squeue -h -n wrap -S i -r -o %i
squeue -h -t PD,R -p queue -r -S -i -o '%2t%10j'
squeue -h -p none
squeue -h -S nope
squeue -h -S 't i'
squeue -h -S i,~
squeue -h -S X
squeue -h -r -S -l+i -o '%i %l'
squeue -h -j 1 -O BatchFlag,CPUsPerTask,Deadline,NTPerNode,AccrueTime
squeue -t CD
squeue -j 99
squeue -j 98,99
squeue -j x
squeue -j 2_1 -o %i
squeue -t none
squeue --none
squeue --version extra
scontrol show job 99
scontrol show job x
scontrol show hostnames n[1-3,07-09],a
scontrol show part none
scontrol show node none
scontrol show none
scontrol show
scontrol none
scontrol hold 99
scontrol release 99
scontrol requeue 99
scontrol requeue 3
scontrol hold 4
scontrol release 4
squeue -h -j 4 -o '%E'
scancel -v 99
scancel -v 3
scancel 2_1
scancel 2_[2-3]
squeue -h -r -t CA -S i -o '%i %t %T %M %R'
scancel
scancel x
scancel 2_x
scancel 99.0
scancel -s NO 1
scancel --none
sbatch -t bad --wrap true
sbatch --mem=bad --wrap true
sbatch -n x --wrap true
sbatch -c 0 --wrap true
sbatch -N x --wrap true
sbatch --signal=NO --wrap true
sbatch --open-mode=x --wrap true
sbatch --begin=soon --wrap true
sbatch --array=x --wrap true
sbatch -a 0-200000 --wrap true
sbatch -d none:1 --wrap true
sbatch -d afterok:x --wrap true
sbatch --gres=none:x --wrap true
sbatch -w none --wrap true
sbatch -L none --wrap true
sbatch --wrap=x y
sbatch none
sbatch text.sh
sbatch empty.sh
sbatch white.sh
sbatch dos.sh
sbatch nul.sh
sbatch word.sh
sbatch quote.sh
sbatch option.sh
sbatch --none
sbatch -7
sbatch -J
sbatch --mem
sbatch --hold=x
sbatch --mem-per=1 --wrap true
sbatch -d afterok:99 -H --wrap true
squeue -u no-such-user
squeue -o %i%!
sinfo -h -o %P
sinfo --none
sinfo -h -t nope
sinfo -h -t idle,nope
sinfo -h -p main -t down
sinfo -h -p main -t down -o '%t %N'
sinfo -h -p main -n none
sinfo -h -p main -d
sinfo -h -N -p main -d
sinfo -h -T
sinfo -i x
sinfo -l -o %t
sinfo -p main -t down -O Partition,PartitionName:.12,Root,PreemptMode,PriorityJobFactor,Share
srun
srun --none
sbatch --mail-type=NOPE --wrap true
sbatch --hint=nope --wrap true
sbatch -m nope --wrap true
sbatch --time-min=x --wrap true
sbatch --tmp=x --wrap true
sbatch --wait-all-nodes=x --wrap true
sbatch --cores-per-socket=x --wrap true
sbatch --uid=no-such-user --wrap true
sbatch -t 1:2:3:4 --wrap true
sbatch -t '' --wrap true
sbatch --mem=1.5G --wrap true
sbatch -c -2 --wrap true
sbatch -n 2-4 --wrap true
sbatch -n -3 --wrap true
sbatch --ntasks-per-node=x --wrap true
sbatch -a 3-1 --wrap true
sbatch -a 1-10:0 --wrap true
sbatch -d afterok: --wrap true
sbatch --signal=USR1@x --wrap true
sbatch --requeue=1 --wrap true
sbatch -W0 --wrap true
sbatch --wrap
sbatch -Q -H -a '[1-3]%0' --wrap true
sbatch -Q -H -d '' --wrap true
squeue -h -j ''
squeue -h -j ,
squeue -h -t ''
squeue -h -n ''
squeue -i x
squeue -h -j 1 -O 'JobID: ,Name:|'
squeue -h -j 1 -o '%s|%j'
scontrol hold jobname=none
scontrol write nope 1
scontrol write batch_script 1 -
scancel -s USR1 99
scancel -b 99
scancel -Q -b 99
scancel -t none
srun -a 1 true
srun -m nope true
sbatch --cpu-freq=nope --wrap true
sbatch --cpu-freq=low-nope --wrap true
sbatch --gpu-freq=12x --wrap true
sbatch --mem-bind=local,nope --wrap true
sbatch --cpu-bind=none --wrap true
sbatch --profile=nope --wrap true
sbatch --acctg-freq=nope --wrap true
sbatch --gres-flags=nope --wrap true
sbatch -B 1:2:x --wrap true
sbatch --switches=0 --wrap true
sbatch --get-user-env=10x --wrap true
sbatch --no-kill=x --wrap true
sbatch --threads-per-core=0 --wrap true
sbatch --wait-all-nodes=2 --wrap true
sbatch --priority=-1 --wrap true
sbatch --propagate=NOPE --wrap true
sbatch --signal=USR1@65536 --wrap true
sbatch --gpu-bind= --wrap true
sbatch --mem-per-gpu=x --wrap true
sbatch --gid=no-such-group --wrap true
sbatch --tres-per-task=cpu:1 --wrap true
sbatch -N 2-1 --wrap true
sbatch -Q -H --cpu-freq=low-high:Performance --mem-bind=v,prefer,map_mem:0 --wrap true
sbatch -Q -H --gpu-freq=high,memory=700 --acctg-freq=30,task=5 --wrap true
sbatch -Q -H --profile=none,task -B '1-2:*' --switches=1@10 --no-kill=off --wrap true
srun --cpu-freq=nope true
srun --mem-bind=nope true
srun --profile=nope true
srun --accel-bind=x true
srun --open-mode=x true
srun -T 0 true
srun --msg-timeout=x true
srun --exclusive=x true
srun --signal=nope true
srun -N 2-1 true
"""

DIFFERENT = {
    "squeue -S i": "an array has a line for each task",
    "sbatch -d afterok:99 -H --wrap true": "a job that there is not cannot succeed",
    "squeue --version extra": "Debian's Slurm calls itself slurm-wlm",
    "squeue -h -r -t CA -S i -o '%i %t %T %M %R'": "tasks that never ran do not vanish",
    "squeue -u no-such-user": "exit status 0 would mean that there are no jobs",
    "squeue -o %i%!": "exit status 0 would mean that the format is right",
    "sinfo -h -o %P": "a queue has one partition, and this Slurm has two",
}
"""Command lines whose answers differ, and why."""

FILES = {
    "job.sh": "#!/bin/sh\nsleep 600\n",
    "text.sh": "echo\n",
    "empty.sh": "",
    "white.sh": "  \n",
    "dos.sh": "#!/bin/sh\r\necho\r\n",
    "nul.sh": "#!/bin/sh\necho \0\n",
    "word.sh": "#!/bin/sh\n#SBATCH word\ntrue\n",
    "quote.sh": '#!/bin/sh\n#SBATCH -J "a\n',
    "option.sh": "#!/bin/sh\n#SBATCH --none\n",
}


class Said(NamedTuple):
    """What a command has said, without what differs by machine."""

    out: str
    err: str
    status: int


def said(done: subprocess.CompletedProcess[str]) -> Said:
    # Slurm's commands call themselves as they were called, and some have a reason of Grain's.
    err = "".join(
        line for line in done.stderr.splitlines(keepends=True) if ": (Grain) " not in line
    )
    return Said(done.stdout, re.sub(r"\n+$", "\n", err), done.returncode)


def differences(
    ask_real: Callable[[list[str]], subprocess.CompletedProcess[str]], site: SlurmSite
) -> dict[str, tuple[Said, Said]]:
    """Return the command lines with different answers: that of Slurm, and ours."""
    for name, text in FILES.items():
        (site.folder / name).write_text(text, newline="")
    found = {}
    for line in COMMANDS.strip().splitlines():
        words = shlex.split(line)
        one, other = said(ask_real(words)), said(site.process(*words))
        if one != other:
            found[line] = (one, other)
    return found


@pytest.mark.nightly
def test_answers_are_those_of_slurm(tmp_path: Path) -> None:
    site = SlurmSite(tmp_path)
    try:
        with real("--array=100001", "--nodes=1") as slurm:
            # The partition has the name of the queue.
            site.environment["GRAIN_QUEUE"] = "main"
            found = differences(lambda words: slurm.run(*words, cwd=tmp_path), site)
    except Missing as missing:
        pytest.skip(str(missing))
    assert found.keys() == DIFFERENT.keys(), found
