"""`grain bridge`: the server by which several clusters meet, and its keys.

Map:

- ``command``: `grain bridge serve`, `grain bridge key` and `grain bridge id`
"""
