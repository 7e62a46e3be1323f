"""Small fakes of Grid Engine, LSF, HTCondor, Flux, OAR and ssh, for the contract of all systems.

There is no controller and no cluster: each job has a shepherd, a process that runs its script at
once and obeys orders, which are files in the job's folder. The commands know the options that Grain
uses and refuse others. Texts, exit codes and signals of Grid Engine and OAR are those of real ones;
those of the others stand in their manuals.
"""

# The general layout; standard library only:
#
#   jobs.py      the folders of jobs: submit, read, order
#   shepherd.py  one job: start, signals, end, start again
#   sge.py ...   the commands of each system: function by name
#   client.py    the main function of each command
#   start.py     for tests: a fake for as long as a `with` block lasts
