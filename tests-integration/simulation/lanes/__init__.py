"""Lanes in a world: calls that go straight from a mission to a runner, see `grain.worker.lanes`.

The decisions of both ends are the real ones. Their connection is in order and repeats nothing. It
breaks at any moment, and one end may notice much later than the other.

Map:

- ``ends``: the connection of a lane, and what both of its ends have in common
- ``mission_end``: a mission's end
- ``served``: the run of a lane on a worker, and its calls
"""
