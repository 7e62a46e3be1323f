"""The worker: runs tasklets, and the external programs that they call, on one node.

Layout: ``job`` runs one task; ``_runner`` serves a head with it, in terms of ``messages``;
``external`` runs programs; ``errors`` are this package's own.
"""

from grain.worker._runner import Runner as Runner
from grain.worker._session import WorkerSession as WorkerSession
from grain.worker.errors import TaskletAborted as TaskletAborted
from grain.worker.errors import TaskletError as TaskletError
from grain.worker.job import Call as Call
