"""The result cache: results on disk under keys of what they depend on.

A key has five parts: the function's name, the digest of its code, the digest of what it is bound
to, the user's version, and the digest of the arguments (or what the user's function says). Its hash
is the name of the result's file.

A file is written aside, synced and renamed, so readers see a whole result or none, without locks,
on NFS as well. It begins with a checksum and a record of the key, from which ``explain`` says why a
result was computed. Anything unusable counts as missing: the cache never stops a mission.

Map:

- ``digest``: digests of values and code that are the same in every process
- ``key``: the key of a call
- ``store``: the files, synchronous
- ``cache``: the store in threads, and the choice of its directory
- ``explain``: the reasons why results were computed
- ``command``: the command ``grain cache``
"""
