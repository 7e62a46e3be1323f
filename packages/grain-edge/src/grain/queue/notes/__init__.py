"""Files of a queue that only displays read: they may be late, or lost.

Map:

- ``steps``: the steps that srun has started in an attempt
"""
