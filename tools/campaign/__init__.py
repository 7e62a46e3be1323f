"""A campaign in which much goes wrong, to look at what the commands show of it, and to measure it.

1,887 tasks in four stages, thirty failures of six kinds, second attempts, a worker that is killed,
and six tasks that fit nowhere. `grain_testkit.campaign` has its functions and failures. There are
two ways to have one:

    python -m tools.campaign write /tmp/campaign      # an event log, in virtual time: a second
    python -m tools.campaign run /tmp/campaign        # a scheduler, workers and a mission: 90 s

``run`` prints two JSON lines at its end: how well `grain whatif` replays the log of that very
mission, and by how much the mission's estimates of the time left were wrong. The folder has the
log, a ``grain.toml`` for the commands, and what the processes printed.

Map:

- ``mission``: the script of the mission
- ``live``: the processes of a campaign that runs
- ``measures``: the log of a campaign against its replay, and estimates against what came
"""
