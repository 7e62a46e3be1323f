"""A bridge, at which the processes of one world of four meet: its server, and the ways by it.

Map:

- ``server``: the server, around the real switchboard, and connections to it and through it
- ``calls``: the way by which a head connects to a peer that cannot connect to it
- ``introductions``: the ways of heads and peers to each other by way of that
"""
