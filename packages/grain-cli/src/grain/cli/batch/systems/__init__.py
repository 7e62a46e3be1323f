"""Batch systems: the commands that each of them runs, with the interface of `BatchSystem`.

Each module has one class; its counterpart in `grain.cli.batch.texts` writes the scripts and reads
the answers.

Map:

- ``slurm``: Slurm
- ``pbs``: OpenPBS, PBS Professional and Torque
- ``sge``: Grid Engine
- ``custom``: the user's own command and template
- ``local``: plain processes of this machine
"""
