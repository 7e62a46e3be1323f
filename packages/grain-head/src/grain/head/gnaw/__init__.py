"""Gnaw: the scheduler that missions share, as a process of its own.

A mission that finds none starts one (`grain.remote_exer.connector`), and it outlives the mission.
It holds no state that has to survive: when it is killed, the next mission or worker that looks for
it finds or starts a successor.

Map:

- ``main``: the command line, and the process from its start until it was idle for long
- ``counting``: the resources of the whole cluster; commands that tell how many licences there are
- ``asking``: a script that runs such a command, and reads its answer
- ``metrics``: the counts of its hub as metrics of Prometheus
- ``metrics_port``: a small HTTP server for them
- ``pool``: workers that it keeps alive by ``grain scale``
"""
