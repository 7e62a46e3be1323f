"""The runner: executes runs, each as a task of trio (``grain-runner`` in `ps`).

The same `Runner` serves in two places. In a mission's own process it is the local worker: its
channel is in memory, and calls travel as objects. In a process of its own, which ``main`` starts
below a subreaper, its channel is a socket to the agent, and bytes travel. A `Translation` is all
that differs.

1. A run begins when its `StartRun` is taken. Those of a lane (`grain.worker.lanes`) begin one after
   the other.
2. `Ended` is sent when nothing of the run is left, with its outcome.
3. When its other end closes the channel, the runner begins nothing any more, lets the runs end,
   leaves the context, and exits. When the agent dies, the subreaper ends the runner.
4. A tasklet that blocks the event loop blocks the runner, which is not death. The agent notices by
   the missing heartbeats. The watchdog reports the code, on a socket of its own, to the agent, from
   which it goes to the mission. The watchdog of a mission is the same.

The runner knows a run only by its attempt; the docstring of `grain.worker.agent` has a table of
all identities.

Map:

- ``runner``: `Runner`, which executes runs
- ``translation``: the boundary between payloads and objects, and the translation in memory
- ``wire_translation``: the translation of bytes, with the functions that have come
- ``settings``: the settings of runs: directory and environment of programs, labels of output
- ``output``: standard output and error, with the run's name in front of each line
- ``wire``: the codec and the pace between agent and runner, reports of blocking
- ``programs``: the external programs of runs, looked up on request, and ended for their memory
- ``main``: the runner's process
- ``context``: the context module
- ``services``: what runs share, as a pool of processes; opened when a run needs it
- ``watchdog``: the code that blocks an event loop, for runners and missions
"""
