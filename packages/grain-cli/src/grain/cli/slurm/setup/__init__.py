"""The directory of the commands, and ``grain slurm``.

Map:

- ``command``: ``grain slurm`` and ``grain slurm doctor``
- ``folder``: the directory
- ``trying``: what ``grain slurm doctor`` tries
"""
