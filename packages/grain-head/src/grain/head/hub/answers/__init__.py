"""The state of a hub, for the commands that show it: `grain.edge.questions`.

Nothing here changes a record. The hub does nothing else while it answers, so an answer costs a look
at each worker and at what runs there at most, and no look at each task that waits.

The three views stay apart. With 1,000 workers, 64,000 tasks that run and a million that wait, the
snapshot takes some 50 ms of CPU time, the demand 200 ms, and the overview 0.4 ms: one answer for
all would be the slowest for each.

Map:

- ``snapshot``: everything at one moment, for ``grain ls``; facts of a task
- ``overview``: what changes, as often as a user looks, for ``grain top`` and for metrics
- ``demand``: what tasks ask for, and what workers have, for ``grain scale``
"""
