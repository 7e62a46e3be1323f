"""The laws of a world: what holds whatever goes wrong.

Map:

- ``laws``: the invariants that are checked with every message and after every step
- ``promptness``: the laws on what may not last, checked once a second
- ``endurance``: the laws on the runs of lasting missions
- ``turns``: the laws on the turns of missions
- ``overtaking``: the law on tasks that others overtake
- ``displays``: the law of displays: what is shown is what is logged
- ``licences``: the laws on licences that are kept for a task
"""
