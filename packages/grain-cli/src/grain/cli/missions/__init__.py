"""Missions as programs that `grain` starts: in the terminal, or going on when the user logs out.

Theory of operation:

1. `grain run` makes a folder for the start in the user's state directory, with what is to run:
   `grain.cli.mission_records`. All hosts that share the home directory read it.
2. A *keeper* runs the program as its child, and writes what becomes of it into that folder: its
   process, a sign of life every 30 s, the exit status. With ``-d`` the keeper has a session of its
   own, so that no signal of the terminal reaches it.
3. The state of a start follows from these files, and from the processes of this host: `state`,
   pure. A keeper that was killed, or whose host was rebooted, leaves no exit status.
4. Each process changes only its own files: so hosts need no locks. A name belongs to one living
   start; of two that are made at the same moment the later number gives way.

Map:

- ``keeper``: the process above the program
- ``state``: what has become of a start
- ``environment``: the variables that a start keeps for the next
- ``logout``: hosts that end processes when their user logs out
- ``starting``: a folder, a keeper, and the first word of it
- ``jobs``: the missions that `grain start` has submitted
- ``run``: `grain run`
- ``resume``: `grain resume`
- ``listing``: `grain missions`
- ``attach``: `grain attach`
- ``progress``: the line on progress below the output that `grain attach` prints
"""
