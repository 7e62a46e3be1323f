"""Lanes: runs that take brief calls straight from their mission, one after the other.

A call that goes through the scheduler is six messages, one after the other. While nothing waits
for the resources of a worker, the scheduler lends them to a mission for a *lane*. That is an
ordinary run, which connects to the mission (`grain.edge.invitation`) and takes calls from it, as a
runner takes them from its agent. Each call uses what the lane was given. `grain.remote_exer.lanes`
has the mission's side.

1.  The mission has one call in a lane at a time. So the next call says that the outcome of the last
    one has arrived; `AckRuns` says so where none follows.
2.  If an outcome is not confirmed when the lane ends, it goes into the outcome of the lane's own
    run. That one travels through agent and scheduler, and is kept until the mission has it.
3.  A call that the mission has sent, and that has no outcome when the lane has ended, did not
    begin, or it crashed with the lane.
4.  A lane that is recalled ends when the call that it has is over; so does one whose mission is
    gone. It begins no call that comes later. A lane that is revoked ends that call, too.

Map:

- ``calls``: `LaneCalls`, which call begins, and which outcome is kept; no I/O
- ``run``: `LaneRun`, the run that a runner starts, with its connection
"""
