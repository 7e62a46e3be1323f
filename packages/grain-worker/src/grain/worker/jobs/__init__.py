"""Jobs of a queue, as a worker runs them.

The receipt of the begin is made before the program starts, and that of the end when its last
process is gone: see `grain.queue`.

Map:

- ``run``: the tasklet that runs one attempt
- ``program``: its program: interpreter, signals, and how it ended
- ``variables``: its environment
- ``lost``: the receipts of attempts whose process has died
- ``standby``: what it needs only if it lasts, or has steps
"""
