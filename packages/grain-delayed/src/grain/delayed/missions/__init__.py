"""Missions: an executor for the leaves, a nursery for the branches, and a block around both.

`opening.mission` is the block. It reads the configuration, opens the cache and the executor, and
makes a `Mission` with a nursery. When the block ends, the nursery waits for the branches, and then
the executor waits for the leaves. If a part fails, structured concurrency cancels the others:
there is no clean-up code but that of the blocks inside of one another.

Rules:

1. The current mission is a context variable, so branches inherit it, and other threads and leaves
   do not see it.
2. Branches begin in the order of their calls; after that, trio decides who runs.
3. A failure that was not awaited is raised at the end of the mission. Nothing is lost silently.
4. Under asyncio, trio is a guest in the same thread; tasklets are trio's there, too.

Map:

- ``turns``: trio tasks that begin in the order in which they were started
- ``executor``: the choice of the executor
- ``event_log``: the log of what happens to the tasks: whether there is one, its end
- ``mission``: `Mission`: leaves, branches, statistics
- ``current``: the mission that a call belongs to
- ``traceback_filter``: short tracebacks where an exception ends the program
- ``ending``: the end of a mission from outside: SIGTERM, SIGHUP, `grain cancel`, a second Ctrl-C
- ``report``: the messages on standard error
- ``opening``: `mission`: the block
- ``options``: what a program says of its mission
- ``asyncio_guest``: the block in asyncio programs
- ``run``: `run`: a mission as a whole program
"""
