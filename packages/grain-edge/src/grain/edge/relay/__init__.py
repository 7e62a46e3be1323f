"""The server of a bridge, which introduces the members of a meeting and copies their bytes.

Its theory of operation stands in `grain.edge.bridge`.

Map:

- ``switchboard``: the server's decisions, without I/O: who leads, who waits for whom, limits
- ``server``: connections in, bytes across
"""
