"""Synchronous, CPU-bound Python functions in processes of their own.

::

    from grain.subproc import subprocess_pool_scope, subprocify

    @subprocify
    def inertia(positions, masses):         # computes, awaits nothing
        ...

    async with subprocess_pool_scope():
        moments = await inertia(positions, masses)

The event loop, and so every other task, goes on meanwhile. Processes are reused; one whose call is
cancelled is ended, and so are all of them with the process that started them, however that dies.

Theory of operation. A call takes an idle process, or a new one, and sends it the arguments in one
message; the process answers with one. The process is a fresh interpreter, never a fork of this
one, below a warden (`grain.worker.guards`) of its own. What cannot be changed in a running process
decides which processes may serve a call: the number of threads, which numerical libraries read
once, and the GPUs. The CPUs are set for each call.

Layout, from the call to the process:

- ``_subprocify`` makes the async function; ``_target`` is what it calls, and how that travels
- ``_scope`` finds the pool, ``_pool`` has the idle and the busy processes
- ``_process`` is one of them, seen from here; ``_output`` passes on what it prints
- ``_child`` is the same, seen from inside; ``_wire`` is what goes between the two
- ``errors`` are this package's own
"""

from grain.subproc.decorator import subprocify as subprocify
from grain.subproc.errors import BrokenSubprocessError as BrokenSubprocessError
from grain.subproc.scope import subprocess_pool_scope as subprocess_pool_scope
