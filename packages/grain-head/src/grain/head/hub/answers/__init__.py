"""The state of a hub as plain data, for people and the commands that serve them.

Nothing here changes a record. The hub does nothing else while it answers, so an answer costs a look
at each worker at most, and no look at each task.

Map:

- ``snapshot``: everything at one moment, for ``grain ls``; facts of a task
- ``overview``: what changes, as often as somebody looks, for ``grain top`` and for metrics
- ``demand``: what tasks ask for, and what workers have, for ``grain scale``
"""
