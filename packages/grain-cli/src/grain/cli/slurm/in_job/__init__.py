"""``srun`` in a job.

Map:

- ``step``: a step, whose processes are children of ``srun``
"""
