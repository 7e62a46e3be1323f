"""The head: the scheduler, and the executor that hands jobs to workers.

Layout, decisions first: ``_scheduler`` is the policy, on ``_tasks``, ``_queues`` (their order of
service), ``_levels`` (workers by what they have free), ``_fairness`` and ``_promise`` (room kept
for tasks that were overtaken), and ``_explain``; none of them does I/O or knows the time.
``_executor`` is the async shell around it; ``events`` is what others can see.
"""

from grain.head._executor import GrainExecutor as GrainExecutor
from grain.head._executor import Result as Result
from grain.head._explain import Explanation as Explanation
from grain.head._scheduler import Scheduler as Scheduler
from grain.head.collapse import collapsed as collapsed
from grain.head.collapse import collapsing as collapsing
from grain.head.errors import Cancelled as Cancelled
from grain.head.errors import ExecutorClosed as ExecutorClosed
from grain.head.errors import ExecutorError as ExecutorError
from grain.head.events import Statistics as Statistics
