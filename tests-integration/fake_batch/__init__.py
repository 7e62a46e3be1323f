"""Fake batch systems for tests: they run scripts as processes on nodes that are only counted.

A controller (``python -m fake_batch slurm FOLDER``) owns the cluster and every process of its
jobs. The commands in ``FOLDER/bin`` hand it their arguments over a socket in the folder, which the
variable ``FAKE_BATCH`` names, and print what it answers. Texts, exit codes and delays are those
that Slurm 22.05 and OpenPBS 23.06 were seen to have. What the fakes do not know they refuse.
``fakectl`` breaks nodes, lets time pass in leaps, and makes the controller deaf.
"""

# The general layout; standard library only:
#
#   client.py      what every command is: arguments to the controller, its answer to the terminal
#   processes.py   starting, finding and ending the processes of a job
#   model.py       nodes, jobs, delays, and how batch systems differ
#   cluster.py     what time does to nodes and jobs; knows no batch system
#   words.py       options and directives
#   slurm_words.py values as Slurm writes them
#   slurm.py       sbatch, scancel, scontrol: what they accept and say
#   slurm_show.py  squeue, sinfo: the tables
#   pbs_words.py   values as PBS writes them
#   pbs.py         qsub, qdel, qrerun, qsig: what they accept and say
#   pbs_show.py    qstat
#   controller.py  the loop of the controller, fakectl
#   __main__.py    its command line
#   start.py       for tests: a fake, or a real Slurm, for as long as a `with` block lasts
