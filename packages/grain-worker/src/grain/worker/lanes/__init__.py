"""Lanes: runs that take brief calls straight from their mission, one after the other.

A call that goes through the scheduler is six messages, one after the other. While nothing waits
for the resources of a worker, the scheduler lends them to a mission for a *lane*. That is an
ordinary run, which connects to the mission (`grain.edge.invitation`) and takes calls from it, as a
runner takes them from its agent. Each call uses what the lane was given. `grain.remote_exer.lanes`
has the mission's side.

1.  The mission sends some calls ahead, each of which begins when the one before it has ended. Their
    ends leave together, as far as that takes a hundredth of a second at most.
2.  An outcome is kept until the mission has confirmed it. What is not confirmed when the lane ends
    goes into the outcome of the lane's own run. That one travels through agent and scheduler, and
    is kept until the mission has it.
3.  When a lane has ended, the calls that the mission has sent and that have no outcome did not
    begin. After a crash some of them did: the last outcomes may be lost with the runner. All begin
    again, and the call that began last is blamed: the runner notes each beginning where its agent
    can read it.
4.  A lane that is recalled ends when the call that it has is over; so does one whose mission is
    gone. It hands back those that wait behind, and begins none that comes later. A lane that is
    revoked ends the call under way, too.

Map:

- ``beginnings``: `Beginnings`, the calls that a runner has begun, as its agent sees them
- ``calls``: `LaneCalls`, which call begins, and which outcomes are kept; no I/O
- ``run``: `LaneRun`, the run that a runner starts, with its connection
"""
