"""The files of a queue of jobs: a number that was printed is a promise.

Rules:

1. A file gets its name with its whole content, by a link, and never changes. So processes may be
   killed at any time, on any host, and need no locks. ``docs/queue-files.md`` has the format and
   its laws.
2. The state of a job follows from its file, the receipts of its attempts, and the wishes.
3. All calls block. Nothing here waits, runs a program, or keeps a file open.

Map:

- ``folder``: a queue: submit, ask, begin, end, and read
- ``records``: the contents of its files
- ``errors``: its errors
- ``files``: files that appear whole or not at all
- ``sequence``: numbers without gaps
- ``dispatchers``: who is in charge, and which processes still run
- ``packing``: old jobs take little room, and go
- ``book``: all jobs that are not packed, the view that makes lists fast, and who never begins
- ``notes/``: what only displays read, such as the steps of jobs
- ``states``: the state of a task, from what happened and what was asked
- ``arrays``: arrays as users write them
- ``selectors``: jobs and tasks as users name them
- ``patterns``: the names of files that jobs read and write
"""
