"""The state of the scheduler: `grain ls` and `grain why`.

Map:

- ``ls``: the command `grain ls`
- ``ls_text``: its tables
- ``versions_text``: the versions of peers, where they differ
- ``why``: the command `grain why`
"""
