"""Job scripts as text, and the answers of batch systems. Pure.

Map:

- ``shell``: the part of a script that the shell runs, the same for all batch systems
- ``directives``: quoting and options of the lines that the batch system reads
- ``slurm``: scripts and answers of Slurm
- ``pbs``: those of PBS, in both dialects
- ``custom``: the user's own template
- ``worker``: the job of a worker, from the configuration
- ``mission``: the job of a mission, from the configuration
"""
