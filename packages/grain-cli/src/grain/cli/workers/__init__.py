"""The jobs of workers and missions: submit them, keep them alive, end them, read their output.

Map:

- ``up``: the command `grain up`
- ``scale``: the command `grain scale`
- ``loop``: its loop that keeps a number of workers alive, and what both of its loops have in common
- ``autoscale``: its loop that keeps as many as the tasks need
- ``scaling_state``: what the latter does, for `grain ls`
- ``start``: the command `grain start`
- ``drain``: the command `grain drain`
- ``logs``: the command `grain logs`
- ``task_logs``: the lines of one task in the output of workers, and its programs' files
- ``shapes``: the sorts of workers of a configuration, and the choice of one
- ``submission``: submitting and recording jobs
- ``jobs``: the jobs that `grain` has submitted, and their states
"""
