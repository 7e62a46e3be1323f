"""The dispatcher of a queue: a mission whose calls are the attempts of submitted jobs.

Rules:

1. The files of the queue are the truth (`grain.queue`). A dispatcher may be killed at any time,
   and there may be two: receipts decide what runs.
2. Its mission lasts (`grain.remote_exer.LastingMission`): runs go on when it dies, and the next
   dispatcher takes them over by the numbers of their tasks.

Map:

- ``plan``: which attempt of which job is next; no I/O.
- ``halting``: which array has had too many failures; no I/O.
- ``unmet``: which requests no worker can meet, for commands; no I/O.
- ``desk``: what it reads from the files, and writes to them.
- ``mission``: the loop between the desk and the executor.
- ``lifetime``: of one that is a batch job: its successor, and its end without work.
"""
