"""The head: the scheduler, and the executor that hands jobs to workers.

Layout, decisions first; none of these does I/O or knows the time:

- ``_scheduler`` is the policy, with ``_tasks`` (tasks and queues), ``_levels`` (workers by what
  they have free), ``_promise`` (room kept for tasks that were overtaken) and ``_explain``
- ``_hub`` is a scheduler for many missions and workers: ``_ledger`` (one task and its runs),
  ``_ahead`` (brief tasks that wait on workers), ``_quarantine`` (tasks that run alone), ``_staff``
  (workers), ``_clients`` (missions), ``_share`` (who is next), with ``_records`` and ``_snapshot``;
  ``messages`` are what missions and it say; ``_scene`` has scenarios for tests

The shells: ``_base`` is what executors have in common, ``_executor`` has a local worker only;
``service`` around a hub; ``_gnaw``, which ``python -m grain.head`` runs. ``events`` is what others
can see.
"""

from grain.head.base import Result as Result
from grain.head.collapse import collapsed as collapsed
from grain.head.collapse import collapsing as collapsing
from grain.head.collapse import flattened as flattened
from grain.head.errors import Cancelled as Cancelled
from grain.head.errors import ExecutorClosed as ExecutorClosed
from grain.head.errors import ExecutorError as ExecutorError
from grain.head.events import Statistics as Statistics
from grain.head.executor import GrainExecutor as GrainExecutor
from grain.head.scheduler.explain import Explanation as Explanation
from grain.head.scheduler.scheduler import Scheduler as Scheduler
