"""This machine: CPUs that workers have taken, users of sockets, and copies of its processes.

Map:

- ``copies``: copies of a process that code in it has forked, and their end
- ``cpu_locks``: the CPUs of this machine that workers have taken
- ``peer_user``: the user at the other end of a socket within this kernel
"""
