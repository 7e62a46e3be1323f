"""Missions and their tasks: `grain ls`, `grain why` and `grain cancel`.

Map:

- ``ls``: the command `grain ls`
- ``ls_text``: its tables
- ``scaling_text``: what `grain scale --auto` does
- ``versions_text``: the versions of peers, where they differ
- ``why``: the command `grain why`
- ``cancel``: the command `grain cancel`
"""
