"""A mission's side of a scheduler that missions share.

`RemoteExecutor` has the same face as `grain.GrainExecutor`: tasks go in, outcomes come out. Its
state is a `MissionSession`, which does no I/O: it keeps every unresolved task, and after each loss
of the connection it submits them again, to the same scheduler or to its successor. A
`SchedulerLink` sends its messages and hands over the messages that arrive.

Map:

- ``session/``: the mission's tasks and functions, and the messages about them; no I/O
- ``ahead``: tasks that wait in lanes for the end of another one; no I/O
- ``lanes/``: calls that go straight to a runner, past the scheduler
- ``lane_tally``: what is reported of them to the scheduler
- ``functions``: functions as bytes, made once for each object
- ``description``: the call of a task in one line, for questions
- ``connector``: finds the scheduler that missions share, or starts it
- ``link``: keeps the session connected
- ``executor``: `RemoteExecutor`, the shell around all
- ``hosting``: `HostingExecutor`, which has the scheduler within
- ``local``: a worker within the process of a mission
"""

from grain.remote_exer.connector import GnawConnector as GnawConnector
from grain.remote_exer.executor import RemoteExecutor as RemoteExecutor
from grain.remote_exer.hosting import HostingExecutor as HostingExecutor
from grain.remote_exer.session import LastingMission as LastingMission
from grain.remote_exer.session import MissionSession as MissionSession
from grain.remote_exer.session import Resolution as Resolution
