"""The tasks of a hub, from submission to confirmation (`grain.head.hub.state` has their states).

A task waits, runs as a lease on a worker, and ends; if its run comes to nothing it waits again. So
``runs`` calls ``outcomes`` and ``waiting``, ``outcomes`` calls ``waiting``, and none of them calls
back, except that ``waiting`` hands lanes over to ``lanes``, as these do not wait. What each of them
has to say to peers goes through `grain.head.hub.registry.Outgoing`.

Map:

- ``waiting``: tasks that wait: in queues, for workers, for their missions
- ``quarantine``: tasks that crashed, which wait for a worker of their own
- ``runs``: leases: starting, the end of runs, adoption of those that workers report
- ``gangs``: runs on several workers at once, which belong to one task
- ``lanes``: runs that take brief calls straight from their mission
- ``claims``: what waits for the room that these hold
- ``outcomes``: outcomes, crashes, retraction; missions that do not take their outcomes
"""
