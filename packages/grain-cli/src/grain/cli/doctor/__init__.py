"""`grain doctor` and its checks.

Map:

- ``command``: the command, which runs all checks at once
- ``checks``: findings, and a time limit for checks
- ``installed``: the installed packages
- ``batch``: the batch system, and what its jobs need on this host
- ``disk``: room, locks, and the file system of the current directory
- ``peers``: the versions of workers and missions
- ``meeting``: the address, its file system, the clock, the scheduler
"""
