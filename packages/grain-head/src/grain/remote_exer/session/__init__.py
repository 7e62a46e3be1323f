"""A mission's state towards its head: plain state without I/O.

Map:

- ``session``: `MissionSession`, the unresolved tasks and the mail about them
- ``records``: tasks, outcomes, and what else a session hands over
- ``registration``: the mission as its head knows it
- ``requests``: what tasks ask for, and what waits of it
- ``receipts``: outcomes that have arrived and are not confirmed
- ``notices``: reports of heads, which their successors have to repeat
- ``news``: runs that crash and workers that go, for users
- ``inquiries``: questions of either side, and their answers
"""

from grain.remote_exer.session.records import LaneOver as LaneOver
from grain.remote_exer.session.records import LastingMission as LastingMission
from grain.remote_exer.session.records import LostWorker as LostWorker
from grain.remote_exer.session.records import RemoteTask as RemoteTask
from grain.remote_exer.session.records import Resolution as Resolution
from grain.remote_exer.session.records import taken as taken
from grain.remote_exer.session.session import MissionSession as MissionSession
