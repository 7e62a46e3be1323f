"""The parts that processes of one machine share: its CPUs, and the user of a socket's other end.

Map:

- ``cpu_locks``: the CPUs of this machine that workers have taken
- ``peer_user``: the user at the other end of a socket within this kernel
"""
