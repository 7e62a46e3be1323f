"""The shepherd and its keepers: the processes that start external programs and end them.

``main.py`` is run as a script, by ``python -I -S``. It and its neighbours import nothing of Grain
and little of the standard library, as every keeper is a copy of the process: neither pathlib nor
contextlib nor typing, half a megabyte each. (Nor is this file imported; it is to be read.)

Theory of operation:

1. The *caller* (a trio program) starts one *shepherd*, a small process with a single thread. The
   caller itself is never forked: it may be large and have threads.
2. The shepherd forks *keepers* on demand. A keeper minds one program at a time and serves again
   afterwards, so that a call costs one `posix_spawn` and no fork. (Forking even this small
   interpreter costs more than running ``/bin/true``: page tables, and pages copied on write.)
3. A keeper is a subreaper (PR_SET_CHILD_SUBREAPER in prctl(2)): whatever its program starts stays
   below it in the tree of processes, also after `setsid`, a double fork, or with an empty
   environment. Therefore ECHILD from wait(2) proves that nothing of the program is left.
4. A message, or the end of file, on a keeper's socket means that the caller gave up or died: the
   keeper ends the tree. So does the death of the caller's process while a process forked from it
   still holds the socket; its pidfd (pidfd_open(2)) tells.
5. The shepherd is a subreaper, too. If a keeper is killed, the processes it minded become the
   shepherd's children and are killed by it. This stands in for PR_SET_PDEATHSIG, which only the
   child itself could set, between a fork and its exec, and `posix_spawn` cannot.

Messages to a keeper (SOCK_SEQPACKET): ``r``: run the request, with stdin's descriptor attached if
it has one; ``c`` cancels, ``i`` does so in a hurry, as after Ctrl-C. The request itself, of any
size, stands in the memory file that is to hold stdout; the keeper empties that before the program
starts, so a request still in it was never run. The answer is one marshalled tuple. Messages to the
shepherd: ``k`` and a number, with three descriptors: fork a keeper; ``s`` and its number, with one
descriptor: close it as soon as that keeper and all it left are gone. Marshal is safe here: both
ends are the same interpreter on the same machine, parent and child.

The *warden* is a keeper's sibling that minds one process only, a worker's runner: with the runner,
or with its agent, everything ends that the runner started, by whatever means.

Layout: ``processes`` looks at and signals trees of processes, ``program`` starts one, ``minder``
waits for the end of one, ``keeper`` minds one program after the other, ``shepherd`` forks keepers,
``main`` is its script; ``warden`` is a script, too.
"""
