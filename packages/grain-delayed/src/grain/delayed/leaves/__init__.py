"""Leaves with a policy: looked up in the cache, retried after failures, kept when they end well.

`manager.LeafManager` moves a leaf from one state to the next, and knows nothing of how results are
stored (``grain.delayed.cache``) or when to retry (``retry``). Other leaves never come here.

Map:

- ``retry``: the decision about a failed attempt, without I/O
- ``policy``: the options of `delayed` on caching and retries
- ``snapshot``: calls as they were made, for leaves that run later or more than once
- ``leaf``: the state of one leaf
- ``manager``: the ways between the states
"""
