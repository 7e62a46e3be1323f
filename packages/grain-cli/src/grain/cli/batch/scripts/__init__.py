"""Job scripts as text, as far as they are the same for all batch systems. Pure.

Map:

- ``shell``: the part of a script that the shell runs
- ``directives``: quoting and options of the lines that the batch system reads
- ``worker``: the job of a worker, from the configuration
- ``mission``: the job of a mission, from the configuration
"""
