"""The decisions of a worker's agent: plain state, no I/O.

Events come in through the ``on_...`` methods, with the time in seconds of any clock that does not
go back. The rules stand in `grain.worker.agent`.

Map:

- ``session``: `WorkerSession`, the runs of the worker and the mail about them
- ``records``: the runs that it has, and the intended end of each
- ``registration``: the worker as its head knows it
- ``kept``: the outcomes that missions have yet to take
- ``delayed``: reports that wait for company
"""

from grain.worker.agent.session.kept import IN_MEMORY as IN_MEMORY
from grain.worker.agent.session.kept import MAX_KEPT as MAX_KEPT
from grain.worker.agent.session.session import FLUSH as FLUSH
from grain.worker.agent.session.session import SessionState as SessionState
from grain.worker.agent.session.session import WorkerSession as WorkerSession
