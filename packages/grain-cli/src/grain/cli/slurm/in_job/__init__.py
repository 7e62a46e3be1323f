"""``srun`` in a job.

Map:

- ``step``: a step, whose processes are children of ``srun``: it asks for it and starts them
- ``mpi``: the launchers of MPI programs
- ``files``: what the processes read and write
- ``ends``: how they end, and what signals to ``srun`` do
"""
