"""The words and pictures by which a user follows a mission.

`Progress` looks at the mission's statistics, ``lines`` makes text of it, and ``views`` shows that.
Only ``views`` and ``notebook`` do I/O.

Map:

- ``failures``: failures by their cause
- ``estimate``: the time until the tasks that were submitted so far have ended
- ``total``: the calls that a program will make in all, as far as it has said so
- ``progress``: `Progress`: rate, estimate, cores that were given and that compute
- ``lines``: the lines of a terminal and of a log; the summary
- ``views``: the line on a terminal, and the lines of a log
- ``notebook``: the widget in a notebook
"""
