"""One batch job with a worker on each of its nodes: ``grain-worker --nodes N``.

The job's script starts this on the first node. It starts the workers by the launcher of the batch
system, so that the batch system counts and ends them: Slurm's srun, pbs_tmrsh of OpenPBS and PBS
Professional, Torque's pbsdsh, Grid Engine's ``qrsh -inherit``. It ends when all of them have ended.

None of these launchers is fit to pass signals on. srun kills all tasks at once when it gets
SIGTERM; the others do not pass any. So each worker connects to the launching process, by an
invitation (`grain.edge.invitation`), and gets the signals of the job from there. While it cannot
connect, it works all the same, and tries again. The end of the one ends nothing of the others.

Only srun passes the environment on, and others give no secure way for it: a command line can be
read by all users of a node. They pass the path of a file, which only this user may read.

Map:

- ``places``: the nodes of a job, and the command that starts a worker on each; no I/O
- ``launcher``: the process in the job's script
- ``starter``: ``python -m``: what becomes the worker on a node that inherits no environment
- ``part``: a worker's side: its number, its log, and the signals of its job
"""
