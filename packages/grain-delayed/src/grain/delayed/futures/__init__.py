"""`Executor`: the mission of an executor of `concurrent.futures`, in a thread of its own.

Map:

- ``engine``: the thread with the mission, and the futures of the calls
- ``executor``: `Executor`: the public face
"""
