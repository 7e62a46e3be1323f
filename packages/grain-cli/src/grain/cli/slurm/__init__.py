"""Commands that speak to the queue in Slurm's words, for tools and people that know only those.

Rules:

1. What a command answers is whole, or it fails: an empty list would mean that jobs have ended.
2. Nothing goes to standard error if the exit status is 0, as tools read both.
3. Commands import little: some tools ask every second. Neither click nor trio is needed here.

Map:

- ``here``: the process that gives a command, and answers
- ``reading``: the queue, read whole; and again until a job has ended
- ``listing``: tasks that a command shows, with what formats show of them
- ``outside``: ``srun`` outside of a job
- ``sbatch``: submit
- ``squeue``: list what waits and runs
- ``scancel``: cancel, and send signals
- ``sacct``: list what was
- ``scontrol``: show, hold, release, run again
- ``srun``: in a job a step, elsewhere a job; and ``salloc``, which there is not
- ``nodes``: the hosts of workers
- ``sinfo``: partitions; and ``sacctmgr`` and ``sshare``, as there are no accounts
- ``in_job/``: a step of a job
- ``setup/``: the directory of these commands, and ``grain slurm``
"""
