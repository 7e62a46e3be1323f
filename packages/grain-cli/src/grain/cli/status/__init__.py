"""The state of the scheduler: `grain ls` and `grain why`.

Map:

- ``ls``: the command `grain ls`
- ``ls_text``: its tables
- ``why``: the command `grain why`
"""
