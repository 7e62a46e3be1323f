"""The jobs of workers and missions: submit them, keep them alive, end them, read their output.

Map:

- ``up``: the command `grain up`
- ``scale``: the command `grain scale`, and the loop that keeps a number of workers alive
- ``autoscale``: the loop that keeps as many as the tasks need
- ``loop``: steps until a signal, for both
- ``scaling_state``: what the latter does, for `grain ls`
- ``start``: the command `grain start`
- ``drain``: the command `grain drain`
- ``logs``: the command `grain logs`
- ``task_logs``: the lines of one task in the output of workers, and its programs' files
- ``shapes``: the sorts of workers of a configuration, and the choice of one
- ``submission``: submitting and recording jobs
- ``jobs``: the jobs that `grain` has submitted, and their states
"""
