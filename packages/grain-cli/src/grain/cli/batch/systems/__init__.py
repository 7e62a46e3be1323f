"""Batch systems: the scripts that each of them reads, its answers, and the commands that it runs.

The functions of a module are pure: they write scripts, and read answers. A function that reads an
answer raises `BatchError` if it is something else, or not complete. The class of a module has the
interface of `BatchSystem`, and runs the commands.

Map:

- ``slurm``: Slurm
- ``pbs``: OpenPBS, PBS Professional and Torque
- ``sge``: Grid Engine
- ``lsf``: LSF
- ``htcondor``: HTCondor
- ``flux``: Flux
- ``oar``: OAR
- ``ssh``: plain processes on a list of hosts
- ``custom``: the user's own command and template
- ``local``: plain processes of this machine
"""
