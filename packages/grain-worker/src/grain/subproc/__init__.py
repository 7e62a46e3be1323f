"""Synchronous, CPU-bound Python functions in processes of their own.

::

    from grain.subproc import subprocess_pool_scope, subprocify

    @subprocify
    def inertia(positions, masses):         # computes, awaits nothing
        ...

    moments = await (delayed(inertia) @ Cores(1))(positions, masses)

    async with subprocess_pool_scope():     # in a trio program without a mission
        moments = await inertia(positions, masses)

Meanwhile the event loop, and so every other task, goes on. Processes are reused. A process whose
call is cancelled is ended; all of them end with the process that started them, however that dies.

Theory of operation. A call takes an idle process or starts one, and sends the arguments in one
message; the process answers with one message. The process is a fresh interpreter, never a fork of
this one, below a subreaper (`grain.worker.guards`) of its own. Two properties cannot be changed in
a running process: the number of threads, which numerical libraries read once, and the GPUs. They
decide which processes may serve a call. The CPUs are set for each call.

Rules:

1. A process serves one call at a time, and takes a call out of its socket only when it begins it. A
   call that is still there when the process dies goes to another process.
2. The process measures each call by itself. After `FIRST` seconds its subreaper looks at it and at
   all below it, too, and ends what has more than its amount. So brief calls cost no more messages.
3. A call that raises or is cancelled returns only when nothing of its process is left.
4. Tasks that watch a process are shielded and protected from KeyboardInterrupt. They end with their
   process, which `end` brings about.

Map:

- ``decorator``: makes an async function of a synchronous one
- ``target``: the function to call, and how it travels
- ``scope``: opens a pool; finds the pool of a call
- ``pool``: idle and busy processes
- ``process``: one of them, seen from outside
- ``output_pipe``: its output, passed on
- ``wire``: the messages between the two sides
- ``child``: the process, seen from inside
- ``errors``: this package's own
"""

from grain.subproc.decorator import subprocify as subprocify
from grain.subproc.errors import BrokenSubprocessError as BrokenSubprocessError
from grain.subproc.errors import SubprocessMemoryError as SubprocessMemoryError
from grain.subproc.scope import subprocess_pool_scope as subprocess_pool_scope
