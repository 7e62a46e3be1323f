"""The `grain` command.

A command imports what it needs when it runs, so that the command starts fast.

Map:

- ``app``: the group of all commands, which imports a command to run it
- ``columns``: columns over rows, and what writes them as tables and as fields
- ``completion``: names for a shell's completion
- ``options``: options that several commands share
- ``plugin``: the helpers of commands, for those of other packages too
- ``plugins``: what is installed: the version, commands of other packages, missing libraries
- ``local_missions``: missions that run without a scheduler which others can ask
- ``mission_names``: the missions that words mean, for all commands
- ``mission_records``: the folder of each mission that `grain run` has started
- ``show``: tables, times, resources and JSON as text
- ``query``: a question to the scheduler
- ``streams``: the standard streams, and errors that no command has foreseen
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
- ``jobs/``: `grain submit`, `grain jobs` and other commands for jobs of the queue
- ``queue/``: the queue as commands see it
- ``init/``: `grain init`, which writes a configuration
- ``batch/``: batch systems: scripts, submission, states, cancellation
- ``hq/``: `grain hq`, and an ``hq`` for tools that speak HyperQueue
- ``slurm/``: `grain slurm`, and commands that speak to the queue in Slurm's words
- ``slurm_words/``: these words: options, values, formats, states
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grain.cli.app import main as main
else:
    # Commands that speak Slurm are asked every second, and need neither the group nor click.
    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name == "main":
            return import_module("grain.cli.app").main
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
