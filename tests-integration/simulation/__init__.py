"""The real hub, worker sessions and mission sessions in virtual time, with everything going wrong.

``python -m simulation --seed N`` replays one seed and logs what happens.

Map:

- ``clock``: the event loop, in virtual time, and the source of all chance
- ``surroundings``: the parts of a world that all of its processes see
- ``wire``: the network: connections that are late, repeat themselves and break
- ``heads``: a head's process around a real hub
- ``bridge``: the server of a bridge, around the real switchboard, in which one world of four meets
- ``introductions``: the ways of heads and peers to each other by way of that
- ``peers``: the processes of workers and missions around real sessions
- ``lasting``: missions that outlive their processes, in one world of five
- ``nonsense``: messages that make no sense
- ``faults``: what goes wrong
- ``cast``: the classes of a world, and how to put faulty ones into their places
- ``setting``: what a seed has drawn, and the processes that are there
- ``world``: all of them together
- ``laws``: the invariants that are checked after every step
- ``promptness``: the laws on what may not last, checked once a second
- ``runs``: many seeds in several processes
- ``mistakes/``: deliberate mistakes, which the laws have to find
"""
