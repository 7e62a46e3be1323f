"""The head: the scheduler, and the executors that hand tasks to workers.

Decisions are made without I/O and without a clock: in ``scheduler/``, which decides which task
starts where, and in ``hub/``, which has a scheduler for many missions and workers. Shells around
them do the I/O: ``executor`` around a scheduler for one process; ``service`` around a hub, in a
process of its own (``gnaw/``) or in that of a mission (`grain.remote_exer`).

Map:

- ``messages``: the messages between a mission and a head
- ``scheduler/``: which task starts where and when
- ``needs/``: how much memory and time groups of tasks need
- ``hub/``: one scheduler for many missions and workers
- ``service``: a hub with the channels of its peers
- ``gnaw/``: the process that missions share, run by ``python -m grain.head``
- ``base``: what all executors have in common; their tasks by function and cores
- ``functions``: tasks by function, as a scheduler shows them
- ``executor``: `GrainExecutor`, with a local worker only
- ``validation``: the check of what peers state
- ``events``: what others can see of an executor
- ``output_writers``: two tasks whose programs write to one file at the same time
- ``run_log``: what happens to the tasks of a mission, for its event log
- ``log_words``: requests, amounts and texts, as they stand in it
- ``errors``: the errors of executors
- ``collapse``: one exception instead of a group of one
"""

from grain.head.base import Result as Result
from grain.head.collapse import collapsed as collapsed
from grain.head.collapse import collapsing as collapsing
from grain.head.collapse import flattened as flattened
from grain.head.errors import ExecutorClosed as ExecutorClosed
from grain.head.errors import ExecutorError as ExecutorError
from grain.head.errors import TaskCancelled as TaskCancelled
from grain.head.events import Statistics as Statistics
from grain.head.executor import GrainExecutor as GrainExecutor
from grain.head.scheduler.explain import Explanation as Explanation
from grain.head.scheduler.scheduler import Scheduler as Scheduler
