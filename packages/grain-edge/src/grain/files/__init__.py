"""Files, processes and batch jobs of this user; where other users may write, too.

Map:

- ``trust``: code, logs and folders where other users may write
- ``whole``: files that appear whole or not at all
- ``processes``: the identity of a process, by which files and greetings name it
- ``batch_systems``: the table of batch systems
- ``batch_jobs``: which batch jobs of workers are over
- ``hosts``: lists of hosts as batch systems write them
"""
