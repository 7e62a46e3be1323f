"""Processes beside ours, seen from ours: their environment, their start, their end.

Two kinds of process do the user's work, each below a small process of its own (the room ``guards``)
that is the parent of all orphans below it, and therefore can end and await everything:

- external programs, below a *supervisor* that the *fork server* of the trio run has forked. Starts
  are frequent and short, so supervisors serve one program after another;
- Grain's own Python processes, a worker's runner and the processes of `grain.subproc`, below a
  *subreaper* each. Starts are rare, as such a process lives long.

Rule: the code that starts a process waits until nothing of it is left, under a shield where it is
cancelled. Only then are the cores and the memory of the task free.

Map:

- ``account``: the account of a run: its times, and what its programs have used
- ``usage_now``: the CPU time and memory of running programs, on request
- ``computing``: how many cores the processes below this one compute on
- ``environment``: from an allocation to environment variables and CPUs
- ``out_of_memory``: the evidence that a program was killed for want of memory
- ``warning``: the warning of a program before it is ended, and signals to it
- ``mpi``: from an allocation to the launcher of an MPI program
- ``supervisor_client``: one supervisor: request, report, output
- ``fork_server_client``: the fork server of a trio run; runs programs
- ``subreaper_client``: one of Grain's own processes: start, end
- ``sweep``: the end of what a killed subreaper has left
- ``child_setup``: the first steps of such a process, in it
"""
