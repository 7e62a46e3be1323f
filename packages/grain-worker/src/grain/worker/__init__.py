"""The worker: runs tasklets, and the external programs that they call, on one node.

Layout, from the task to the command:

- ``job`` runs one task, ``blocking`` functions that block and ``undelayed`` delayed ones;
  ``_runner`` serves a head with it, in terms of ``messages``; ``_lines`` has what waits in line
- ``external`` runs programs: ``_shepherd``, ``_guard``, ``_environment``, ``_mpi``
- ``payload`` makes objects and bytes of each other: ``_pickling`` with ``_reading``, ``_byvalue``
  with ``_enums``, ``_exceptions``, ``_inprocess``, ``_offender``
- ``process`` is the handle on a runner in a process of its own, and tells ``reports``:
  ``_incarnation``, ``_warden``, ``_wire``; in that process are ``_child``, ``_context``,
  ``_translation``, ``_watchdog``
- ``auto`` finds out what there is to offer: ``_surroundings``, ``_cgroup``
- ``_agent`` is the worker, ``_command`` its command line; ``_session`` and ``_life`` decide for it,
  ``_signals``, ``_limits`` and ``logs`` deal with the system; ``session`` is for who builds another
- ``context`` enters context modules in other processes, too
- ``errors`` are this package's own
"""

from grain.worker.errors import TaskletAborted as TaskletAborted
from grain.worker.errors import TaskletError as TaskletError
from grain.worker.job import Call as Call
from grain.worker.runner.runner import Runner as Runner
