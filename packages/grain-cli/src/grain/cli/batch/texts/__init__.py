"""The language of each batch system: the scripts that it reads, and the answers that it prints.

Pure: nothing here runs a command or opens a file. `grain.cli.batch.systems` has a class for each
of these modules. A function that reads an answer raises `BatchError` if it is something else, or
not complete.

Map:

- ``slurm``: Slurm
- ``pbs``: OpenPBS, PBS Professional and Torque
- ``sge``: Grid Engine
- ``lsf``: LSF
- ``htcondor``: HTCondor
- ``flux``: Flux
- ``oar``: OAR
- ``ssh``: plain processes on a list of hosts
- ``custom``: the user's own template
"""
