"""Lanes: calls that a mission sends straight to a runner, past the scheduler.

A call through the scheduler is six messages, one after the other. For calls that take milliseconds,
this is most of their time. So the mission asks the scheduler for *lanes*. These are runs that
connect to the mission, and take its calls one after the other. `grain.worker.lanes` is the other
end, `grain.head.hub.tasks.lanes` the scheduler's part. There are two sorts:

1.  A lane is *lent* for calls that come one by one: while nothing waits for what it holds, and
    until something does. It is asked for when calls of a request have proved to be brief, and
    several in a row found next to nothing waiting. Where one was refused, the next is asked for in
    place of a call, which it has from the beginning: by itself that call might take the room that
    the lane needs.
2.  Where brief calls wait, the mission *holds* them: it keeps them, and asks for lanes in their
    place, as many as they need with a slice for each. Such a lane waits like any task, and so takes
    the mission's turns. When its slice is over, it goes back as soon as others wait.
    The first calls of a request are held before it is known whether they are brief: some wait at
    the scheduler, so no worker is idle, and the others go to lanes, or follow when it turns out
    that they take long, or after a second in which too few have ended.
3.  A lane has a *window* of calls, of its own request: a slice of work, and no more than its part
    of what is held. It is filled again when half of it has ended.
4.  A call belongs to its lane until its outcome has come, the runner has handed it back, or the
    lane is over. What did not begin is held again, in front.
5.  If a lane crashed, the crash counts as one of the call that it had begun last, which goes to the
    scheduler from then on. If its worker is lost, that is not known: then it is the first call.
6.  A call that takes long has those behind it handed back. A lane without a call is given back
    after `LINGER` seconds.

Calls of a lasting mission outlive its process, so it has no lanes.

Map:

- ``traffic``: the calls of one request, whether lanes would serve them, and each such lane
- ``mission``: `MissionLanes`, all lanes of a mission: what they have, what they get, how they end
- ``door``: `LaneDoor`, their connections
"""

from grain.remote_exer.lanes.mission import LASTING as LASTING
from grain.remote_exer.lanes.mission import LINGER as LINGER
from grain.remote_exer.lanes.mission import MOST_WAITING as MOST_WAITING
from grain.remote_exer.lanes.mission import PATIENCE as PATIENCE
from grain.remote_exer.lanes.mission import MissionLanes as MissionLanes
from grain.remote_exer.lanes.traffic import ALONE as ALONE
from grain.remote_exer.lanes.traffic import BRIEF as BRIEF
from grain.remote_exer.lanes.traffic import CallTraffic as CallTraffic
from grain.remote_exer.lanes.traffic import Connection as Connection
from grain.remote_exer.lanes.traffic import Lane as Lane
from grain.remote_exer.lanes.traffic import Way as Way
from grain.remote_exer.lanes.traffic import is_plain as is_plain
