"""The small processes that start external programs, watch them and end them.

Three kinds of process run this code. ``ps`` shows their names:

- ``grain-forkserv``, the *fork server*: one for each trio run that calls programs. It forks
  supervisors.
- ``grain-supervise``, a *supervisor*: runs one program at a time, from its start to the end of its
  last descendant, and reports how it ended.
- ``grain-subreaper``, a *subreaper*: the parent of one process of Grain's own, which is a worker's
  runner or a process of `grain.subproc`. When that process or its caller ends, the subreaper ends
  everything that the process has started, by whatever means.

Rule: this folder imports nothing of Grain, and little of the standard library (neither pathlib nor
contextlib nor typing, which cost half a megabyte each), as every supervisor is a copy of the whole
process. ``main`` is a script that runs under ``python -I -S``. It puts the folder above on the
search path, so that this folder is the package ``guards``, within which imports are relative: as
``grain.worker.guards`` it would load Grain.

Theory of operation:

1. The *caller* is a trio program. It starts the fork server, a process with a single thread. The
   caller itself is never forked: it may be large and have threads.
2. The fork server forks supervisors on demand. A supervisor serves one call after another, so that
   a call costs one `posix_spawn` and no fork. (A fork of even this small interpreter costs more
   than a run of ``/bin/true``: page tables, and pages copied on write.)
3. A supervisor is a subreaper (PR_SET_CHILD_SUBREAPER in prctl(2)): whatever its program starts
   stays below it in the tree of processes, also after `setsid`, a double fork, or with an empty
   environment. Therefore ECHILD from wait(2) proves that nothing of the program is left.
4. A message, or the end of file, on a supervisor's socket means that the caller cancels the call
   or has died: the supervisor ends the tree. A process forked from the caller may still hold the
   socket after the caller's death, so the supervisor also polls the caller's pidfd (pidfd_open(2)).
5. The fork server is a subreaper, too. If a supervisor is killed, the processes below it become
   children of the fork server, which kills them. This replaces PR_SET_PDEATHSIG: only the child
   could set that for itself, between fork and exec, and `posix_spawn` has no hook there.
6. A program can stop its guards (SIGSTOP), as it runs as the same user. The fork server continues
   supervisors, and the caller the fork server, once a second while it waits for any program; for
   the end of a cancelled one it continues both.
7. Two guards may be killed. If supervisor and fork server of a program are, its processes become
   children of the subreaper. The caller, which cannot know whether they live, ends itself, and so
   the subreaper ends them. If the subreaper is killed, its process dies with it, and supervisors
   end their programs; the process that started the subreaper waits until nothing is left that has
   its mark in the environment (`grain.worker.processes.sweep`).
8. No error of /proc ends a guard: it may hide set-uid programs (``hidepid``). A process that cannot
   be looked at is signalled all the same; what is below it becomes a child of a guard, and
   visible, when it has ended.

Map:

- ``protocol``: the messages between the caller and these processes
- ``proc``: list, signal and reap processes
- ``program``: one external program: search, start, captured output, clean-up
- ``removal``: removal of scratch directories
- ``caller``: the caller as a subreaper sees it: requests, orders, death
- ``group``: the control group of a supervisor, where the site has handed one to the worker
- ``meter``: the memory and the data of a program, by looks at its processes
- ``tree``: wait until a tree of processes is gone; end it where necessary
- ``supervisor``: runs one program after another
- ``fork_server``: forks supervisors, kills what a killed one leaves
- ``subreaper``: the parent of one process of Grain's own
- ``main``: the script that runs one of these two
"""
