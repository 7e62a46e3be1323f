"""The `grain` command.

A command imports what it needs when it runs, so that the command starts fast.

Map:

- ``app``: the group of all commands, which imports a command to run it
- ``completion``: names for a shell's completion
- ``options``: options that several commands share
- ``plugin``: the helpers of commands, for those of other packages too
- ``plugins``: the commands of other packages, by entry points; libraries that may be missing
- ``local_missions``: missions that run without a scheduler which others can ask
- ``mission_names``: the missions that words mean, for all commands
- ``mission_records``: the folder of each mission that `grain run` has started
- ``show``: tables, times, resources and JSON as text
- ``query``: a question to the scheduler
- ``streams``: the standard streams, and errors that no command has foreseen
- ``version``: ``--version``, found fast
- ``status/``: `grain ls` and `grain why`
- ``missions/``: `grain run`, `missions`, `attach` and `resume`: missions that outlive the terminal
- ``history/``: `grain history`, and what `grain why` knows of the past
- ``workers/``: `grain up`, `scale`, `start`, `drain` and `logs`, and the jobs that they submit
- ``scaling/``: how many workers `grain scale` keeps: decisions without I/O
- ``bridge/``: `grain bridge`: the server by which several clusters meet
- ``report/``: `grain report`: a page, or a trace, of what happened in a mission
- ``verdict/``: the rules of the verdict of `grain report` and `grain top`
- ``top/``: `grain top`, the live view
- ``doctor/``: `grain doctor` and its checks
- ``init/``: `grain init`, which writes a configuration
- ``batch/``: batch systems: scripts, submission, states, cancellation
"""

from grain.cli.app import main as main
