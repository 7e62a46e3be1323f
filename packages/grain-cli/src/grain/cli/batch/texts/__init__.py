"""The language of each batch system: the scripts that it reads, and the answers that it prints.

Pure: nothing here runs a command or opens a file. `grain.cli.batch.systems` has a class for each
of these modules.

Map:

- ``slurm``: Slurm
- ``pbs``: OpenPBS, PBS Professional and Torque
- ``sge``: Grid Engine
- ``custom``: the user's own template
"""
