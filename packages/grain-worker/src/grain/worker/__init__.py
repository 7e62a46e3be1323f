"""The worker: runs tasklets, and the external programs that they call, on one node.

Layout, from the task to the command:

- ``job`` runs one task; ``_runner`` serves a head with it, in terms of ``messages``
- ``external`` runs programs: ``_shepherd``, ``_guard``, ``_environment``, ``_mpi``
- ``payload`` makes objects and bytes of each other: ``_pickling`` with ``_reading``, ``_byvalue``
  with ``_enums``, ``_exceptions``, ``_offender``
- ``process`` is the handle on a runner in a process of its own, and tells ``reports``:
  ``_incarnation``, ``_warden``; in that process are ``_child``, ``_context``, ``_translation``,
  ``_watchdog``
- ``auto`` finds out what there is to offer: ``_surroundings``, ``_cgroup``
- ``_agent`` is the worker, ``_command`` its command line; ``_session`` and ``_life`` decide for it
- ``context`` enters context modules in other processes, too
- ``errors`` are this package's own
"""

from grain.worker._runner import Runner as Runner
from grain.worker.errors import TaskletAborted as TaskletAborted
from grain.worker.errors import TaskletError as TaskletError
from grain.worker.job import Call as Call
