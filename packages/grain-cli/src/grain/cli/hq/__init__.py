"""An ``hq`` for tools that speak HyperQueue: four of its commands, which speak to the queue.

It has what Nextflow's executor ``hq`` and aiida-hyperqueue call, with the output modes that they
read. ``python -m grain.cli.hq`` is the command.

Map:

- ``submission``: its options for a job become those of ``grain submit``; no I/O
- ``answers``: jobs as HyperQueue's states, lines and JSON; no I/O
- ``setup``: the directory of the command, and ``grain hq``
"""
