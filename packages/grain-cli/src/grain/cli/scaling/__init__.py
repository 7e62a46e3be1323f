"""The number of workers to keep: the decisions of `grain scale`, without I/O; time is an argument.

`Pool` keeps a number of jobs alive, and knows which of them failed. `Scaler` has one for each
shape of worker, and decides by demand how many there are to be. Its rules, which docs/workers.md
explains:

1.  Need: waiting tasks, those with the largest share of a worker first, are put into the free room
    of workers that have time for them, then into jobs that were asked for, then into new workers.
2.  Worth: the work that waits and runs, less what the workers do in the time that a worker takes
    to come.
3.  Submit as many as are needed, and worth it, and allowed; one at least for a class of tasks that
    has neither a worker nor a job.
4.  Cancel the youngest jobs that wait, if they were not needed for a while.
5.  Release workers that were idle for a while.
6.  Learn: what was cancelled or released too early makes that while longer; and how long workers
    take to come.
7.  Failures begin a pause, and a node where jobs fail in a row is avoided.
8.  A job that runs without its worker is lost: its place is given away, once.
9.  Each decision has a reason, in one line.

Need without worth would start a node for each moment's queue: a thousand workers for a thousand
tasks of a second, which have ended when the workers come. Worth without need would let a few long
tasks wait one after the other. A queue in front of the workers makes an early release expensive,
hence rule 6; a class that fits no worker would start workers without end, so it never counts.

Map:

- ``pool``: jobs of one shape: which count, which failed, and pauses
- ``model``: shapes, classes of tasks, workers: what decisions are made from
- ``configured``: the shapes of a configuration
- ``room``: what fits into a worker
- ``plan``: rules 1 and 2
- ``patience``: rule 6
- ``scaler``: the other rules
"""
