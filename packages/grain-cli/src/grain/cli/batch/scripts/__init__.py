"""Job scripts as text, as far as they are the same for all batch systems. Pure.

Map:

- ``shell``: the part of a script that the shell runs
- ``directives``: quoting and options of the lines that the batch system reads
- ``jobs``: the jobs of workers and missions, from the configuration
"""
