"""Missions and their tasks: `grain ls`, `grain why`, `grain cancel`.

Map:

- ``ls``: the command `grain ls`
- ``ls_text``: its tables
- ``why``: the command `grain why`
- ``cancel``: the command `grain cancel`
- ``needs``: the command `grain needs`
"""
