"""The head: the scheduler, the hub around it, and the executors and processes around those.

Decisions come first: ``scheduler`` and ``hub`` do no I/O and read no clock. The shells around them
are ``executor`` (a scheduler with a local worker only), ``service`` (a hub behind an address) and
``gnaw`` (the process that ``python -m grain.head`` runs). Others see ``events``.

Map:

- ``scheduler/``: which task starts where, and when
- ``hub/``: the scheduler for many missions and workers, without I/O
- ``messages``: the messages between missions and a hub
- ``service``: a hub with its connections
- ``gnaw/``: the process that serves a hub to the missions of a user
- ``base``: the parts that all executors have in common
- ``executor``: ``GrainExecutor``, for one mission with its local worker
- ``collapse``: exception groups, made into the exception that matters
- ``errors``: the errors of executors
- ``events``: the events and counts of executors
- ``testing``: tests of the scheduler, for developers (import it by name)
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
