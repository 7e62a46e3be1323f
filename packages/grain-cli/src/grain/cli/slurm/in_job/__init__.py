"""``srun`` in a job.

Map:

- ``mpi``: the launchers of MPI programs
- ``step``: a step, whose processes are children of ``srun``
"""
