"""Gangs: one run that starts programs on several workers at once.

The run's tasklet is on the first member, the *root*. Each other member has a *seat*: a run of its
own, which holds the allocation there and keeps a small process. The process of the root connects
to those of the seats, and has them start programs: most often the daemons of an MPI library, for
which ``rsh`` takes the place of ssh.

Theory of operation. MPI launchers do not notice the loss of a host for minutes, or ever, and some
leave ranks behind. So all that must not fail is done here:

1. The processes of root and seats beat every 2 s, and believe each other lost after 20 s. Time in
   which a process does not run itself does not count. A connection is never made again: what is
   lost stays lost, and the whole run with it.
2. A seat ends all of its programs when the root says so, when the connection is lost, or when its
   run is cancelled. It ends only when nothing of them is left. So the end of its run tells the
   scheduler that the member is free, and nothing else does.
3. `grain.worker.external.run_external` on the root returns when the program has ended, and nothing
   that it has started is left on any member. So does `run_on_members`, with a program on each.
4. The processes are apart from the runners of their workers, where a tasklet may block the event
   loop for longer than 20 s.

Each process is an ordinary program of its run, which `run_external` starts: so it is bound to the
allocated CPUs, counted, and ended with the run, whatever dies. A seat's programs inherit that.

Map:

- ``part``: a runner's run that is part of a gang
- ``session``: the tasklets' side: lead a gang, and keep a seat
- ``members``: the members, for the programs of the root's tasklet
- ``root``: ``python -m``: the process beside the root's tasklet
- ``member``: ``python -m``: the process of a seat
- ``programs``: the programs that such a process runs for the root
- ``messages``: between root and seats
- ``control``: between a tasklet and its process, and between ``rsh`` and the root
- ``rsh``: what an MPI launcher calls in place of ssh
- ``door``: the ranks that srun starts, which a member accepts
- ``srun``: what srun starts in place of a rank
- ``rank``: what starts each rank: CPUs and devices of its member
"""
