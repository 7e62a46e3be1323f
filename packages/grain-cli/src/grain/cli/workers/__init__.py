"""The jobs of workers and missions: submit them, keep them alive, end them, read their output.

Map:

- ``up``: the command `grain up`
- ``scale``: the command `grain scale`, and the loop that keeps workers alive
- ``swarm``: its decisions, without I/O
- ``start``: the command `grain start`
- ``quit``: the command `grain quit`
- ``logs``: the command `grain logs`
- ``shapes``: the sorts of workers of a configuration, and the choice of one
- ``submission``: submitting and recording jobs
- ``jobs``: the jobs that `grain` has submitted, and their states
"""
