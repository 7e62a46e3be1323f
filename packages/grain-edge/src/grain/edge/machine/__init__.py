"""This machine: its CPUs that workers have taken, and copies of its processes.

Map:

- ``cpu_locks``: the CPUs of this machine that workers have taken
- ``copies``: copies of a process that code in it has forked, and their end
"""
