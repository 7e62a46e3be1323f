"""Lasting missions of a world.

Map:

- ``files``: the files that the processes of such a mission share
- ``dispatcher``: one of these processes
"""
